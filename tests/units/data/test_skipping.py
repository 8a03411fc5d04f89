"""A few faulty samples are skipped and named; too many, or all of a class, are an error."""

import io
from pathlib import Path

import pytest
import torch
from rich.console import Console

from patchword.core.errors import UserError
from patchword.core.files import read_json, write_json
from patchword.data.faults import DataError, SkipRule, collect_faults
from patchword.data.image import images
from patchword.data.image.image_format import ImageFormat
from patchword.data.image.named_datasets import open_source
from patchword.data.skipping import FaultySamples, read_usable, skipped_lines
from patchword.data.text.formats.tables import read_table
from patchword.data.text.tokenizers.tokenizer import Tokenizer
from patchword.recipes import find_recipe
from patchword.recipes.checking import check_data
from patchword.recipes.evaluation import evaluate
from patchword.recipes.image.recipe import ImageRecipe
from patchword.recipes.parallel import check_agreement
from patchword.recipes.run import Run
from patchword.recipes.run_folders.verification import reseal
from patchword.recipes.text.data import read_parts
from patchword.recipes.text.recipe import TextRecipe
from patchword.recipes.text.tasks.all_tasks import task_spec_of
from patchword.recipes.train import build_task, train
from patchword.reports import write_report
from patchword.training.parallel.process_group import SingleProcess
from support.material import silent, write_classes

FORMAT = ImageFormat(8, 1)
VIT = ("model.name=vit-exercise", "model.image=8", "model.patch=4", "model.depth=1", "model.width=16")
TINY = (*VIT, "model.heads=2", "model.hidden=32", "epochs=1", "batch_size=8", "device=cpu", "data=photos")
BERT = ("model.depth=1", "model.width=16", "model.heads=2", "model.hidden=32", "model.max_length=32", "length=16")


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def split_photos(count: int = 30) -> Path:
    for part in ("train", "validation", "test"):
        write_classes(Path("photos") / part, count=count)
    return Path("photos")


def broken(*names: str) -> None:
    for name in names:
        Path("photos", name).write_bytes(b"not an image")


def table(*rows: str, good: int = 40, name: str = "texts.csv") -> Path:
    lines = [f"text {row},{'xy'[row % 2]}" for row in range(good)]
    Path(name).write_text("\n".join(["text,label", *lines, *rows]) + "\n")
    return Path(name)


def finish(faulty: int, total: int, labels: str = "", training: bool = True) -> list[str]:
    """Return the lines of the skipped samples. labels: of the faulty samples."""
    with collect_faults(SkipRule()) as report:
        samples = FaultySamples("photos", "images", training)
        for number in range(faulty):
            samples.add(UserError(f"{number}.png is broken", hint="fix it"), "broken", labels[number : number + 1])
        samples.finish([*labels, *["other"] * (total - len(labels))])
    return skipped_lines(report.skipped)


def test_five_of_a_hundred_are_skipped_and_six_are_an_error():
    assert finish(5, 100)[0] == "warning: skipped: broken (5):"
    with pytest.raises(DataError, match="6 of 100 images are faulty; at most 5% are skipped"):
        finish(6, 100)


def test_a_warning_names_five_and_counts_the_others():
    lines = finish(7, 1000)
    assert [line.strip() for line in lines[1:6]] == [f"{number}.png is broken" for number in range(5)]
    assert lines[6] == "  ... and 2 more"


def test_a_single_faulty_sample_of_a_small_set_is_skipped():
    assert len(finish(1, 4)) == 3


@pytest.mark.parametrize(
    ("labels", "training", "refused"), [("a", True, True), ("a", False, False), ("aa", False, True)]
)
def test_a_class_that_loses_all_samples_is_an_error(labels, training, refused):
    if not refused:
        assert finish(len(labels), 100, labels, training)
        return
    with pytest.raises(UserError, match="no images of the class 'a' are left"):
        finish(len(labels), 100, labels, training)


def test_without_skipping_a_faulty_sample_is_a_fault():
    with pytest.raises(UserError, match="broken"):
        FaultySamples("photos", "images").add(UserError("broken"))
    with pytest.raises(UserError, match="broken"), collect_faults():
        read_usable(FaultySamples("photos", "images").add, UserError("broken"))  # the outer report does not skip


@pytest.mark.parametrize("memory", [images.MEMORY, 0])
def test_the_other_images_keep_their_pixels_labels_and_keys(memory, monkeypatch):
    monkeypatch.setattr(images, "MEMORY", memory)
    split_photos()
    whole = open_source("photos").read("train", FORMAT)
    broken("train/cat/17.png", "train/dog/3.png")
    found, skipped = read_usable(open_source("photos").read, "train", FORMAT)
    assert {fault.line.split(":")[0] for fault in skipped} == {
        f"cannot read the image photos/train/{name}" for name in ("cat/17.png", "dog/3.png")
    }
    kept = torch.isin(whole.keys, found.keys).nonzero()[:, 0]
    assert len(found) == len(kept) == 58
    assert torch.equal(found.keys, whole.keys[kept])
    assert torch.equal(found.labels, whole.labels[kept])
    assert torch.equal(found.pixels.take(torch.arange(58)), whole.pixels.take(kept))


def test_a_run_names_the_skipped_images_of_all_splits_and_resumes_without_them():
    split_photos()
    broken("train/cat/1.png", "validation/dog/2.png", "test/cat/3.png")
    recipe, console = find_recipe("image-folder-vit").with_settings(TINY), Console(file=io.StringIO(), width=300)
    assert train(recipe, Path("runs/a"), console)
    output = console.file.getvalue()
    assert "warning: skipped: an image that cannot be read (3):" in output
    assert "59 images for training, 59 for validation" in output
    assert "skipped  3 faulty images\n" in output
    assert read_json(Path("runs/a/data.json"))["samples"] == 59
    lines = evaluate(Run(Path("runs/a")), "cpu").lines()
    assert lines[0] == "warning: skipped: an image that cannot be read (1):"
    assert "photos/test/cat/3.png" in lines[1]
    assert train(recipe, Path("runs/a"), silent(), resume=True)
    broken("train/cat/4.png")
    with pytest.raises(UserError, match="have changed since the run"):
        train(recipe, Path("runs/a"), silent(), resume=True)


def test_pretraining_without_labels_skips_an_image():
    split_photos()
    broken("train/cat/1.png")
    console = Console(file=io.StringIO(), width=300)
    build_task(find_recipe("image-pretrain").with_settings(TINY), console)
    assert "skipped  1 faulty image\n" in console.file.getvalue()


def test_data_check_still_lists_every_image():
    split_photos()
    broken("train/cat/1.png")
    with pytest.raises(UserError, match=r"cannot read the image photos/train/cat/1\.png"):
        check_data(ImageRecipe(data="photos"))


def test_too_many_broken_images_are_one_error_that_lists_those_of_every_split():
    split_photos()
    broken(*(f"train/cat/{number}.png" for number in range(4)), "test/dog/0.png")
    with pytest.raises(DataError) as caught:
        build_task(find_recipe("image-folder-vit").with_settings(TINY), silent())
    assert len(caught.value.faults) == 5
    assert "photos, train split: 4 of 60 images are faulty" in str(caught.value)


def test_rows_of_a_manifest_without_label_or_image_are_skipped():
    write_classes(Path("photos"), count=25)
    rows = [f"{path},{path.parent.name}" for path in sorted(Path("photos").glob("*/*.png"))]
    Path("list.csv").write_text("\n".join(["path,label", *rows, f"{rows[0].split(',')[0]},", "gone.png,cat"]))
    source, skipped = read_usable(open_source, "list.csv")
    assert len(source.rows) == 50
    assert [fault.line.split(": ", 1)[0] for fault in skipped] == ["list.csv, line 52", "list.csv, line 53"]
    with pytest.raises(UserError, match="line 52: no label"):
        open_source("list.csv")


def test_rows_of_a_table_with_an_empty_cell_are_skipped():
    path = table(",x", "a text,")
    read, skipped = read_usable(read_table, path, {"text": "text", "label": "label"})
    assert len(read) == 40
    assert [fault.kind for fault in skipped] == ["the text is empty", "the label is empty"]
    assert "texts.csv, line 42, column 'text'" in skipped[0].line
    with pytest.raises(UserError, match="3 of 43 rows are faulty"):
        read_usable(read_table, table(",x", ",y", ","), {"text": "text", "label": "label"})


def test_a_class_of_a_training_table_may_not_lose_all_its_rows():
    columns = {"text": "text", "label": "label"}
    with pytest.raises(UserError, match="no rows of the class 'z' are left"):
        read_usable(read_table, table(",z"), columns, classes=True, training=True)
    assert len(read_usable(read_table, table(",z"), columns)[0]) == 40  # a number, not a class


def test_a_text_run_skips_rows_of_all_files():
    Tokenizer.train_on([" ".join(f"text {row}" for row in range(40))] * 3, vocabulary=60).save(Path("words"))
    table(",x", "a text,NaN"), table(",y", name="test.csv")
    settings = (
        *BERT,
        "train=texts.csv",
        "test=test.csv",
        "tokenizer=words",
        "model=bert-tiny",
        "device=cpu",
        "epochs=1",
    )
    recipe, console = find_recipe("classify-text").with_settings(settings), Console(file=io.StringIO(), width=300)
    assert train(recipe, Path("runs/t"), console)
    output = console.file.getvalue()
    assert "3 faulty rows of all files are skipped" in output
    assert "warning: skipped: the text is empty (2):" in output
    assert "texts.csv, line 43, column 'label': the label is NaN" in output
    assert Run(Path("runs/t")).model().card.labels == ("x", "y")
    assert "test.csv, line 42" in evaluate(Run(Path("runs/t")), "cpu").lines()[1]
    with pytest.raises(DataError, match="3 faults"):
        check_data(TextRecipe(train="texts.csv", test="test.csv"))


def test_a_run_stops_at_a_broken_sample_if_asked_to():
    split_photos()
    broken("train/cat/1.png")
    recipe = find_recipe("image-folder-vit").with_settings([*TINY, "on_broken=stop"])
    with pytest.raises(UserError, match=r"cannot read the image .*train/cat/1\.png"):
        train(recipe, Path("runs/a"), silent())
    assert not Path("runs/a").exists()
    table(",x")
    with pytest.raises(UserError, match="line 42, column 'text': the text is empty"):
        read_parts(task_spec_of(TextRecipe(train="texts.csv", on_broken="stop")))


def test_the_limit_is_a_field_and_the_run_records_what_it_skipped():
    split_photos()
    broken(*(f"train/cat/{number}.png" for number in range(4)))
    recipe = find_recipe("image-folder-vit").with_settings(TINY)
    with pytest.raises(DataError, match=r"4 of 60 images are faulty; at most 5% are skipped \(max_broken="):
        train(recipe, Path("runs/a"), silent())
    assert train(recipe.with_settings(["max_broken=0.1"]), Path("runs/a"), silent())
    data = read_json(Path("runs/a/data.json"))
    assert data["samples"] == 56
    assert data["skipped"]["count"] == 4
    assert all(f"train/cat/{number}.png" in name for number, name in enumerate(data["skipped"]["names"]))
    run = Run(Path("runs/a"))
    page = write_report(run, evaluate(run, "cpu")).read_text(encoding="utf-8")
    assert "4 broken samples of all splits were left out" in page
    assert "train/cat/3.png" in page


def test_a_run_of_an_earlier_version_has_no_record_of_skipped_samples_and_resumes():
    split_photos()
    recipe = find_recipe("image-folder-vit").with_settings(TINY)
    assert train(recipe, Path("runs/a"), silent())
    data = read_json(Path("runs/a/data.json"))
    write_json(Path("runs/a/data.json"), {name: value for name, value in data.items() if name != "skipped"})
    reseal(Path("runs/a"))
    assert train(recipe, Path("runs/a"), silent(), resume=True)


class Recorder(SingleProcess):
    def any_rank(self, *flags: bool) -> tuple[bool, ...]:
        self.flags = flags
        return flags


class OneOfTwo(SingleProcess):
    """A process that knows the flags of the other one, which has read these data."""

    def __init__(self, other: dict[str, object]) -> None:
        self.other = other

    def any_rank(self, *flags: bool) -> tuple[bool, ...]:
        theirs = Recorder()
        check_agreement(self.other, theirs)
        return tuple(one or other for one, other in zip(flags, theirs.flags, strict=True))


def test_processes_that_read_different_samples_do_not_train():
    data = {"name": "photos", "samples": 59, "fingerprint": "a"}
    check_agreement({**data, "skipped": {"count": 1}}, OneOfTwo({**data, "skipped": {"count": 2}}))
    with pytest.raises(UserError, match="read different training samples of photos"):
        check_agreement(data, OneOfTwo({**data, "fingerprint": "b"}))
