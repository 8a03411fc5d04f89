"""Train short, test longer: the task, its measures and the verb."""

import json

import pytest
import torch

from patchword.studies.text_positions import Exercise, _find, roughness, study, texts

SHORT = Exercise(length=6, steps=2, batch_size=4, lengths=(1, 2, 4), texts=8)


def test_the_task_asks_for_the_word_before():
    ids, expected = texts(SHORT, 5, 7, torch.Generator().manual_seed(0))
    assert ids.min() > 0
    assert not expected[:, 0].any()
    assert torch.equal(expected[:, 1:], ids[:, :-1])


def test_a_smooth_table_is_less_rough_than_a_random_one():
    line = torch.linspace(0, 1, 50)[:, None] * torch.ones(1, 8)
    assert roughness(torch.randn(50, 64, generator=torch.Generator().manual_seed(0))) == pytest.approx(1, abs=0.05)
    assert roughness(line) < 0.1


def test_each_scheme_is_told_by_its_properties():
    found = {one.scheme: one for one in study(["none", "learned", "sinusoidal", "shaw", "floater"], SHORT, print)}
    assert [found[name].weights for name in ("none", "learned", "sinusoidal")] == [0, 24 * 64, 0]
    assert found["none"].encodings is None
    assert found["sinusoidal"].moved == 0
    assert found["learned"].moved > 0
    assert found["shaw"].encodings.shape == (33, 16)
    assert 0 < found["floater"].solver < 1e-4
    assert all(len(one.accuracies) == 3 for one in found.values())


def test_a_scheme_that_knows_distances_learns_the_task():
    task = Exercise(length=6, steps=60, batch_size=16, lengths=(1,), texts=50, learning_rate=1e-2)
    assert _find("shaw", task).accuracies[0] > 0.9
    assert _find("none", task).accuracies[0] < 0.6


def test_the_verb_writes_table_and_pictures(command, tmp_path):
    words = ["positions", "shaw", "fourier", "--length", "4", "--steps", "1", "--out", tmp_path, "--json"]
    code, output, _ = command(*words)
    assert code == 0
    assert [row["encoding"] for row in json.loads(output)["encodings"]] == ["shaw", "fourier"]
    names = {"positions.md", "positions.json", "accuracy.svg", "accuracy.png", "similarity.svg", "similarity.png"}
    assert {path.name for path in tmp_path.iterdir()} == names


def test_a_wrong_name_is_refused_before_anything_is_written(command, tmp_path):
    code, _, complaint = command("positions", "lerned", "--out", tmp_path / "out")
    assert code == 2
    assert "did you mean 'learned'" in complaint
    assert not (tmp_path / "out").exists()
