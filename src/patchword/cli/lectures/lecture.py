"""lecture: lists what the lectures show, with the command, the published figures and ours."""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from patchword.cli.common import Json, console

if TYPE_CHECKING:
    from rich.console import Console

    from patchword.lectures.index import Deck, Item


def lecture(
    context: typer.Context,
    words: Annotated[
        list[str] | None, typer.Argument(metavar="[WORD]...", help="Only items with every word, e.g. swin.")
    ] = None,
    deck: Annotated[int | None, typer.Option("--deck", metavar="NUMBER", help="Only this deck, from 1 to 5.")] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Run the small form of each command, on small files, and count.")
    ] = False,
    as_json: Json = False,
) -> None:
    """List what the lectures show, in their order: the command that reproduces it, the published figures and ours.

    Items whose figures are published only, or that have no command yet, say why.

    --check runs the small form of every command that has one in a temporary folder and reports those that fail; names
    such as zoo:bert-mini need the package patchword-zoo, and are skipped without it.

    Examples:

      patchword lecture
      patchword lecture swin
      patchword lecture --deck 4
      patchword lecture exercise --check
    """
    from patchword.core.errors import UserError
    from patchword.lectures.index import chosen_decks, to_json

    chosen = chosen_decks(words or (), deck)
    if check and as_json:
        raise UserError("--check prints lines, not JSON", expected="either --check or --json")
    if check:
        from patchword.cli.lectures.checking import check_decks

        program = context.find_root().command

        def run(words: list[str]) -> object:
            return program.main(words, prog_name="patchword", standalone_mode=False)

        raise typer.Exit(1 if check_decks(chosen, run, console()) else 0)
    if as_json:
        typer.echo(json.dumps(to_json(chosen), indent=2, ensure_ascii=False))
        return
    print_decks(chosen, console(), whole=not words and deck is None)


def print_decks(chosen: "Sequence[Deck]", out: "Console", whole: bool) -> None:
    """Print items by deck and section. whole: every item, so the counts are printed, too"""
    from patchword.lectures.page import counts

    for deck in chosen:
        out.print(f"[bold]{deck.number}. {deck.title}[/bold]", highlight=False)
        for section in deck.sections:
            out.print(f"\n  [bold]{section.title}[/bold]", highlight=False)
            for item in section.items:
                _print_item(item, out)
        out.print()
    if whole:
        out.print(counts().replace(". ", ".\n"), highlight=False, markup=False)


def _print_item(item: "Item", out: "Console") -> None:
    out.print(f"  {item.item}" + (" (above)" if item.again else ""), highlight=False, markup=False)
    if item.again:
        return
    table = item.published_table()
    lines = [("", command) for command in item.command]
    if table is not None:
        lines.append(("published", f"{table.title} ({table.source})"))
    if item.published:
        lines.append(("published", f"{item.published} ({item.source})"))
    if item.ours:
        lines.append(("ours", f"{item.ours} ({', '.join(item.result)})"))
    if item.state != "runs":
        lines.append((item.state, item.why))
    if item.note:
        lines.append(("note", item.note))
    for label, text in lines:
        out.print(f"      {label + ': ' if label else ''}{text}", highlight=False, markup=False)
