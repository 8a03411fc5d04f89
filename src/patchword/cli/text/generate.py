"""write: the text with which a causal model goes on."""

import json
from typing import TYPE_CHECKING, Annotated

import typer

from patchword.cli.common import Device, Json, console

if TYPE_CHECKING:
    from patchword.recipes.text.inference.generation import GenerationOptions, Prompt
    from patchword.recipes.text.inference.reader import Reader

Field = Annotated[str, typer.Option(metavar="TEXT", help="A field of a news article, of a model such as Grover.")]


def write(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A run of a causal model, or its folder.")],
    prompt: Annotated[
        str, typer.Argument(metavar="TEXT", help="What it begins with, a file that holds it, or - for stdin.")
    ] = "",
    tokens: Annotated[int, typer.Option("--tokens", min=1, help="How many to write at most.")] = 100,
    temperature: Annotated[
        float, typer.Option("--temperature", min=0, help="Below 1 the likely become likelier; 0 draws nothing.")
    ] = 1.0,
    top_k: Annotated[int | None, typer.Option("--top-k", min=1, help="Draw from so many likeliest tokens.")] = None,
    top_p: Annotated[
        float, typer.Option("--top-p", help="Draw from the fewest tokens that have this probability together.")
    ] = 1.0,
    beams: Annotated[int, typer.Option("--beams", min=0, help="Search with so many beams instead of drawing.")] = 0,
    samples: Annotated[int, typer.Option("--samples", min=1, help="How many texts to write.")] = 1,
    seed: Annotated[int, typer.Option("--seed", help="Of what is drawn.")] = 0,
    domain: Field = "",
    date: Field = "",
    authors: Field = "",
    headline: Field = "",
    body: Field = "",
    field: Annotated[str, typer.Option("--field", help="The field of a news article to write.")] = "",
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Go on with a text, word by word, as GPT and Grover do.

    Tokens are drawn by their probability; --top-p 0.95 or --temperature 0.7 leaves the unlikely ones out. It stops
    where the model ends the text, at --tokens, or where it has no position left.

    A model of news writes one --field of an article, given any others.

    Examples:

      patchword write runs/gpt "Once upon a time" --top-p 0.95
      patchword write runs/gpt beginning.txt --tokens 300 --temperature 0.7 --samples 3 --seed 1
      patchword write runs/gpt "The king" --beams 4
      patchword write runs/grover --headline "Cats can talk" --domain news.com --field body --top-p 0.95
    """
    from patchword.recipes.text.inference.generation import GenerationOptions, continue_text, prompt_of_news
    from patchword.recipes.text.inference.reader import open_reader

    wish = GenerationOptions(tokens, temperature, top_k, top_p, beams=beams, seed=seed, samples=samples)
    parts = {"domain": domain, "date": date, "authors": authors, "headline": headline, "body": body}
    given = {name: text for name, text in parts.items() if text}
    _check(prompt, given, field)
    reader = open_reader(model, device)
    begun = prompt_of_news(reader.tokenizer, given, field) if field else _begun(reader, prompt)
    if samples == 1 and not beams and not as_json:
        _tell(reader, begun, wish)
        return
    found = continue_text(reader, begun, wish)
    if as_json:
        told = {"prompt": begun.shown, **({"fields": given, "field": field} if field else {})}
        typer.echo(json.dumps({**told, "texts": [one.to_json() for one in found]}, ensure_ascii=False))
        return
    for number, one in enumerate(found, 1):
        if len(found) > 1:
            console().print(f"-- {number} of {len(found)}", highlight=False, markup=False)
        typer.echo(begun.shown + one.text)


def _check(prompt: str, given: dict[str, str], field: str) -> None:
    from patchword.core.errors import UserError

    if given and not field:
        raise UserError("which field is to be written?", expected="--field NAME", hint="e.g. --field body")
    if prompt and field:
        raise UserError("a text and fields do not go together", expected="one or the other", got=prompt[:40])


def _begun(reader: "Reader", prompt: str) -> "Prompt":
    from patchword.recipes.text.inference.generation import prompt_of
    from patchword.recipes.text.inference.input import piped, whole

    return prompt_of(reader.tokenizer, whole(prompt or piped()).text.rstrip("\r\n"))


def _tell(reader: "Reader", begun: "Prompt", wish: "GenerationOptions") -> None:
    """Words are shown as they come."""
    from patchword.recipes.text.inference.generation import stream_text

    shown = begun.shown
    for piece in stream_text(reader, begun, wish):
        typer.echo(shown + piece, nl=False)
        shown = ""
    typer.echo(shown)
