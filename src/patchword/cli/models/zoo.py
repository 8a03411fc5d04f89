"""models --zoo: lists the trained models that come along."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from fnmatch import fnmatch
from typing import TYPE_CHECKING

import typer

from patchword.cli.common import console

if TYPE_CHECKING:
    from patchword.zoo.card import ZooCard


def print_zoo(pattern: str, as_json: bool) -> None:
    """Print the models of the zoo whose names match a shell pattern; of one model, its card."""
    from patchword.core.errors import UserError
    from patchword.zoo.card import read_card
    from patchword.zoo.entries import INSTALL, PREFIX, entries, is_installed

    name = pattern.removeprefix(PREFIX)
    found = {one: folder for one, folder in entries().items() if fnmatch(one, name)}
    missing = "" if is_installed() else f"the other models are in a package of their own: {INSTALL}"
    if as_json:
        cards = [asdict(read_card(folder)) for folder in found.values()]
        typer.echo(json.dumps(cards, indent=2, ensure_ascii=False))
        return
    if not entries():
        raise UserError("no model of the zoo is installed", expected="the package patchword-zoo", hint=INSTALL)
    if not found:
        hint = missing or "`patchword models --zoo` lists all"
        raise UserError(f"no model of the zoo matches {pattern!r}", hint=hint)
    if name in found:
        typer.echo(f"{(found[name] / 'README.md').read_text(encoding='utf-8')}\n{found[name]}")
        return
    _print_table([read_card(folder) for folder in found.values()], missing)


def _print_table(cards: "Sequence[ZooCard]", missing: str) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    from patchword.core.disk_space import format_bytes
    from patchword.zoo.entries import PREFIX

    caption = f"`patchword models --zoo NAME` prints the card of one. {missing}".strip()
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for title in ("model", "task", "score", "size", "licence"):
        table.add_column(title, justify="right" if title == "size" else "left", no_wrap=title in ("model", "size"))
    for card in cards:
        score = f"{card.score.text()} ({card.score.part})"
        table.add_row(f"{PREFIX}{card.name}", card.task, score, format_bytes(card.size), card.licence)
    out = console(80)
    out.print(table)
    out.print(caption, highlight=False, markup=False)
