"""windows: who meets whom in a model's attention, drawn."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from patchword.cli.common import Json, Model, Settings, card_of, console

if TYPE_CHECKING:
    from rich.console import Console

    from patchword.analysis.attention_pattern import AttentionPattern
    from patchword.core.grid import Grid


def windows(
    model: Model,
    out: Annotated[Path, typer.Option("--out", metavar="FOLDER", help="Where MODEL.svg and MODEL.png go.")] = Path(
        "windows"
    ),
    token: Annotated[
        str,
        typer.Option(
            "--token",
            metavar="ROW,COLUMN",
            help="The token that asks: its place on the first stage's map, from 0. Without it, one near the middle.",
        ),
    ] = "",
    as_json: Json = False,
    settings: Settings = None,
) -> None:
    """Draw which tokens meet in each stage: windows, stripes, pales, reduced keys, from the model's own indices."""
    from patchword.analysis.attention_pattern import computed_share, density, meetings
    from patchword.reports.attention_pattern import pattern, write_windows

    card = card_of(model, settings)
    found = meetings(card)
    place = _place(token, found[0].grid)
    files = write_windows(card, found, place, out)
    if as_json:
        rows = [{"pattern": pattern(meeting), **meeting.to_json()} for meeting in found]
        shares = {"share": density(found), "computed_share": computed_share(found)}
        told = {"model": card.model, "image": card.config["image"], "token": place, **shares, "meetings": rows}
        typer.echo(json.dumps({**told, "files": [str(file) for file in files]}, indent=2))
    else:
        _print_table(console(130), found)
        for file in files:
            typer.echo(file)


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
        raise UserError("the token is outside of the first stage's map", expected=expected, got=token)
    return row, column


def _print_table(out: "Console", found: "Sequence[AttentionPattern]") -> None:
    from rich.table import Table

    from patchword.analysis.attention_pattern import by_stage, computed_share, density
    from patchword.reports.attention_pattern import blocks, depth_of, pattern, percent

    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in ("stage", "grid", "blocks", "heads", "who meets", "groups", "group size", "of all pairs"):
        table.add_column(name, justify="left" if name in ("grid", "blocks", "who meets") else "right", no_wrap=True)
    for stage in by_stage(found):
        for meeting in stage:
            leading = f" + {meeting.grid.prefix}" if meeting.grid.prefix else ""
            table.add_row(
                str(meeting.stage),
                f"{meeting.grid.height} x {meeting.grid.width}{leading}",
                blocks(meeting, depth_of(stage)),
                str(meeting.heads),
                pattern(meeting),
                f"{meeting.groups:,}",
                f"{meeting.size:,}",
                percent(meeting.pairs / meeting.all_pairs),
            )
    out.print(table, highlight=False)
    met, computed = density(found), computed_share(found)
    also = f"; {percent(computed)} are computed: masked pairs and padding, too" if computed > met else ""
    out.print(f"\nof all pairs, over all blocks and heads: {percent(met)} meet{also}\n", highlight=False)
