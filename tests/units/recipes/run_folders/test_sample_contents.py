"""A run notices that its samples have other contents under the same names."""

import threading
from pathlib import Path

import pytest

from patchword.core.errors import UserError
from patchword.core.tensor_files import read_tensors
from patchword.data.image.named_datasets import open_source
from patchword.data.sample_digests import Contents, compare_samples, digest_samples
from patchword.recipes import find_recipe
from patchword.recipes.evaluation import evaluate
from patchword.recipes.results.other_data import evaluate_on
from patchword.recipes.run import Run
from patchword.recipes.run_folders import samples
from patchword.recipes.run_folders.samples import SAMPLES
from patchword.recipes.train import train
from patchword.training.loop import Loop
from support.material import TINY_MODEL, silent, write_classes, write_picture
from support.tiny_texts import QUICK, vocabulary_of, write_table

RUN, SET = Path("run"), Path("set")


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def images():
    """A recipe over images with a train and a test folder."""
    for number, part in enumerate(("train", "test")):
        write_classes(SET / part, ("cat", "dog")[:: 1 - 2 * number])
    return find_recipe("fashion-mnist-vit").with_settings([*TINY_MODEL, "data=set", "batch_size=4", "epochs=2"])


def noise_in(part: str, files: str = "*.png") -> None:
    for number, path in enumerate(sorted((SET / part).rglob(files))):
        write_picture(path, seed=77_000 + number)


def test_images_replaced_under_the_same_names_are_not_resumed(images, stop_after):
    stop_after(2)
    assert not train(images, RUN, silent())
    noise_in("train")
    before = {path: path.read_bytes() for path in RUN.rglob("*") if path.is_file() and path.name != ".lock"}
    stop_after(0)
    with pytest.raises(UserError, match=r"training samples of .*set are not those") as caught:
        train(images, RUN, silent(), resume=True)
    assert "20 have other contents" in str(caught.value)
    assert "set/train/cat/0.png" in str(caught.value)
    assert {path: path.read_bytes() for path in before} == before


def test_the_same_images_are_resumed_and_evaluated(images, stop_after):
    stop_after(2)
    assert not train(images, RUN, silent())
    stop_after(0)
    assert train(images, RUN, silent(), resume=True)
    assert {part: len(digests) for part, digests in read_tensors(RUN / SAMPLES)[0].items()} == {"train": 20, "test": 20}
    evaluate(Run(RUN), "cpu")


def test_a_test_image_replaced_is_named_and_evaluated_only_as_other_data(images):
    assert train(images, RUN, silent())
    noise_in("test", "3.png")
    with pytest.raises(UserError, match=r"2 have other contents: .*cat/3\.png, .*dog/3\.png") as caught:
        evaluate(Run(RUN), "cpu")
    assert "patchword evaluate run data=" in str(caught.value)
    assert not (RUN / "evaluation.json").exists()
    _, _, path = evaluate_on(Run(RUN), [f"data={SET.resolve()}"], "cpu")
    assert path.parent.name == "evaluations"


def test_a_start_that_failed_leaves_no_record_of_other_samples(images, monkeypatch):
    def fails(*_: object) -> None:
        raise UserError("no space")

    with monkeypatch.context() as patch:
        patch.setattr("patchword.training.loop.Loop.run", fails)
        with pytest.raises(UserError, match="no space"):
            train(images, RUN, silent())
    noise_in("train")
    assert train(images, RUN, silent())
    assert train(images, RUN, silent(), resume=True)


def test_samples_that_cannot_be_recorded_are_a_warning(images, monkeypatch):
    def fails(*_: object) -> None:
        raise UserError("the disk is gone")

    monkeypatch.setattr(samples, "digest_samples", fails)
    out = silent()
    assert train(images, RUN, out)
    assert "the samples are not recorded: the disk is gone" in out.file.getvalue()
    assert not (RUN / SAMPLES).exists()


def test_training_does_not_wait_for_the_digests(images, monkeypatch):
    ended, real = threading.Event(), samples.digest_samples

    def late(*arguments, **named):
        assert ended.wait(60), "no epoch ended before the digests"
        return real(*arguments, **named)

    def end(*arguments, **named):
        ended.set()
        return plain(*arguments, **named)

    plain = Loop._end_epoch
    monkeypatch.setattr(Loop, "_end_epoch", end)
    monkeypatch.setattr(samples, "digest_samples", late)
    assert train(images, RUN, silent())
    assert (RUN / SAMPLES).is_file()


def test_texts_and_their_labels_are_compared(stop_after):
    words = ("good", "bad", "film")
    vocabulary_of(words, Path("words"))
    for name in ("train", "valid", "test"):
        write_table(Path(f"{name}.csv"), [(f"film {word}", word) for word in words[:2] * 8])
    fields = ("train=train.csv", "validation=valid.csv", "test=test.csv", "tokenizer=words", "batch_size=4", "epochs=2")
    recipe = find_recipe("classify-text").with_settings([*QUICK, *fields])
    stop_after(2)
    assert not train(recipe, RUN, silent())
    stop_after(0)
    write_table(
        Path("valid.csv"), [("film good", "bad"), *[(f"film {word}", word) for word in ("bad", *words[:2] * 7)]]
    )
    with pytest.raises(UserError, match=r"1 have other contents: .*valid\.csv, line 2"):
        train(recipe, RUN, silent(), resume=True)
    write_table(Path("valid.csv"), [(f"film {word}", word) for word in words[:2] * 8])
    assert train(recipe, RUN, silent(), resume=True)
    write_table(Path("test.csv"), [(f"film {word}", word) for word in words[:2] * 7])
    with pytest.raises(UserError, match="2 are missing"):
        evaluate(Run(RUN), "cpu")


def test_difference_names_changed_new_and_missing_samples():
    before = digest_samples(_contents(a=b"1", b=b"2", c=b"3"))
    found = compare_samples(before, _contents(a=b"1", b=b"x", d=b"4"))
    assert (found.samples, found.changed, found.added, found.missing) == (3, ["b"], ["d"], 1)
    assert str(found) == "1 have other contents, 1 are missing, 1 are new"
    assert not compare_samples(before, _contents(c=b"3", b=b"2", a=b"1"))


def test_digests_can_be_stopped():
    assert digest_samples(_contents(a=b"1"), stop=lambda: True) is None


def _contents(**samples: bytes) -> Contents:
    names = list(samples)
    return Contents(names, lambda index: samples[names[index]], names.__getitem__)


def test_images_of_an_array_are_compared_one_by_one():
    contents = open_source("digits").contents("test")
    assert len({contents.read(index) for index in range(len(contents.keys))}) == len(contents.keys) == 359
