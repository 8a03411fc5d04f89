"""The most confident mistakes of a classifier are saved with its evaluation, and removed with its weights."""

import io
import json

import numpy as np
import torch
from PIL import Image

from patchword.data.image.png import png_bytes
from patchword.objectives.metrics.classification import Scores
from patchword.recipes.evaluation import evaluate, evaluated
from patchword.recipes.results.mistakes import MOST, mistakes_of, read_mistakes, save_mistakes
from patchword.recipes.run import Run
from patchword.recipes.train import save_best, train
from support.material import silent, tiny_recipe


def test_an_evaluation_saves_mistakes_with_their_images(tmp_path):
    run = Run(tmp_path / "run") if train(tiny_recipe("epochs=1"), tmp_path / "run", silent()) else None
    found = evaluate(run, "cpu")
    mistakes = read_mistakes(run.folder)
    wrong = found.scores.mistakes(MOST).tolist()
    assert [one.index for one in mistakes] == wrong
    assert len(wrong) == MOST
    confidences = [one.confidence for one in mistakes]
    assert confidences == sorted(confidences, reverse=True)
    for one in mistakes:
        assert one.truth != one.predicted
        assert one.truth == found.scores.classes[found.scores.labels[one.index]]
        pixels = torch.from_numpy(np.array(Image.open(io.BytesIO(one.image))))
        assert torch.equal(pixels, found.images.pixels.take(torch.tensor([one.index]))[0, 0])
    before = (run.folder / "mistakes.json").read_text()
    evaluated(run, run.recipe(), "cpu")
    assert (run.folder / "mistakes.json").read_text() == before

    class Saved:
        def save(self, folder) -> None: ...

    save_best(Saved(), run.folder)
    assert read_mistakes(run.folder) is None


def test_no_mistakes_are_an_empty_list(tmp_path):
    truth = torch.tensor([0, 1, 1])
    assert mistakes_of(Scores(0.1, truth, truth, torch.ones(3), ("a", "b"))) == []
    save_mistakes(object(), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_broken_file_is_none(tmp_path):
    good = {"index": 1, "truth": "a", "predicted": "b", "confidence": 0.5, "image": "", "text": "x"}
    for content in ("{", "[1]", "{}", "[{}]", json.dumps([{**good, "image": "%"}]), json.dumps([{**good, "more": 1}])):
        (tmp_path / "mistakes.json").write_text(content)
        assert not read_mistakes(tmp_path)
    (tmp_path / "mistakes.json").write_text(json.dumps([good]))
    assert read_mistakes(tmp_path)[0].text == "x"


def test_large_images_are_scaled_down():
    content = png_bytes(torch.zeros(3, 300, 200, dtype=torch.uint8))
    assert Image.open(io.BytesIO(content)).size == (85, 128)
