"""models --zoo: lists the trained models that come along."""

import json
from dataclasses import asdict
from fnmatch import fnmatch

import typer

from patchword.cli.common import console


def print_zoo(pattern: str, as_json: bool) -> None:
    """Print the models of the zoo whose names match a shell pattern: task, size, licence and score."""
    from rich.table import Table

    from patchword.core.disk_space import format_bytes
    from patchword.core.errors import UserError
    from patchword.zoo.card import read_card
    from patchword.zoo.entries import PREFIX, entries, is_installed

    found = [read_card(folder) for name, folder in entries().items() if fnmatch(name, pattern.removeprefix(PREFIX))]
    missing = "" if is_installed() else "the other models are in a package of their own: pip install patchword-zoo"
    if as_json:
        typer.echo(json.dumps([asdict(card) for card in found], indent=2, ensure_ascii=False))
        return
    if not found:
        raise UserError(
            f"no model of the zoo matches {pattern!r}", hint=missing or "`patchword models --zoo` lists all"
        )
    table = Table(caption=f"The card of each is README.md in its folder. {missing}".strip(), caption_justify="left")
    for title in ("model", "task", "score", "size", "licence"):
        table.add_column(title, justify="right" if title == "size" else "left")
    for card in found:
        table.add_row(f"{PREFIX}{card.name}", card.task, card.score.text(), format_bytes(card.size), card.licence)
    console(100).print(table)
