"""VERBS: one file a verb. Nothing heavy is imported before a verb runs, so that help is instant."""

import atexit
import os
import sys

from patchword.core.errors import PeerLostError, UserError

FAULTS = "data-faults.txt"  # in the folder one is in


def main() -> None:
    """The `patchword` command."""
    try:
        _run()
    except SystemExit as ended:
        _end_beside_others(ended.code if isinstance(ended.code, int) else int(ended.code is not None))
        raise
    _end_beside_others(0)


def _end_beside_others(code: int) -> None:
    """A process that has met others ends here: threads by which they met, if one is busy while all else is taken down,
    would end it as if it had crashed."""
    joining = sys.modules.get("patchword.training.parallel.rendezvous")
    if joining is not None and joining.rank_of() is not None:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _run() -> None:
    from patchword.cli.app import app

    try:
        app()
    except UserError as error:
        from rich.console import Console

        console = Console(stderr=True, soft_wrap=True)
        first, *rest = str(error).splitlines()
        console.print(f"[bold red]error:[/bold red] {_plain(first)}", highlight=False)
        for line in [*rest, *_whole_list(error)]:
            console.print(f"  {_plain(line)}", highlight=False)
        sys.exit(2)
    except PeerLostError as error:
        print(error, file=sys.stderr)
        sys.exit(1)


def _whole_list(error: UserError) -> list[str]:
    """Where all faults of some data are written down, if they are more than a message shows."""
    from patchword.data.faults import SHOWN, DataError, told

    if not isinstance(error, DataError) or len(told(error.faults)) == len(told(error.faults, None)):
        return []
    import tempfile
    from pathlib import Path

    from patchword.core.files import write_text

    for folder in (Path.cwd(), Path(tempfile.gettempdir())):
        try:
            write_text(folder / FAULTS, "\n".join(told(error.faults, None)) + "\n")
            return [f"the first {SHOWN} of each kind; all of them are in {folder / FAULTS}"]
        except UserError:
            continue
    return []


def _plain(text: str) -> str:
    from rich.markup import escape

    return escape(text)
