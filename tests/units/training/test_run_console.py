"""Where progress is animated: in a terminal, and nowhere else."""

import io
import subprocess
import sys

import pytest

from patchword.training.console import run_console


class Stream(io.StringIO):
    """What a notebook gives a program as its output: ipykernel sets FORCE_COLOR besides."""

    def __init__(self, terminal: bool) -> None:
        super().__init__()
        self.terminal = terminal

    def isatty(self) -> bool:
        return self.terminal


@pytest.mark.parametrize("name", ["stdout", "stderr"])
@pytest.mark.parametrize("terminal", [True, False])
def test_only_a_terminal_shows_animations(name, terminal, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-color")
    monkeypatch.delenv("TTY_INTERACTIVE", raising=False)  # which the command sets for its process
    monkeypatch.setattr(sys, name, stream := Stream(terminal))
    console = run_console(stderr=name == "stderr")
    assert console.is_interactive == terminal
    assert not console.is_jupyter
    with console.status("translating"):
        pass
    assert ("translating" in stream.getvalue()) == terminal
    assert ("\x1b[?25l" in stream.getvalue()) == terminal  # hides the cursor


def test_the_command_animates_nothing_in_a_pipe_with_forced_colours(tmp_path, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.delenv("TTY_INTERACTIVE", raising=False)
    script = "import sys, patchword.cli; sys.argv = ['patchword', 'data', 'check', 'digits']; patchword.cli.main()"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
    assert "\x1b[2K" not in done.stdout + done.stderr  # erases a line, as each frame of an animation does
    assert "\x1b[?25" not in done.stdout + done.stderr  # hides or shows the cursor
