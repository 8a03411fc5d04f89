"""evaluate: a run on its test set."""

from typing import Annotated

import typer

from patchword.cli.common import RunArgument, console, find_run, finish


def evaluate(
    run: RunArgument, device: Annotated[str, typer.Option("--device", help="auto, cpu, cuda, ...")] = "auto"
) -> None:
    """Evaluate a run's best weights on the test set: loss, each class, overall; refreshes the report."""
    finish(find_run(run), console(), device)
