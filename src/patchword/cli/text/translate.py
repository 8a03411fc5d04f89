"""translate: translates texts with a trained run."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from patchword.cli.common import Device, Json
from patchword.cli.completion import run_names


def translate(
    run: Annotated[
        str,
        typer.Argument(
            metavar="RUN", help="A run of `patchword train translation`, or zoo:NAME.", autocompletion=run_names
        ),
    ],
    texts: Annotated[
        list[str] | None, typer.Argument(metavar="TEXT...", help="Texts, or - for stdin (the default).")
    ] = None,
    file: Annotated[Path | None, typer.Option("--file", help="A file with one text per line.")] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="Write the translations to this file, one per line.")
    ] = None,
    alignment: Annotated[
        Path | None,
        typer.Option("--alignment", metavar="FIGURE", help="Draw the cross-attention: a .png or .svg file."),
    ] = None,
    beams: Annotated[int, typer.Option("--beams", min=1, help="Beams of the search; 1 is greedy decoding.")] = 5,
    penalty: Annotated[float, typer.Option("--penalty", min=0, help="Length penalty of the beam search.")] = 0.6,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Translate texts, a file of texts, or stdin; one translation per line, in the same order.

    --alignment draws, for one text, which source words each translated word attends to.

    Examples:

      patchword translate runs/translation "A man rides a bike."
      patchword translate runs/translation --file english.txt --out german.txt
      cat english.txt | patchword translate runs/translation > german.txt
      patchword translate runs/translation "A man rides a bike." --alignment bike.png
    """
    from patchword.cli.text.answers import check_places, progress
    from patchword.core.errors import UserError
    from patchword.recipes.text.inference.input import read_texts
    from patchword.recipes.translation.alignment import require_attention
    from patchword.recipes.translation.search import Search
    from patchword.recipes.translation.translating import Translating
    from patchword.reports.attention.alignment import check_figure_path, write_alignment

    if file is not None and texts:
        raise UserError("texts and --file exclude each other", expected="one or the other", got=f"--file {file}")
    if file is not None and not file.is_file():
        raise UserError(f"there is no file {file}")
    requests, search = read_texts([str(file)] if file else texts or ()), Search(beams, penalty)
    check_places(out, alignment)
    if alignment is not None:
        check_figure_path(alignment)
    opened = Translating.open(run, device)
    source = opened.sources(requests)
    if alignment is not None:
        require_attention(opened.model)
        found, figure = opened.alignment(source, search)
        write_alignment(figure, alignment)
        _output([one.text for one in requests], [found], out, as_json, [{"alignment": figure.to_json()}])
        typer.echo(alignment, err=True)
        return
    with progress(len(requests)) as bar:
        translations = opened.texts(source, search, bar)
    _output([one.text for one in requests], translations, out, as_json, [{}] * len(translations))


def _output(
    texts: Sequence[str],
    translations: Sequence[str],
    out: Path | None,
    as_json: bool,
    more: Sequence[dict[str, object]],
) -> None:
    from patchword.core.files import write_text

    lines = [
        json.dumps({"text": text, "translation": found, **others}, ensure_ascii=False) if as_json else found
        for text, found, others in zip(texts, translations, more, strict=True)
    ]
    if out is None:
        typer.echo("\n".join(lines))
        return
    write_text(out, "".join(f"{line}\n" for line in lines))
    typer.echo(f"{out}: {len(lines):,} translations", err=True)
