"""The command, run in this process, since a new one would wait for torch; and a run to look at."""

import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from torch._subclasses import FakeTensorMode

from patchword.cli import main
from patchword.kernels.common import availability
from patchword.kernels.common import launch as launching
from patchword.recipes import find_recipe
from patchword.recipes import train as recipe_run
from patchword.recipes.train import train
from support.material import QUICK, silent
from support.speed.interpreted import hasten
from support.speed.quick_export import share_operators

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
        output = capsys.readouterr()
        return code, output.out, output.err

    return run


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pictures take a second; a test that does not look at them does without."""
    from patchword.reports.comparison import scatter

    monkeypatch.setattr(scatter, "scatter_figure", lambda points, *_, **__: {"png": b"", "svg": b""} if points else {})


@pytest.fixture
def unpainted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same of all figures: they are made, and an empty picture is saved."""
    from matplotlib.figure import Figure

    monkeypatch.setattr(Figure, "savefig", lambda figure, file, **_: file.write(b"<svg></svg>"))


@pytest.fixture(autouse=True, scope="module")
def _rough_figures(request: pytest.FixtureRequest) -> Iterator[None]:
    """Outside the tests of reports, figures are drawn without a layout, which takes as long as drawing them."""
    from matplotlib.figure import Figure

    save = Figure.savefig

    def saved(figure: Figure, file: object, **settings: object) -> None:
        figure.set_layout_engine("none")
        save(figure, file, **settings | {"bbox_inches": None})

    with pytest.MonkeyPatch.context() as patch:
        if "reports" not in request.path.parts:
            patch.setattr(Figure, "savefig", saved)
        yield


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of one epoch; tests that change it copy it first."""
    folder = tmp_path_factory.mktemp("trained") / "runs" / "digits"
    train(find_recipe("digits-vit").with_settings(QUICK), folder, silent())
    return folder


@pytest.fixture
def mine(trained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained, tmp_path / "mine"))


@pytest.fixture(scope="session")
def quick_onnx() -> None:
    """For tests that export many models."""
    share_operators()


@pytest.fixture(scope="session")
def triton() -> object:
    """asked for by tests that run a kernel, on a GPU or in Triton's interpreter"""
    found = pytest.importorskip("triton")
    if not torch.cuda.is_available():
        hasten()
    return found


@pytest.fixture
def hopper(monkeypatch: pytest.MonkeyPatch) -> Iterator[torch.device]:
    """A GPU that is not there: tensors without numbers can lie on it, and every kernel works."""
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    monkeypatch.setattr(availability, "_version", lambda: "3.6.0")
    monkeypatch.setattr(launching, "sm_count", lambda device: 132)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    for trial in availability._SELF_TESTS:
        monkeypatch.setattr(trial, "found", {0: True})
    with FakeTensorMode():
        yield torch.device("cuda")


@pytest.fixture
def stop_after(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Ask the next run to stop after `steps` steps; 0 is never."""

    def arrange(steps: int) -> None:
        @contextmanager
        def counting() -> Iterator[object]:
            taken = iter(range(1, 10_000))
            yield lambda: next(taken) == steps

        monkeypatch.setattr(recipe_run, "interruptible", counting)

    return arrange
