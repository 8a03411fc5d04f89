"""How far the loss rises within a ball, and a run's sharpness from the command to its report."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from patchword.analysis.sharpness.sharpness import SharpnessOptions, highest, measure
from patchword.core.errors import UserError
from patchword.inspection.sharpness import SampleOptions, open_run
from patchword.recipes import find_recipe
from patchword.recipes import train as recipe_run
from patchword.recipes.run import Run
from patchword.recipes.run_folders.verification import reseal
from patchword.reports.landscape.sharpness import sharpness_section
from support.material import TINY_MODEL, silent, write_classes
from support.tiny_losses import network, quadratic
from support.tiny_texts import QUICK, refusal, vocabulary_of, write_table

FEW = ("--samples", 64, "--eigenvalues", 2, "--iterations", 8, "--probes", 4, "--steps", 3, "--device", "cpu")


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    """A run of one epoch; tests that change it copy it first."""
    folder = tmp_path_factory.mktemp("trained") / "runs" / "digits"
    fields = (*TINY_MODEL, "epochs=1", "batch_size=128", "device=cpu", "label_smoothing=0.1", "augmentation.shift=1")
    recipe_run.train(find_recipe("digits-vit").with_settings(fields), folder, silent())
    return folder


@pytest.fixture
def run(trained, tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return shutil.copytree(trained, tmp_path / "runs" / "digits")


def test_at_a_minimum_the_most_curved_direction_is_the_highest():
    loss = quadratic([8, 3, 1, 0.5])
    vector = loss.model.turn[:, 0]
    ball = highest(loss, 0.1, 20, vector)
    assert ball.rise == pytest.approx(0.5 * 8 * 0.01, rel=1e-6)
    assert ball.one_step == 0  # the gradient has no direction


def test_with_a_slope_the_maximum_is_the_known_one():
    """On the sphere (A - m) e = -b with m above all eigenvalues, so that |e| falls as m grows."""
    slope = torch.tensor([0.3, -0.2, 0.5, 0.1])
    loss, radius = quadratic([8, 3, 1, -2], slope), 0.5
    matrix, low, high = loss.model.matrix, 8.0, 100.0
    for _ in range(80):
        middle = (low + high) / 2
        place = torch.linalg.solve(middle * torch.eye(4).double() - matrix, slope.double())
        low, high = (middle, high) if place.norm() > radius else (low, middle)
    exact = float(place @ matrix @ place / 2 + slope.double() @ place)
    ball = highest(loss, radius, 60)
    assert ball.rise == pytest.approx(exact, rel=1e-4)
    assert ball.one_step < ball.rise
    assert list(ball.history) == sorted(ball.history)


def test_the_weights_are_back_bit_by_bit():
    loss = network()
    before = [parameter.detach().clone() for parameter in loss.parameters]
    found = measure(loss, SharpnessOptions(eigenvalues=2, products=10, probes=4, steps=3))
    assert found.ball.rise >= found.ball.one_step > 0
    assert all(torch.equal(old, new) for old, new in zip(before, loss.parameters, strict=True))


@pytest.mark.parametrize("wrong", [{"rho": -1.0}, {"rho": float("nan")}, {"probes": 1}, {"products": 2}])
def test_what_cannot_be_measured_is_refused(wrong):
    with pytest.raises(UserError):
        SharpnessOptions(**wrong)


def test_the_sample_is_what_the_run_learned_from_and_the_loss_is_plain(run):
    opened = open_run(Run(run), SampleOptions(samples=10_000, batch_size=100, device="cpu"))
    again = open_run(Run(run), SampleOptions(samples=10_000, batch_size=400, device="cpu"))
    learned = json.loads((run / "data.json").read_text())["samples"]
    assert f"{learned:,} of {learned:,} training images of digits" in opened.sample
    assert opened.loss.value() == pytest.approx(again.loss.value(), rel=1e-5)
    direction = torch.ones_like(opened.loss.zeros(1))
    ours, theirs = opened.loss.products(direction), again.loss.products(direction)
    assert (ours - theirs).norm() < 1e-4 * ours.norm()
    few = open_run(Run(run), SampleOptions(samples=50, batch_size=64, device="cpu"))
    samples = torch.cat([piece.samples for piece in few.loss.batches(64)])
    assert len(samples) == 50 == few.loss.count


def test_from_the_command_to_the_report(command, run):
    code, output, complaint = command("sharpness", run, *FEW)
    assert code == 0, complaint
    assert "64 of" in output
    assert "Evaluation mode" in output
    kept = json.loads((run / "sharpness.json").read_text())
    assert kept["sample"]["count"] == 64
    assert len(kept["eigenvalues"]) == 2
    assert kept["epsilon"]["rise"] >= kept["epsilon"]["one_step"]
    code, output, _ = command("sharpness", run, *FEW, "--json")
    assert {**json.loads(output), "seconds": 0} == {**kept, "seconds": 0, "run": json.loads(output)["run"]}
    assert command("evaluate", run)[0] == 0
    page = (run / "report.html").read_text()
    assert '<section id="sharpness">' in page
    assert f"{kept['eigenvalues'][0]['value']:,.4g}" in page


def test_a_measure_of_other_weights_is_not_told(command, run):
    assert sharpness_section(Run(run)) == ""
    assert command("sharpness", run, *FEW)[0] == 0
    assert "eigenvalue" in sharpness_section(Run(run))
    change(run, lambda weights: weights + 1)
    section = sharpness_section(Run(run))
    assert "changed after its sharpness was measured" in section
    assert "<table" not in section


def test_sharpness_of_an_earlier_version_is_read(command, run):
    assert command("sharpness", run, *FEW)[0] == 0
    expected, path = sharpness_section(Run(run)), run / "sharpness.json"
    path.write_text(path.read_text().replace('"description"', '"told"'))
    assert "64 of" in expected
    assert sharpness_section(Run(run)) == expected


def test_text_runs(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ("good", "bad", "film", "day", "old")
    vocabulary_of(words, tmp_path / "words")
    rows = [(f"{words[i % 2]} {words[2 + i % 3]}", ("yes", "no")[i % 2]) for i in range(24)]
    table = write_table(tmp_path / "train.csv", rows)
    fields = [*QUICK, f"train={table}", f"tokenizer={tmp_path / 'words'}", "epochs=1", "batch_size=8", "validation=0.5"]
    code, _, complaint = command("train", "classify-text", "--name", "texts", *fields)
    assert code == 0, complaint
    code, output, complaint = command("sharpness", "texts", *FEW)
    assert code == 0, complaint
    assert "training texts of train.csv" in output
    assert command("evaluate", "runs/texts")[0] == 0
    assert '<section id="sharpness">' in (tmp_path / "runs/texts/report.html").read_text()
    table.write_text(table.read_text().replace("film", "day"))
    assert "no longer those it was trained on" in refusal(command, "sharpness", "texts", *FEW)


def change(run: Path, how) -> None:
    path = run / "model.safetensors"
    tensors = load_file(path)
    name = next(name for name, tensor in tensors.items() if tensor.is_floating_point() and tensor.ndim == 2)
    save_file({**tensors, name: how(tensors[name])}, path)
    reseal(run)


def test_bad_input_is_one_clear_error(command, run, tmp_path):
    assert "not a run" in refusal(command, "sharpness", tmp_path / "nothing")
    assert "rho" in refusal(command, "sharpness", run, "--rho", "-0.1")
    change(run, lambda weights: weights.sign() * 3e38)  # numbers, whose loss is none
    assert "not finite" in refusal(command, "sharpness", run, *FEW)
    change(run, lambda weights: weights * torch.nan)
    assert "has non-finite weights" in refusal(command, "sharpness", run, *FEW)
    (run / "model.safetensors").unlink()
    assert "no weights yet" in refusal(command, "sharpness", run, *FEW)


def test_a_run_without_its_data_is_refused(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data = write_classes(tmp_path / "pictures", count=12)
    fields = (*TINY_MODEL, "model.image=8", f"data={data}", "epochs=1", "batch_size=8", "device=cpu")
    recipe_run.train(find_recipe("image-folder-vit").with_settings(fields), tmp_path / "runs" / "own", silent())
    (data / "cat" / "0.png").unlink()
    (data / "cat" / "1.png").unlink()
    assert "no longer those it was trained on" in refusal(command, "sharpness", "own", *FEW)
    shutil.rmtree(data)
    assert "there is no data set" in refusal(command, "sharpness", "own", *FEW)
