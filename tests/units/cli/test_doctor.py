import importlib
import importlib.metadata
import types

import pytest
import torch

from patchword.cli import doctor_checks as checks
from support.material import idx_bytes, without_sets, write_idx_set


@pytest.fixture(autouse=True)
def _no_sets(tmp_path, monkeypatch):
    without_sets(monkeypatch, tmp_path)


def imported_as(monkeypatch, name: str, outcome: object) -> None:
    """Makes one module importable, or its import fail."""
    original = importlib.import_module

    def pretend(wanted: str, *rest: object) -> object:
        if wanted != name:
            return original(wanted, *rest)
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    monkeypatch.setattr(importlib, "import_module", pretend)


def version_of(monkeypatch, name: str, version: str | None) -> None:
    original = importlib.metadata.version

    def pretend(wanted: str) -> str:
        if wanted != name:
            return original(wanted)
        if version is None:
            raise importlib.metadata.PackageNotFoundError(wanted)
        return version

    monkeypatch.setattr(importlib.metadata, "version", pretend)


def found(name: str) -> checks.Check:
    (check,) = (check for check in checks.examine() if check.name == name)
    return check


@pytest.mark.parametrize(
    "failure",
    [
        RuntimeError("operator torchvision::nms does not exist\nand more"),
        ImportError("libcudart.so.11: cannot open shared object file"),
        AttributeError("partially initialized module 'torchvision'"),
        OSError("undefined symbol"),
    ],
    ids=lambda failure: type(failure).__name__,
)
def test_a_torchvision_that_cannot_be_imported_is_broken(monkeypatch, failure, command):
    version_of(monkeypatch, "torchvision", "0.21.0")
    imported_as(monkeypatch, "torchvision", failure)
    check = found("torchvision")
    assert check.state == "broken"
    assert check.found == f"0.21.0 is installed and cannot be imported: {str(failure).splitlines()[0]}"
    assert check.fix.startswith("pip uninstall torchvision")
    code, output, _ = command("doctor")
    assert code == 1
    assert "broken torchvision     0.21.0 is installed and cannot be imported" in output
    assert "pip uninstall torchvision" in output


def test_a_good_torchvision_is_good(monkeypatch):
    version_of(monkeypatch, "torchvision", "0.28.0")
    imported_as(monkeypatch, "torchvision", types.ModuleType("torchvision"))
    assert found("torchvision") == checks.Check("torchvision", "good", "0.28.0, not needed")


def test_no_torchvision_is_no_fault(monkeypatch):
    version_of(monkeypatch, "torchvision", None)
    imported_as(monkeypatch, "torchvision", ModuleNotFoundError("No module named 'torchvision'"))
    assert found("torchvision").state == "absent"


@pytest.mark.parametrize(
    ("failure", "state", "fix"),
    [
        (ModuleNotFoundError("gone", name="tensorboard"), "absent", "pip install 'patchword[log]'"),
        (ModuleNotFoundError("gone", name="six"), "broken", "pip install --force-reinstall tensorboard"),
        (RuntimeError("numpy 2 is not 1"), "broken", "pip install --force-reinstall tensorboard"),
    ],
    ids=["not installed", "half installed", "fails"],
)
def test_an_extra_is_absent_or_broken(monkeypatch, failure, state, fix):
    imported_as(monkeypatch, "tensorboard", failure)
    check = found("tensorboard")
    assert (check.state, check.fix) == (state, fix)


def test_the_command_that_mends_is_printed_as_it_must_be_typed(monkeypatch, command):
    imported_as(monkeypatch, "tensorboard", ModuleNotFoundError("gone", name="tensorboard"))
    code, output, _ = command("doctor")
    assert code == 0  # an absent extra is no fault
    assert "pip install 'patchword[log]'" in output


@pytest.mark.parametrize(("version", "state"), [("2.10.1", "broken"), ("2.11.0", "good"), ("3.0.0+cu130", "good")])
def test_an_old_torch_is_broken(monkeypatch, version, state):
    monkeypatch.setattr(torch, "__version__", version)
    assert found("torch").state == state


def test_data_sets_are_counted_and_broken_ones_named(tmp_path):
    assert found("mnist").state == "absent"
    assert found("mnist").fix == "patchword data get mnist"
    write_idx_set(tmp_path / "mnist")
    assert found("mnist").state == "good"
    assert found("mnist").found.startswith("30 training images, data folder")
    (tmp_path / "mnist" / "train-images-idx3-ubyte").write_bytes(idx_bytes([1, 2])[:-1])
    check = found("mnist")
    assert check.state == "broken"
    assert "is truncated" in check.found
    assert check.fix == f"remove {tmp_path / 'mnist'}, then: patchword data get mnist"


def test_a_full_disk_is_broken(monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda _: types.SimpleNamespace(free=2**20))
    assert found("disk").state == "broken"


def test_every_check_is_independent_and_told(command):
    code, output, complaint = command("doctor")
    names = [check.name for check in checks.examine()]
    assert {"python", "torch", "accelerator", "processor", "torchvision", "sklearn", "mnist"} <= set(names)
    assert len(output.splitlines()) >= len(names)
    assert all(name in output for name in names)
    assert (code, complaint) == (0, "")
