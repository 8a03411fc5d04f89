"""doctor: checks the installation and prints the command that fixes each problem."""

import typer

from patchword.cli.common import console


def doctor() -> None:
    """Check the installation: Python, torch, GPU, optional packages, data sets, disk space.

    Each problem comes with the command that fixes it. The exit code is 1 if something is broken, else 0.

    Example:

      patchword doctor
    """
    from rich.markup import escape

    from patchword.cli.doctor_checks import examine

    out, broken = console(), False
    marks = {"good": "[green]ok    [/green]", "absent": "[dim]absent[/dim]", "broken": "[red]broken[/red]"}
    for check in examine():
        broken |= check.state == "broken"
        out.print(f"{marks[check.state]} [bold]{check.name:<15}[/bold] {escape(check.found)}", highlight=False)
        if check.fix:
            out.print(f"{'':23}[yellow]{escape(check.fix)}[/yellow]", highlight=False)
    raise typer.Exit(1 if broken else 0)
