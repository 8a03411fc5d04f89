"""VERBS: one file a verb. Nothing heavy is imported before a verb runs, so that help is instant."""

import sys

from patchword.core.errors import UserError


def main() -> None:
    """The `patchword` command."""
    from patchword.cli.app import app

    try:
        app()
    except UserError as error:
        from rich.console import Console

        console = Console(stderr=True, soft_wrap=True)
        first, *rest = str(error).splitlines()
        console.print(f"[bold red]error:[/bold red] {_plain(first)}", highlight=False)
        for line in rest:
            console.print(f"  {_plain(line)}", highlight=False)
        sys.exit(2)


def _plain(text: str) -> str:
    from rich.markup import escape

    return escape(text)
