"""The command, run in this process, since a new one would wait for torch."""

import sys
from collections.abc import Callable

import pytest

from patchword.cli import main

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Runs `patchword ...` in this process; answers the exit code, what it printed, and what it complained about."""

    def run(*words: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["patchword", *map(str, words)])
        capsys.readouterr()
        code = 0
        try:
            main()
        except SystemExit as ended:
            code = int(ended.code or 0)
        told = capsys.readouterr()
        return code, told.out, told.err

    return run


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pictures take a second; a test that does not look at them does without."""
    from patchword.reports import scatter

    monkeypatch.setattr(scatter, "picture", lambda points, *_, **__: {"png": b"", "svg": b""} if points else {})
