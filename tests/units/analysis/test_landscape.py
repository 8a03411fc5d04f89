"""Loss surfaces: a quadratic's is known exactly; directions are as long as the weights; runs lie on one scale."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from patchword.analysis.sharpness import landscape as surfaces
from patchword.analysis.sharpness.landscape import directions, filter_normalised, loss_landscape, places
from patchword.analysis.sharpness.loss import SampleLoss
from patchword.core.errors import UserError
from patchword.recipes import find_recipe
from patchword.recipes import train as recipe_run
from patchword.recipes.run import Run
from patchword.reports.landscape import landscape as pictures
from patchword.reports.landscape.axes import RunLandscape, scale
from patchword.reports.landscape.saved import landscape_section
from support.helpers import pixels, tiny
from support.material import TINY_MODEL, everything_below, silent
from support.tiny_losses import network, quadratic
from support.tiny_texts import refusal

FEW = ("--samples", 32, "--size", 3, "--device", "cpu")


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("trained") / "runs" / "digits"
    fields = (*TINY_MODEL, "epochs=1", "batch_size=256", "device=cpu")
    recipe_run.train(find_recipe("digits-vit").with_settings(fields), folder, silent())
    return folder


@pytest.fixture
def runs(trained, tmp_path, monkeypatch) -> tuple[Path, Path]:
    monkeypatch.chdir(tmp_path)
    return tuple(shutil.copytree(trained, tmp_path / "runs" / name) for name in ("one", "two"))


def test_a_quadratic_has_its_exact_surface_along_eigenvectors():
    loss = quadratic([9, 4, 1, -2])
    at = places(5, 2.0)
    found = loss_landscape(loss, directions(loss, "eigen", 2), at)
    first, second = at[None, :], at[:, None]
    assert torch.allclose(found.losses, (9 * first**2 + 4 * second**2) / 2, atol=1e-9)
    line = loss_landscape(loss, directions(loss, "eigen", 1), at)
    assert torch.allclose(line.losses, 9 * at**2 / 2, atol=1e-9)


def test_a_quadratic_has_its_exact_surface_along_any_directions():
    slope = torch.tensor([1.0, -2.0, 0.5])
    loss = quadratic([5, 2, 1], slope)
    along = torch.randn(2, 3, generator=torch.Generator().manual_seed(0)).double()
    at = places(3, 1.0)
    found = loss_landscape(loss, along, at)
    for row, second in enumerate(at):
        for column, first in enumerate(at):
            place = first * along[0] + second * along[1]
            exact = place @ loss.model.matrix @ place / 2 + slope.double() @ place
            assert float(found.losses[row, column]) == pytest.approx(float(exact), abs=1e-9)
    assert not torch.allclose(found.losses, found.losses.T), "rows and columns are not exchanged unseen"


def test_each_filter_of_a_random_direction_is_as_long_as_the_models():
    model = tiny()
    loss = SampleLoss(model, lambda _: [], lambda _: (torch.zeros(()), torch.zeros(())))
    parts = dict(
        zip([name for name, _ in model.named_parameters()], loss.parts(filter_normalised(loss, 0)), strict=True)
    )
    for name, weight in model.named_parameters():
        part = parts[name]
        if weight.ndim == 1:
            assert not part.any(), name
        elif weight.ndim == 3:  # leading tokens and positions: each by itself
            assert torch.allclose(part.norm(dim=2), weight.norm(dim=2), rtol=1e-4), name
        else:
            assert torch.allclose(part.flatten(1).norm(dim=1), weight.flatten(1).norm(dim=1), rtol=1e-4), name
            alike = torch.cosine_similarity(part.flatten(), weight.detach().flatten(), dim=0)
            assert abs(float(alike)) < 0.2, "a model of the same seed did not draw these numbers"
    assert not torch.equal(filter_normalised(loss, 0), filter_normalised(loss, 1))


def test_the_middle_is_the_model_itself_and_the_weights_are_back():
    loss = network()
    before = [parameter.detach().clone() for parameter in loss.parameters]
    found = loss_landscape(loss, directions(loss, "random", 2), places(3, 1.0))
    assert found.middle == pytest.approx(loss.value())
    assert all(torch.equal(old, new) for old, new in zip(before, loss.parameters, strict=True))
    in_pieces = loss_landscape(replace(loss, size=5), directions(loss, "random", 2), places(3, 1.0))
    assert torch.allclose(in_pieces.losses, found.losses)
    assert torch.allclose(in_pieces.accuracies, found.accuracies)


def test_the_weights_are_back_after_an_error():
    loss = network()
    before = [parameter.detach().clone() for parameter in loss.parameters]

    def stop() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        loss_landscape(loss, directions(loss, "random", 1), places(3, 1.0), stop)
    assert all(torch.equal(old, new) for old, new in zip(before, loss.parameters, strict=True))


@pytest.mark.parametrize(("size", "radius"), [(4, 1.0), (1, 1.0), (5, 0.0), (5, float("nan"))])
def test_what_is_no_grid_is_refused(size, radius):
    with pytest.raises(UserError):
        places(size, radius)


def test_a_model_that_is_no_number_is_refused():
    model = tiny()
    images = pixels(2, 3, 32, 32)
    loss = SampleLoss(model, lambda _: [images], lambda piece: (model(piece).mean(), torch.zeros(())))
    with torch.no_grad():
        loss.parameters[0].fill_(torch.nan)
    with pytest.raises(UserError, match="not finite"):
        loss_landscape(loss, filter_normalised(loss, 0)[None], places(3, 1.0))


def test_one_scale_for_all_runs():
    wide = scale(np.array([[0.1, 1.0], [5.0, np.inf]]))
    assert (type(wide).__name__, wide.vmin, wide.vmax) == ("LogNorm", 0.1, 5.0)
    assert type(scale(np.array([0.0, 5.0]))).__name__ == "Normalize"


@pytest.mark.parametrize("more", [("--one-dimension",), (), ("--directions", "eigen", "--radius", 0.1)])
def test_from_the_command_to_the_files(command, runs, tmp_path, monkeypatch, more):
    if more:
        monkeypatch.setattr(pictures, "drawn", lambda _, kind: {"png": b"\x89PNG", "svg": b"<svg"}[kind])
    code, output, complaint = command("landscape", *runs, "--out", tmp_path / "out" / "both.png", *FEW, *more, "--json")
    assert code == 0, complaint
    rows = json.loads(output)["runs"]
    assert [row["run"] for row in rows] == ["one", "two"]
    assert rows[0]["loss"] == rows[1]["loss"] <= rows[0]["highest_loss"]
    with np.load(tmp_path / "out" / "both.npz", allow_pickle=False) as kept:
        assert kept["loss"].shape == kept["accuracy"].shape == ((2, 3) if "--one-dimension" in more else (2, 3, 3))
        assert kept["runs"].tolist() == ["one", "two"]
        assert np.array_equal(kept["loss"][0], kept["loss"][1])
    assert (tmp_path / "out" / "both.png").read_bytes()[1:4] == b"PNG"
    assert b"<svg" in (tmp_path / "out" / "both.svg").read_bytes()


def test_a_run_keeps_its_own_landscape_for_its_report(command, runs):
    assert landscape_section(Run(runs[0])) == ""
    assert command("landscape", *runs, "--out", "both.png", *FEW)[0] == 0
    own = json.loads((runs[1] / "landscape.json").read_text())
    (runs[0] / "landscape.json").rename(runs[0] / "surface.json")  # the name of earlier versions
    with np.load("both.npz", allow_pickle=False) as both:
        assert np.array_equal(own["loss"], both["loss"][1])
    assert command("evaluate", runs[0])[0] == 0
    page = (runs[0] / "report.html").read_text()
    assert '<section id="loss-landscape">' in page
    assert "32 of" in page
    shutil.copy(runs[0] / "config.json", runs[0] / "model.safetensors")
    assert "changed after its loss landscape was drawn" in landscape_section(Run(runs[0]))
    (runs[0] / "surface.json").write_text("{}")
    with pytest.raises(UserError, match="cannot read"):
        landscape_section(Run(runs[0]))


def test_every_axis_of_every_panel_has_a_name_and_a_unit():
    loss = quadratic([9, 4, 1, -2])
    for kind in ("eigen", "random"):
        found = loss_landscape(loss, directions(loss, "eigen", 2), places(3, 1.0))
        looked = [RunLandscape(name, "a sample", "cross-entropy (nats)", True, found) for name in ("one", "two")]
        for shown in (looked, looked[:1]):
            for axes in pictures.landscape_figure(shown, kind).axes:
                if axes.get_label() != "<colorbar>":
                    assert all("(" in words for words in (axes.get_xlabel(), axes.get_ylabel()))
                assert "(" in (axes.get_zlabel() if axes.name == "3d" else axes.get_ylabel())


def test_an_interrupted_landscape_leaves_nothing(command, runs, tmp_path, monkeypatch):
    before = everything_below(tmp_path)

    def stopped(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(surfaces, "loss_landscape", stopped)
    code, _, _ = command("landscape", runs[0], "--out", "half.png", *FEW)
    assert code != 0
    assert everything_below(tmp_path) == before


def test_bad_input_is_one_clear_error(command, runs):
    assert "odd number" in refusal(command, "landscape", runs[0], "--size", 4)
    assert "ends in .png" in refusal(command, "landscape", runs[0], "--out", "landscape.pdf")
    Path("folder.svg").mkdir()
    assert "it is a folder" in refusal(command, "landscape", runs[0], "--out", "folder.png")
    assert "not a run" in refusal(command, "landscape", "nothing")
