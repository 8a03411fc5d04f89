"""evaluate: a run on its test set."""

from typing import Annotated

import typer

from patchword.cli.common import Device, RunArgument, console, find_run, finish


def evaluate(
    run: RunArgument,
    fields: Annotated[list[str] | None, typer.Argument(metavar="[FIELD=VALUE]...", help="Fields to change.")] = None,
    device: Device = "auto",
) -> None:
    """Evaluate a run's best weights on the test set: loss, each class, overall; refreshes the report.

    With fields such as test=FILE it is tried on other data; its own result and report stay as they are.

    Examples:

      patchword evaluate runs/demo
      patchword evaluate runs/squad test=other.json language=chinese
    """
    from patchword.recipes.evaluation import evaluated
    from patchword.reports.run.kinds import result_lines

    found = find_run(run)
    if not fields:
        finish(found, console(), device)
        return
    for line in result_lines(evaluated(found, found.recipe().with_settings(fields), device)):
        console().print(line, highlight=False, markup=False)
