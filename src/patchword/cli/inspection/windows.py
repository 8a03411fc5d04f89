"""windows: draws which tokens attend to which in a model."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from patchword.cli.common import Download, Fields, Json, Model, Settings, card_of, console, fetch_model, settings_of
from patchword.cli.inspection.windows_of_texts import windows_of_texts

if TYPE_CHECKING:
    from rich.console import Console

    from patchword.analysis.attention_pattern import AttentionPattern
    from patchword.core.grid import Grid


def windows(
    model: Model,
    fields: Fields = None,
    out: Annotated[
        Path,
        typer.Option("--out", metavar="FOLDER", help="Output folder for MODEL.svg and .png, or MODEL-stage-K."),
    ] = Path("windows"),
    token: Annotated[
        str,
        typer.Option(
            "--token",
            metavar="ROW,COLUMN",
            help="The query token: its row and column on the first stage's map, from 0; of a text, its number. "
            "Default: near the middle.",
        ),
    ] = "",
    tokens: Annotated[
        int,
        typer.Option(
            "--tokens",
            metavar="N",
            min=0,
            help="Length of the text, of a model of texts. Default: 16 tokens; of Big Bird, 16 of its blocks.",
            show_default=False,
        ),
    ] = 0,
    stage: Annotated[
        int,
        typer.Option(
            "--stage",
            metavar="K",
            help="Draw and list only this stage, from 1, in large type. Default: all stages. (In the names of weights "
            "and modules, stages count from 0: stage 1 is `stages.0`.) Of a translator: encoder, decoder, memory.",
        ),
    ] = 0,
    as_json: Json = False,
    settings: Settings = None,
    download: Download = False,
) -> None:
    """Draw which tokens attend to which: windows, stripes, pales, reduced keys, causal masks, Big Bird's blocks.

    The figure is a slide of 16:9, drawn from the indices that the model itself uses. One colour marks the tokens that
    the query attends to. With --stage, it also has shifted windows as they are computed and the receptive field. Of a
    model of texts, it is a matrix of queries and keys.

    Examples:

      patchword windows swin-tiny
      patchword windows swin-tiny --stage 1
      patchword windows pale-tiny --token 20,30 --out figures
      patchword windows bigbird-base --tokens 2048
      patchword windows gpt2-small
    """
    from patchword.analysis.attention_pattern import attention_patterns, computed_density, density
    from patchword.cli.models.detectors import is_detector
    from patchword.cli.models.segmenters import is_segmenter
    from patchword.core.errors import UserError
    from patchword.models import REGISTRY
    from patchword.reports.attention_pattern import describe, write_windows

    fetch_model(model, download)
    if is_detector(model) or is_segmenter(model):
        kind = "detector" if is_detector(model) else "segmenter"
        raise UserError(f"{model} is a {kind}", expected="an image classifier, such as the model of its backbone")
    card = card_of(model, settings_of(settings, fields))
    if not REGISTRY.reads_images(card.model):
        windows_of_texts(card, out, token, tokens, stage, as_json)
        return
    if tokens:
        raise UserError(f"{card.model} reads images", expected="--tokens with a model of texts", hint="try image=384")
    found = attention_patterns(card)
    place = _place(token, found[0].grid)
    shown = _of_stage(found, stage)
    files = write_windows(card, found, place, out, stage)
    if as_json:
        rows = [{"pattern": describe(pattern), **pattern.to_json()} for pattern in shown]
        densities = {"density": density(shown), "computed_density": computed_density(shown)}
        record = {"model": card.model, "image": card.config["image"], "token": place, **densities, "patterns": rows}
        typer.echo(json.dumps({**record, "files": [str(file) for file in files]}, indent=2))
    else:
        _print_table(console(130), shown)
        for file in files:
            typer.echo(file)


def _of_stage(found: "list[AttentionPattern]", stage: int) -> "list[AttentionPattern]":
    from patchword.core.errors import UserError

    last = found[-1].stage
    if stage and not 1 <= stage <= last:
        raise UserError(f"there is no stage {stage}", expected=f"1 to {last}" if last > 1 else "1", got=stage)
    return [pattern for pattern in found if stage in (0, pattern.stage)]


def _place(token: str, grid: "Grid") -> tuple[int, int]:
    from patchword.core.errors import UserError

    if not token:
        return 9 * grid.height // 20, 9 * grid.width // 20
    expected = f"ROW,COLUMN with rows 0 to {grid.height - 1} and columns 0 to {grid.width - 1}"
    try:
        row, column = (int(part) for part in token.split(","))
    except ValueError:
        raise UserError("cannot read --token", expected=expected, got=repr(token)) from None
    if not (0 <= row < grid.height and 0 <= column < grid.width):
        raise UserError("the token is outside the first stage's map", expected=expected, got=token)
    return row, column


def _print_table(out: "Console", found: "Sequence[AttentionPattern]") -> None:
    from rich.table import Table

    from patchword.analysis.attention_pattern import by_stage, computed_density, density
    from patchword.reports.attention_pattern import blocks, depth_of, describe, percent

    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in ("stage", "grid", "blocks", "heads", "pattern", "groups", "group size", "density"):
        table.add_column(name, justify="left" if name in ("grid", "blocks", "pattern") else "right", no_wrap=True)
    for stage in by_stage(found):
        for pattern in stage:
            leading = f" + {pattern.grid.prefix}" if pattern.grid.prefix else ""
            table.add_row(
                str(pattern.stage),
                f"{pattern.grid.height} x {pattern.grid.width}{leading}",
                blocks(pattern, depth_of(stage)),
                str(pattern.heads),
                describe(pattern),
                f"{pattern.groups:,}",
                f"{pattern.size:,}",
                percent(pattern.pairs / pattern.all_pairs),
            )
    out.print(table, highlight=False)
    attended, computed = density(found), computed_density(found)
    also = f"; {percent(computed)} are computed, with masked pairs and padding" if computed > attended else ""
    stages = {pattern.stage for pattern in found}
    where = "all blocks and heads" if len(stages) > 1 else f"the blocks and heads of stage {stages.pop()}"
    out.print(f"\nattention density over {where}: {percent(attended)} of all pairs{also}\n", highlight=False)
