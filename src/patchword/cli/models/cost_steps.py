"""The steps of a count, as `cost --steps` prints them."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from patchword.analysis.cost import Cost


def print_steps(out: "Console", chosen: "Cost") -> None:
    """Print every formula with its numbers, and the meaning of the letters."""
    for title, attribute in (("MACs", "macs"), ("Parameters", "parameters")):
        lines = [(line.label, getattr(line, attribute)) for line in chosen.lines if getattr(line, attribute)]
        width = max((len(label) for label, _ in lines), default=0)
        out.print(f"[bold]{title}[/bold]")
        for label, expression in lines:
            out.print(f"  {label:<{width}}  {expression.working()}", highlight=False)
        out.print()
    letters = ", ".join(
        f"{name} = {' or '.join(str(value) for value in values)} ({meaning})"
        for name, (values, meaning) in chosen.symbols().items()
    )
    out.print(f"[dim]{letters}[/dim]\n", highlight=False)
