"""Two processes have the same weights, metrics and order of samples as one process with the whole batch."""

import json
import random
from pathlib import Path

import pytest

from patchword.recipes.run import Run
from support.checkpoints import assert_close
from support.detection.rectangles import TINY_FASTER_RCNN, write_rectangles
from support.material import TINY_MODEL
from support.parallel_runs import Asked, Workers, do
from support.segmentation.label_maps import TINY_UPERNET, write_label_maps
from support.tiny_texts import TINY_BERT, vocabulary_of

STEADY = ("device=cpu", "epochs=2", "learning_rate=1e-3", "save_minutes=100", "precision=float32")
IMAGES = (
    *TINY_MODEL,
    *STEADY,
    "batch_size=128",
    "augmentation.flip=0.3",
    "augmentation.mixup=0.8",
    "label_smoothing=0.1",
)
PATCHES = ("model=vit-exercise", "model.image=8", *TINY_MODEL, *STEADY, "batch_size=128", "data=digits", "epochs=1")
# Adam makes a full step of a gradient that is zero except for rounding, as before batch norms: steps are small here.
# Adam's moments, which are compared too, have the gradients.
PIXELS = ("batch_size=8", "epochs=1", "learning_rate=3e-6", "model.head_dropout=0", "loss_mean=labelled")
CASES = {
    "plain": ("digits-vit", (*IMAGES, "ema_decay=0.9")),
    "pieces": ("digits-vit", (*IMAGES, "gradient_accumulation=4", "batch_size=117", "epochs=1", "sam=0.05")),
    "patches": ("image-pretrain", (*PATCHES, "model.patch=2")),
    "objects": ("detect-objects", (*TINY_FASTER_RCNN, *STEADY, "batch_size=8", "epochs=1", "learning_rate=1e-4")),
    "pixels": ("segment-images", (*TINY_UPERNET, *STEADY, *PIXELS)),
    "words": ("bert-pretrain", (*TINY_BERT, *STEADY, "model.dropout=0", "model.attention_dropout=0")),
}
TEXTS = ("documents=line", "length=24", "batch_size=16", "held_out=0.2", "masked=0.2", "epochs=2", "learning_rate=1e-4")
SHARDED = {"plain": "sharded", "patches": "sharded-patches"}  # case and folder
CUT = 7  # steps after which a run is stopped, each time


def write_texts(folder: Path) -> None:
    """Documents of one to eight sentences of words in two letters, and the tokenizer that knows them."""
    words, chance = [f"{first}{second}" for first in "abcdefgh" for second in "aeiou"], random.Random(0)
    vocabulary_of([*words, "."], folder / "words")
    documents = (
        " ".join(
            f"{' '.join(chance.choices(words, k=chance.randint(3, 7))).capitalize()}."
            for _ in range(chance.randint(1, 8))
        )
        for _ in range(60)
    )
    (folder / "texts.txt").write_text("\n".join(documents) + "\n")


def plan_of(folder: Path, together: bool) -> list[Asked]:
    found = []
    for name, (recipe, settings) in CASES.items():
        data: tuple[str, ...] = ()
        if name == "words":
            data = (f"text={folder / 'texts.txt'}", f"tokenizer={folder / 'words'}", *TEXTS)
        if name == "objects":
            data = (f"data={folder / 'rectangles'}",)
        if name == "pixels":
            data = (f"data={folder / 'maps'}",)
        found.append(Asked(str(folder / ("two" if together else "one") / name), recipe, (*settings, *data)))
    if together:
        for name, place in SHARDED.items():
            recipe, settings = CASES[name]
            found.append(Asked(str(folder / "two" / place), recipe, (*settings, "sharding=full")))
        recipe, settings = CASES["plain"]
        found.append(Asked(str(folder / "two" / "norms"), "norms", ()))
        resumed = str(folder / "two" / "resumed")
        found.append(Asked(resumed, recipe, settings, stop=(1, CUT)))
        found.append(Asked(resumed, recipe, (*settings, "sharding=full"), resume=True, after=str(folder / "continued")))
    return found


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> Path:
    """All cases on one process, and on two; then the interrupted one is resumed on one and on two."""
    folder = tmp_path_factory.mktemp("runs")
    write_texts(folder)
    write_rectangles(folder / "rectangles")
    write_label_maps(folder / "maps")
    workers = Workers(plan_of(folder, together=True), folder / "plan")
    for run in plan_of(folder, together=False):
        assert do(run)
    resumed = folder / "two" / "resumed"
    workers.wait_for(resumed / "samples-0.jsonl", resumed / "samples-1.jsonl")  # written when the run has stopped
    assert not do(Asked(str(resumed), *CASES["plain"], resume=True, stop=(0, CUT)))
    (folder / "continued").touch()
    workers.wait()
    return folder


@pytest.mark.parametrize("name", CASES)
def test_two_processes_end_as_one(runs, name):
    """Weights, moments, average and running statistics, after 20 steps or so; and every metric of every epoch."""
    assert_close(runs / "one" / name, runs / "two" / name)
    alone, together = (Run(runs / place / name).metrics() for place in ("one", "two"))
    for mine, other in zip(alone, together, strict=True):
        assert mine.keys() == other.keys()
        for key in mine.keys() - {"seconds"}:
            assert mine[key] == pytest.approx(other[key], rel=2e-6, abs=2e-6), key


@pytest.mark.parametrize("name", SHARDED)
def test_sharded_weights_have_the_same_result(runs, name):
    assert_close(runs / "two" / SHARDED[name], runs / "two" / name)


def test_a_run_is_resumed_with_another_number_of_processes(runs):
    """Two processes, of which one is asked to stop; then one; then two with sharded weights, to the end."""
    assert_close(runs / "two" / "resumed", runs / "two" / "plain")
    assert len(Run(runs / "two" / "resumed").metrics()) == 2


def steps(folder: Path, *names: str) -> list[list[int]]:
    """Return all samples of each step."""
    parts = [
        [json.loads(line) for line in (folder / f"samples-{name}.jsonl").read_text().splitlines()] for name in names
    ]
    return [[number for part in step for number in part] for step in zip(*parts, strict=True)]


def test_batch_norms_see_the_samples_of_all(runs):
    """5 and 4 images in float64: outputs, gradients, running statistics."""
    results = [json.loads((runs / "two" / "norms" / f"{number}.json").read_text()) for number in (0, 1)]
    assert [length for length, _ in results] == [5, 4]
    assert max(apart for _, apart in results) < 1e-6


@pytest.mark.parametrize("name", ["plain", "pieces"])
def test_every_sample_is_on_one_process(runs, name):
    alone, together = steps(runs / "one" / name, "alone"), steps(runs / "two" / name, "0", "1")
    assert [sorted(step) for step in together] == [sorted(step) for step in alone]
    assert all(len(set(step)) == len(step) for step in together)


def test_the_order_does_not_depend_on_the_number_of_processes(runs):
    whole = [sorted(step) for step in steps(runs / "one" / "plain", "alone")]
    both, single = steps(runs / "two" / "resumed", "0", "1"), steps(runs / "two" / "resumed", "alone")
    assert [sorted(step) for step in [*both[:CUT], *single, *both[CUT:]]] == whole
