"""The code of docs/python.md runs as it is written."""

import functools
from pathlib import Path

import pytest
import torch

import patchword
from support.material import write_classes
from support.toys.worked_examples import worked_example

PAGE = "docs/python.md"


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path, monkeypatch, unpainted):
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)


def run(section: str) -> dict[str, object]:
    """Runs the code of a section and returns its variables."""
    names: dict[str, object] = {"patchword": patchword}
    code = worked_example(section, PAGE)
    assert code
    for block in code:
        exec(compile(block, PAGE, "exec"), names)
    return names


def is_saved_and_trained(model: torch.nn.Module) -> bool:
    """True if the saved weights are those of the model, and they were trained."""
    saved = patchword.load("mine").state_dict()
    assert all(torch.equal(saved[name], tensor.cpu()) for name, tensor in model.state_dict().items())
    return bool(saved["head.linear.bias"].any())  # a new bias is zero


def test_recipes(capsys):
    write_classes(Path("photos"), count=6)
    names = run("Train a recipe")
    assert len(names["run"].metrics()) == 3
    assert patchword.Run("deeper").recipe().model.overrides()["depth"] == 3
    assert names["result"].metric == "accuracy"
    assert str(names["run"].report) in capsys.readouterr().out


def test_models_and_their_input():
    names = run("Models and their input")
    assert names["tokens"].shape == (2, 50, 64)
    assert [tuple(one.shape) for one in names["maps"]] == [(2, 64, 7, 7)]
    assert names["model"](torch.rand(1, 1, 28, 28)).shape == (1, 3)


def test_a_plain_loop(monkeypatch):
    eager = functools.partial(torch.compile, backend="eager")  # the real compiler takes a minute
    monkeypatch.setattr(torch, "compile", lambda model, dynamic=None, options=None: eager(model, dynamic=dynamic))
    names = run("Your own loop")
    assert isinstance(names["loss"].item(), float)
    saved, model = patchword.load("mine").state_dict(), names["model"].state_dict()
    assert saved.keys() == model.keys()
    assert not any(torch.equal(saved[name], model[name]) for name in saved if name.endswith("weight"))  # trained on


def test_lightning():
    pytest.importorskip("lightning")
    names = run("Lightning")
    assert is_saved_and_trained(names["module"].model)


def test_accelerate():
    pytest.importorskip("accelerate")
    names = run("accelerate")
    assert is_saved_and_trained(names["accelerator"].unwrap_model(names["model"]))
