"""doctor: what this machine has, what is broken, and the command that mends it."""

import typer

from patchword.cli.common import console


def doctor() -> None:
    """Check this machine: Python, torch, GPU, optional packages, data sets; exit code 1 if something is broken."""
    from rich.markup import escape

    from patchword.cli.doctor_checks import examine

    out, broken = console(), False
    marks = {"good": "[green]ok    [/green]", "absent": "[dim]absent[/dim]", "broken": "[red]broken[/red]"}
    for check in examine():
        broken |= check.state == "broken"
        out.print(f"{marks[check.state]} [bold]{check.name:<14}[/bold] {escape(check.found)}", highlight=False)
        if check.mend:
            out.print(f"{'':22}[yellow]{escape(check.mend)}[/yellow]", highlight=False)
    raise typer.Exit(1 if broken else 0)
