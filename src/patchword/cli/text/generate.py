"""generate: continues a text with a causal language model."""

import json
from typing import TYPE_CHECKING, Annotated

import typer

from patchword.cli.common import Device, Download, Json, console, fetch_model
from patchword.cli.completion import run_names

if TYPE_CHECKING:
    from patchword.pipelines.texts import TextEngine
    from patchword.recipes.text.inference.generation import GenerationOptions, Prompt

Field = Annotated[str, typer.Option(metavar="TEXT", help="A field of the news article, for models such as Grover.")]


def generate(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="A causal language model: a run, folder, zoo:NAME, or hf:OWNER/REPO.",
            autocompletion=run_names,
        ),
    ],
    prompt: Annotated[
        str, typer.Argument(metavar="TEXT", help="The prompt, a file that holds it, or - for stdin.")
    ] = "",
    tokens: Annotated[int, typer.Option("--tokens", min=1, help="Maximum number of new tokens.")] = 100,
    temperature: Annotated[
        float,
        typer.Option("--temperature", min=0, help="Below 1: fewer unlikely tokens; 0: always the most likely one."),
    ] = 1.0,
    top_k: Annotated[int | None, typer.Option("--top-k", min=1, help="Sample from the K most likely tokens.")] = None,
    top_p: Annotated[
        float, typer.Option("--top-p", help="Sample from the smallest set of tokens with this total probability.")
    ] = 1.0,
    beams: Annotated[int, typer.Option("--beams", min=0, help="Beam search with this many beams, no sampling.")] = 0,
    samples: Annotated[int, typer.Option("--samples", min=1, help="How many texts to generate.")] = 1,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the sampling.")] = 0,
    domain: Field = "",
    date: Field = "",
    authors: Field = "",
    headline: Field = "",
    body: Field = "",
    field: Annotated[str, typer.Option("--field", help="The field of the news article to generate.")] = "",
    device: Device = "auto",
    download: Download = False,
    as_json: Json = False,
) -> None:
    """Continue a text with a causal language model such as GPT or Grover.

    Tokens are sampled by their probability; --top-p 0.95 or --temperature 0.7 avoids the unlikely ones. Generation
    stops at the model's end-of-text token, after --tokens tokens, or at the model's maximum length.

    A model of news articles generates one --field, given any of the others.

    Examples:

      patchword generate runs/gpt "Once upon a time" --top-p 0.95
      patchword generate runs/gpt beginning.txt --tokens 300 --temperature 0.7 --samples 3 --seed 1
      patchword generate runs/gpt "The king" --beams 4
      patchword generate runs/grover --headline "Cats can talk" --domain news.com --field body --top-p 0.95
    """
    from patchword.pipelines.texts import TextEngine
    from patchword.recipes.text.inference.generation import GenerationOptions, prompt_of_news

    options = GenerationOptions(tokens, temperature, top_k, top_p, beams=beams, seed=seed, samples=samples)
    parts = {"domain": domain, "date": date, "authors": authors, "headline": headline, "body": body}
    given = {name: text for name, text in parts.items() if text}
    _check(prompt, given, field)
    fetch_model(model, download)
    engine = TextEngine.open(model, device)
    start = prompt_of_news(engine.reader.tokenizer, given, field) if field else _read_prompt(engine, prompt)
    if samples == 1 and not beams and not as_json:
        _stream(engine, start, options)
        return
    found = engine.generate(start, options)
    if as_json:
        record = {"prompt": start.shown, **({"fields": given, "field": field} if field else {})}
        typer.echo(json.dumps({**record, "texts": [one.to_json() for one in found]}, ensure_ascii=False))
        return
    for number, one in enumerate(found, 1):
        if len(found) > 1:
            console().print(f"-- {number} of {len(found)}", highlight=False, markup=False)
        typer.echo(start.shown + one.text)


def _check(prompt: str, given: dict[str, str], field: str) -> None:
    from patchword.core.errors import UserError

    if given and not field:
        raise UserError("no field to generate was named", expected="--field NAME", hint="e.g. --field body")
    if prompt and field:
        raise UserError("a prompt and fields exclude each other", expected="one or the other", got=prompt[:40])


def _read_prompt(engine: "TextEngine", prompt: str) -> "Prompt":
    from patchword.recipes.text.inference.input import piped, whole

    return engine.prompt(whole(prompt or piped()).text.rstrip("\r\n"))


def _stream(engine: "TextEngine", start: "Prompt", options: "GenerationOptions") -> None:
    """Print the text while it is generated."""
    shown = start.shown
    for piece in engine.stream(start, options):
        typer.echo(shown + piece, nl=False)
        shown = ""
    typer.echo(shown)
