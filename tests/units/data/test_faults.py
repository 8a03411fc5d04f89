"""Faults planted in data, each at a place of its own: all are named, by file and row, in one report before step 1."""

import contextlib
import gzip
import io
import json
import os
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from patchword.core.errors import UserError
from patchword.data.faults import DataError, Fault, attempt, collect_faults, fault_lines, report_fault, warn
from patchword.data.image import decoding, image_file, images, listing
from patchword.data.image.image_format import ImageFormat
from patchword.data.image.named_datasets import open_source
from patchword.data.image.sources import IdxSource
from patchword.data.skipping import FaultySamples
from patchword.recipes.checking import check_data
from patchword.recipes.image.recipe import ImageRecipe
from patchword.recipes.pretraining.recipe import PretrainingRecipe
from patchword.recipes.text.recipe import TextRecipe
from support.material import idx_bytes, write_classes, write_picture
from support.tiny_texts import refusal


def faults_of(recipe) -> str:
    """What the one error says of a recipe's data, whole."""
    with pytest.raises(UserError) as caught:
        check_data(recipe)
    return (
        "\n".join(fault_lines(caught.value.faults, None)) if isinstance(caught.value, DataError) else str(caught.value)
    )


def notes_of(recipe) -> str:
    return "\n".join(fault_lines(check_data(recipe)[1], None))


# The report


def test_without_a_report_the_first_fault_is_an_error():
    with pytest.raises(UserError, match="broken"):
        report_fault(UserError("broken"))


def test_a_report_gathers_all_and_one_fault_stays_as_it_is():
    with pytest.raises(UserError, match=r"^only$") as caught, collect_faults():
        report_fault(UserError("only"))
    assert not isinstance(caught.value, DataError)
    with pytest.raises(DataError, match=r"^3 faults in the data, of 2 kinds") as caught:
        several()
    assert [fault.kind for fault in caught.value.faults] == ["empty", "empty", "the end"]


def fault_and_warning():
    with collect_faults():
        warn("an image in two classes", "b.png is a.png")
        report_fault(UserError("c.png is truncated"), "a broken image")


def several():
    with collect_faults():
        report_fault(UserError("a.csv, line 2: empty"))
        assert attempt(int, "3") == 3
        report_fault(UserError("a.csv, line 9: empty"))
        raise UserError("the end")


def test_doubts_stop_nothing_and_reports_inside_reports_are_one():
    with collect_faults() as outer, collect_faults() as inner:
        warn("odd", "here")
        assert inner is outer
    assert [fault.line for fault in outer.doubts] == ["here"]


def test_warnings_are_shown_with_the_faults():
    with pytest.raises(DataError) as caught:
        fault_and_warning()
    lines = str(caught.value).splitlines()
    assert lines[0] == "1 fault in the data"
    assert lines[-2:] == ["note: an image in two classes (1):", "  b.png is a.png"]


def test_a_message_shows_twenty_of_a_kind_and_counts_the_others():
    shown = str(DataError([Fault("empty", UserError(f"line {line}", hint="fill it")) for line in range(1000)]))
    lines = shown.splitlines()
    assert lines[0] == "1,000 faults in the data"
    assert lines[1] == "empty (1,000):"
    assert lines[-3:] == ["  line 19", "  ... and 980 more", "  -> fill it"]
    assert len(lines) == 24


# Tables of texts

TRAIN = (
    "text,label,id\n"
    "good one,good,1\n"
    "bad one,bad,2\n"
    ",good,3\n"  # line 4: no text
    "fine,,4\n"  # line 5: no label
    "fine,nan,5\n"  # line 6: NaN
    "short\n"  # line 7: too few cells
    "long,good,7,8\n"  # line 8: too many
    'quo"ted,good,9\n'
    '"bro"ken,good,10\n'  # line 10: a quotation mark in the middle
    "nul\0byte,bad,11\n"  # line 11
    "caf\udce9,bad,12\n"  # line 12: Latin-1
    "th\udce9,bad,13\n"  # line 13
    "the same,good,14\n"
    "more good,good,15\n"
    "more bad,bad,16\n"
)


def write(path, text):
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    return str(path)


def test_every_fault_of_three_tables_is_in_one_report(tmp_path):
    recipe = TextRecipe(
        train=write(tmp_path / "train.csv", TRAIN),
        validation=write(tmp_path / "valid.csv", "text,label\nthe same,good\nwhat,ugly\nmore,7\n"),
        test=write(tmp_path / "test.csv", "text,mood,text\nx,good,y\n"),
    )
    found = faults_of(recipe)
    for place in (
        "train.csv, line 4, column 'text': the text is empty",
        "train.csv, line 5, column 'label': the label is empty",
        "train.csv, line 6, column 'label': the label is nan",
        "train.csv, line 7, column 'label': the row is too short",
        "train.csv, line 8: the row is too long",
        "train.csv, line 10: a broken row",
        "train.csv, line 11, column 'text': a NUL byte",
        "train.csv, line 12, byte 4: this is not UTF-8",
        "train.csv, line 13, byte 3: this is not UTF-8",
        "valid.csv, line 3, column 'label': the label 'ugly' is not one of the known labels",
        "valid.csv, line 4, column 'label': the label '7' is not one of the known labels",
        "test.csv, line 1: two columns have the name 'text'",
    ):
        assert place in found
    assert found.count("\n  ") - found.count("\n  ->") == 12


def test_two_missing_columns_are_both_named(tmp_path):
    found = faults_of(TextRecipe(train=write(tmp_path / "a.csv", "review,mood\nx,1\ny,2\n")))
    assert "no column 'text' for the text" in found
    assert "no column 'label' for the label" in found


def test_every_fault_of_json_lines(tmp_path):
    good = '{"text": "a", "label": "x"}\n{"text": "b", "label": "y"}\n'
    lines = [
        '{"text": "a", "label"',
        "[1]",
        '{"text": "a"}',
        '{"text": "a", "label": NaN}',
        '{"text": "\\ud800", "label": "x"}',
        '{"text": "a", "label": "x", "label": "y"}',
        "[" * 100_000,
    ]
    found = faults_of(TextRecipe(train=write(tmp_path / "a.jsonl", good + "\n".join(lines))))
    for line in range(3, 10):
        assert f"a.jsonl, line {line}" in found
    assert "the name 'label' occurs twice" in found


@pytest.mark.parametrize("cell", ["inf", "nan", "1e999", "one", "1,5"])
def test_numbers_that_are_not_finite(tmp_path, cell):
    rows = f'text,label\na,1\nb,"{cell}"\nc,2\nd,"{cell}"\n'
    found = faults_of(TextRecipe(task="number", train=write(tmp_path / "a.csv", rows)))
    assert "line 3, column 'label'" in found
    assert "line 5, column 'label'" in found


def test_marks_and_line_ends_are_read_right_and_copies_are_notes(tmp_path):
    rows = "\ufefftext,label\r\ngood,a\nbad,b\rfine,a\r\npoor,b\n"
    recipe = TextRecipe(
        train=write(tmp_path / "a.csv", rows),
        validation=write(tmp_path / "b.csv", "text,label\nfine,a\nnew,b\n"),
        test=write(tmp_path / "c.csv", "text,label\nother,a\ngood,a\n"),
    )
    counts, notes = check_data(recipe)
    assert counts == "6 texts to train on and to validate, 2 labels"
    shown = "\n".join(fault_lines(notes, None))
    assert f"{tmp_path}/b.csv, line 2 is {tmp_path}/a.csv, line 4" in shown
    assert f"{tmp_path}/c.csv, line 3 is {tmp_path}/a.csv, line 2" in shown
    assert "2 lines end in \\r\\n, 2 lines end in \\n, 1 lines end in \\r" in shown


def test_tags_and_answers(tmp_path):
    conll = "A X\nB Y\n\nC X Z\nD X\n\nE\n\nF \n\nG X\n"
    found = faults_of(
        TextRecipe(
            task="tags",
            train=write(tmp_path / "a.conll", conll),
            test=write(tmp_path / "b.conll", "A X\nB Q\nC R\n"),
        )
    )
    for place in ("a.conll, line 4: wrong number of columns", "a.conll, line 7", "a.conll, line 9"):
        assert place in found
    asked = [
        {"id": "1", "question": "q", "answers": [{"text": "here", "answer_start": 0}]},
        {"id": "2", "question": "q", "answers": [{"text": "nowhere", "answer_start": 3}]},
        {"id": "3", "question": "q"},
        {"id": "1", "question": "r", "answers": [{"text": "here", "answer_start": 0}]},
    ]
    told_of = json.dumps({"data": [{"title": "t", "paragraphs": [{"context": "here it is", "qas": asked}]}]})
    found = faults_of(TextRecipe(task="span", train=write(tmp_path / "a.json", told_of)))
    assert "question '2': no answer to train on" in found
    assert "data[0].paragraphs[0].qas[2].answers is missing" in found
    assert "data[0].paragraphs[0].qas[3].id is a duplicate of data[0].paragraphs[0].qas[0]" in found


def test_unknown_tags_are_all_named(tmp_path):
    train = write(tmp_path / "a.conll", "A X\nB Y\n\nG X\n\nG Y\n")
    found = faults_of(TextRecipe(task="tags", train=train, test=write(tmp_path / "b.conll", "A X\nB Q\nC R\n")))
    assert "b.conll, line 2, column 2, word 'B': the tag 'Q'" in found
    assert "b.conll, line 3, column 2, word 'C': the tag 'R'" in found


# Raw texts


@pytest.fixture
def spoilt_texts(tmp_path, monkeypatch):
    """Sound texts, enough for a model, beside a folder of faults; and where each is."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATCHWORD_DATA", str(tmp_path / "kept"))
    sound = "the cat sat on the mat\nthe dog ran to the cat\n"
    write(tmp_path / "sound.txt", "\n".join([sound] * 40))
    (tmp_path / "all").mkdir()
    write(tmp_path / "all" / "a.txt", f"{sound}a caf\udce9\n{sound}\udcff\udcfe\n")  # lines 3 and 6
    write(tmp_path / "all" / "b.jsonl", '{"text": "fine"}\n{"text"\n\n{"body": "x"}\n[]\n{"text": "good"}\n')
    write(tmp_path / "all" / "c.txt", "<doc id=1>\nfine\n</doc>\nlost\nand more\n<doc>good</doc>\nlost again\n")
    (tmp_path / "all" / "d.txt").write_bytes(b"PK\x03\x04 a document of Word")
    (tmp_path / "all" / "e.txt").write_bytes(b"")
    places = ["a.txt, line 3, byte 6", "a.txt, line 6, byte 1", *(f"b.jsonl, line {line}:" for line in (2, 4, 5))]
    places += ["c.txt, line 4: text outside", "c.txt, line 7: text outside", "d.txt is not a text file"]
    return places


def assert_all_told(complaint: str, places: list[str]) -> None:
    assert f"error: {len(places)} faults in the data" in complaint
    for place in places:
        assert f"all/{place}" in complaint


@pytest.mark.parametrize("recipe", ["bert-pretrain", "elmo-pretrain"])
def test_every_fault_of_raw_texts_is_in_one_report_before_the_first_step(spoilt_texts, command, recipe):
    assert command("tokenizer", "train", "sound.txt", "--out", "words", "--vocabulary", 60)[0] == 0
    tokenizer = ["tokenizer=words"] if recipe == "bert-pretrain" else []
    for _ in range(2):  # nothing is kept that would hide it the second time
        code, _, complaint = command("train", recipe, "text=sound.txt,all", *tokenizer)
        assert code == 2
        assert_all_told(complaint, spoilt_texts)
    complaint = command("train", recipe, "text=gone.txt,sound.txt,all,lost", *tokenizer)[2]
    for place in ("there is no file or folder gone.txt", "there is no file or folder lost", f"all/{spoilt_texts[0]}"):
        assert place in complaint
    assert not Path("runs").exists()


def test_raw_texts_are_checked_without_training(spoilt_texts, command):
    for words in (("bert-pretrain", "text=all"), ("elmo-pretrain", "text=all")):
        code, _, complaint = command("data", "check", *words)
        assert code == 2
        assert_all_told(complaint, spoilt_texts)
    code, out, _ = command("data", "check", "sound.txt")
    assert (code, "no faults: 40 documents in 1 file, read in" in out) == (0, True)
    write(Path("all/a.txt"), "")
    code, out, _ = command("data", "check", "bert-pretrain", "text=all/a.txt,sound.txt")
    assert code == 0
    assert "note: an empty file (1):" in out


def test_pairs_and_articles_are_read_whole(tmp_path):
    write(tmp_path / "a.tsv", "one\teins\ntwo\nthree\t\nfour\tvier\tcuatro\nfive\tfunf\n")
    found = faults_of(PretrainingRecipe(parallel=(str(tmp_path / "a.tsv"),)))
    assert all(f"a.tsv, line {line}:" in found for line in (2, 3, 4))
    write(tmp_path / "a.jsonl", '{"body": "x"}\n{"headline": "y"}\n[]\n{"body"\n')
    found = faults_of(PretrainingRecipe(articles=(str(tmp_path / "a.jsonl"), str(tmp_path / "gone.jsonl"))))
    assert all(f"a.jsonl, line {line}" in found for line in (2, 3, 4))
    assert "gone.jsonl" in found
    write(tmp_path / "a.jsonl", '{"body": "x"}\n{"body": "z"}\n')
    assert check_data(PretrainingRecipe(articles=(str(tmp_path / "a.jsonl"),)))[0] == "2 articles"


def test_a_file_of_nothing_but_faults_is_not_read_to_its_end(tmp_path):
    write(tmp_path / "a.txt", "\udce9\n" * 5000)
    write(tmp_path / "b.jsonl", "none\n" * 5000)
    write(tmp_path / "c.txt", "fine\n\udce9\n")
    found = faults_of(PretrainingRecipe(text=tuple(str(tmp_path / name) for name in ("a.txt", "b.jsonl", "c.txt"))))
    assert found.count(": not UTF-8") == 1001
    assert found.count(": not JSON") == 1000
    assert found.count("has 1,000 or more faults") == 2


# Pictures


@pytest.fixture
def spoilt(tmp_path, monkeypatch):
    """A folder of classes with faults in both parts, and what the report has to say of it."""
    monkeypatch.setattr(image_file, "PIXELS", 10_000)
    for part in ("train", "test"):
        write_classes(tmp_path / part, count=5)
    train, test = tmp_path / "train", tmp_path / "test"
    whole = write_picture(train / "cat" / "cut.png", mode="RGB", size=(64, 64)).read_bytes()
    (train / "cat" / "cut.png").write_bytes(whole[: len(whole) // 2])
    (train / "cat" / "zero.jpg").write_bytes(b"")
    (train / "dog" / "page.png").write_text("<html>not found</html>")
    write_picture(train / "dog" / "bomb.png", size=(200, 100))
    (train / "dog" / "loop.png").symlink_to(train / "dog" / "loop.png")
    (train / "around").symlink_to(train / "around")
    (train / "empty").mkdir()
    (test / "cat" / "cut.png").write_bytes(whole[:50])
    return tmp_path


def test_every_fault_of_pictures_is_in_one_report(spoilt):
    found = faults_of(ImageRecipe(data=str(spoilt)))
    for place, reason in (
        ("train/cat/cut.png", "truncated"),
        ("train/cat/zero.jpg", "an empty file"),
        ("train/dog/page.png", "cannot identify image file"),
        ("train/dog/bomb.png", "200 x 100 pixels, more than 10,000"),
        ("train/dog/loop.png", "symbolic links"),
        ("test/cat/cut.png", ""),
    ):
        assert any(f"{spoilt}/{place}: got " in line and reason in line for line in found.splitlines()), place
    assert f"the class folder {spoilt}/train/empty is empty" in found
    assert f"{spoilt}/train/around is a broken link" in found
    assert "PATCHWORD_PIXELS=" in found
    assert "0x" not in found


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_what_is_named_as_a_picture_and_is_no_file_is_never_opened(tmp_path, monkeypatch):
    """Opening a pipe waits for ever for one who writes."""
    classes = write_classes(tmp_path / "classes", count=5)
    os.mkfifo(classes / "cat" / "pipe.png")
    (classes / "dog" / "linked.png").symlink_to(classes / "cat" / "pipe.png")
    (classes / "dog" / "folder.png").mkdir()
    monkeypatch.setattr(listing, "ListedSource", lambda name, rows: [path.name for path, *_ in rows])
    listed = []
    with pytest.raises(UserError) as fault_lines, collect_faults():
        listed = listing.folder_source(classes)
    assert len(listed) == 10
    assert not {"pipe.png", "linked.png", "folder.png"} & set(listed)
    for place in ("cat/pipe.png", "dog/linked.png", "dog/folder.png"):
        assert f"{classes}/{place} has the suffix of an image but is not a file" in str(fault_lines.value)


def test_training_makes_the_same_report_and_writes_no_run(spoilt, command, monkeypatch):
    monkeypatch.chdir(spoilt)
    message = refusal(command, "train", "image-folder-vit", f"data={spoilt}")
    assert "8 faults in the data" in message
    assert "train/cat/cut.png" in message
    assert "test/cat/cut.png" in message


def test_the_whole_list_is_written_if_a_message_cannot_show_it(tmp_path, command, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "a.csv", "text,label\na,x\nb,y\n" + ",x\n" * 50)
    code, _, complaint = command("data", "check", "a.csv", "text=text")
    assert code == 2
    assert "error: 50 faults in the data" in complaint
    assert "... and 30 more" in complaint
    assert "data-faults.txt" in complaint
    listed = (tmp_path / "data-faults.txt").read_text()
    assert listed.count(": the text is empty") == 50
    assert "a.csv, line 53" in listed


def test_a_sound_set_is_said_to_be_one(tmp_path, command):
    code, out, _ = command("data", "check", write_classes(tmp_path / "pets", count=12))
    assert code == 0
    assert "no faults: 24 images, read in" in out


def test_pictures_that_may_be_a_mistake_are_notes(tmp_path):
    for part in ("train", "test"):
        write_classes(tmp_path / part, count=4)
    for number, path in enumerate(sorted(tmp_path.glob("*/*/*.png"))):
        write_picture(path, seed=number + 100)
    twin = tmp_path / "test" / "dog" / "twin.png"
    twin.write_bytes((tmp_path / "train" / "dog" / "1.png").read_bytes())
    both = tmp_path / "train" / "cat" / "both.png"
    both.write_bytes((tmp_path / "train" / "dog" / "2.png").read_bytes())
    write_picture(tmp_path / "train" / "cat" / "tiny.png", size=(1, 1))
    Image.new("RGB", (8, 8)).save(tmp_path / "train" / "cat" / "really.png", format="JPEG")
    (tmp_path / "train" / "cat" / "photo.heic").write_bytes(b"x")
    (tmp_path / "train" / "cat" / "more").symlink_to(tmp_path / "train" / "dog")
    notes = notes_of(ImageRecipe(data=str(tmp_path)))
    assert f"{twin} (test) is {tmp_path}/train/dog/1.png (train)" in notes or f"is {twin} (test)" in notes
    assert "in two classes (1)" in notes
    assert "tiny.png: 1 x 1 pixels" in notes
    assert "really.png is a JPEG" in notes
    assert "photo.heic" in notes
    assert "cat/more" in notes


def test_one_class_is_a_fault(tmp_path):
    assert "have the same class" in faults_of(ImageRecipe(data=str(write_classes(tmp_path, ("cat",)))))


def test_every_fault_of_a_manifest(tmp_path):
    write_picture(tmp_path / "in" / "a.png", seed=1)
    write_picture(tmp_path / "b.png", seed=2)
    rows = ["a.png,x", "gone.png,x", "a.png,", "../b.png,y", ",y", "a.png,nan", "a.png,y,never"]
    (tmp_path / "in" / "list.csv").write_text("path,label,split\n" + "\n".join(rows) + "\n")
    found = faults_of(ImageRecipe(data=str(tmp_path / "in" / "list.csv")))
    for line in (3, 4, 6, 7, 8):
        assert f"list.csv, line {line}:" in found
    (tmp_path / "in" / "list.csv").write_text("path,label\n" + "a.png,x\n" * 5 + "../b.png,y\n" * 5)
    assert "list.csv, line 7:" in notes_of(ImageRecipe(data=str(tmp_path / "in" / "list.csv")))
    (tmp_path / "in" / "list.csv").write_text("path,label,label\na.png,x,y\n")
    assert "two columns have the name 'label'" in faults_of(ImageRecipe(data=str(tmp_path / "in" / "list.csv")))


def test_idx_files_are_all_looked_at(tmp_path):
    files = {
        "train-images-idx3-ubyte.gz": gzip.compress(idx_bytes(np.zeros((3, 28, 28))))[:-20],
        "train-labels-idx1-ubyte.gz": gzip.compress(idx_bytes(range(3)) + b"0"),
        "t10k-images-idx3-ubyte.gz": gzip.compress(idx_bytes(np.zeros((3, 28, 28)))),
        "t10k-labels-idx1-ubyte.gz": gzip.compress(idx_bytes(range(4))),
    }
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError) as caught, collect_faults():
        IdxSource("clothes", tmp_path, tuple("abc"), "here").examine()
    lines = "\n".join(fault_lines(caught.value.faults, None))
    assert "train-images" in lines
    assert "train-labels-idx1-ubyte.gz is too long" in lines
    assert "the t10k images and labels do not belong together" in lines


def test_a_gzip_that_grows_without_end_is_not_unpacked(tmp_path, monkeypatch):
    from patchword.data.image import idx

    monkeypatch.setattr(idx, "LARGEST", 10_000)
    (tmp_path / "a.gz").write_bytes(gzip.compress(bytes(1_000_000)))
    with pytest.raises(UserError, match="too large to unpack"):
        idx.read_idx(tmp_path / "a.gz")


def test_headers_alone_are_read_of_a_set_too_large_to_decode_first(tmp_path, monkeypatch):
    monkeypatch.setattr(images, "MEMORY", 100)
    monkeypatch.setattr(images, "WHOLE", 5)
    write_classes(tmp_path, count=10)
    whole = write_picture(tmp_path / "cat" / "3.png", mode="RGB", size=(64, 64)).read_bytes()
    (tmp_path / "cat" / "3.png").write_bytes(whole[: len(whole) // 2])
    files, faulty = [(path, path.parent.name) for path in sorted(tmp_path.glob("*/*.png"))], FaultySamples("", "images")
    pixels, _ = images.load_pixels(files, ImageFormat(8, 1), faulty)
    with pytest.raises(UserError, match=r"cannot read the image .*cat/3\.png"):
        pixels.take(torch.arange(len(pixels.paths)))
    (tmp_path / "dog" / "4.png").write_text("none")
    with pytest.raises(UserError, match=r"cannot read the image .*dog/4\.png"):
        images.load_pixels(files, ImageFormat(8, 1), faulty)
    assert len(decoding.read_header(tmp_path / "cat" / "3.png")) == 3


# Pictures as a viewer shows them


def test_what_is_transparent_shows_white(tmp_path):
    colours = np.zeros((4, 4, 4), np.uint8)
    colours[..., 0], colours[:2, :, 3], colours[2, :, 3] = 200, 255, 128
    Image.fromarray(colours, "RGBA").save(tmp_path / "a.png")
    found = images.decode(tmp_path / "a.png", ImageFormat(4, 3))
    assert found[:, 0, 0].tolist() == [200, 0, 0]
    assert found[:, 2, 0].tolist() == [227, 127, 127]
    assert found[:, 3, 0].tolist() == [255, 255, 255]


def test_a_palette_with_a_transparent_entry(tmp_path):
    picture = Image.new("P", (4, 4), 1)
    picture.putpalette([9, 9, 9, 10, 20, 30])
    picture.paste(0, (0, 0, 4, 2))
    picture.save(tmp_path / "a.png", transparency=0)
    picture.save(tmp_path / "a.gif", transparency=0)
    for name in ("a.png", "a.gif"):
        found = images.decode(tmp_path / name, ImageFormat(4, 3))
        assert found[:, 0, 0].tolist() == [255, 255, 255]
        assert found[:, 3, 0].tolist() == [10, 20, 30]


def test_inks_become_light(tmp_path):
    Image.new("CMYK", (8, 8), (0, 255, 255, 0)).save(tmp_path / "red.tif")
    Image.new("CMYK", (8, 8), (0, 0, 0, 255)).save(tmp_path / "black.jpg", quality=100)
    assert images.decode(tmp_path / "red.tif", ImageFormat(8, 3))[:, 0, 0].tolist() == [255, 0, 0]
    assert images.decode(tmp_path / "black.jpg", ImageFormat(8, 3)).max() <= 2


@pytest.mark.parametrize("turn", range(1, 9))
def test_all_eight_ways_to_hold_a_camera(tmp_path, turn):
    upright = np.arange(24, dtype=np.uint8).reshape(4, 6) * 10
    back = {1: lambda a: a, 2: np.fliplr, 3: lambda a: np.rot90(a, 2), 4: np.flipud, 5: np.transpose}
    back |= {6: lambda a: np.rot90(a, 1), 7: lambda a: np.rot90(a.T, 2), 8: lambda a: np.rot90(a, -1)}
    exif = Image.Exif()
    exif[0x0112] = turn
    Image.fromarray(np.ascontiguousarray(back[turn](upright))).save(tmp_path / "a.png", exif=exif)
    assert images.decode(tmp_path / "a.png", ImageFormat((4, 6), 1))[0].tolist() == upright.tolist()


def test_the_first_frame_of_many(tmp_path):
    frames = [Image.new("L", (4, 4), value) for value in (10, 200, 90)]
    for name in ("a.gif", "a.png", "a.webp", "a.tif"):
        extra = {"lossless": True} if name.endswith("webp") else {}
        frames[0].save(tmp_path / name, save_all=True, append_images=frames[1:], **extra)
        assert images.decode(tmp_path / name, ImageFormat(4, 1)).unique().tolist() == [10], name


def test_interlaced_progressive_and_deep_pictures(tmp_path):
    ramp = (np.arange(64, dtype=np.uint16) * 1024 + 700).reshape(8, 8)
    Image.fromarray(ramp).save(tmp_path / "deep.tif")
    assert images.decode(tmp_path / "deep.tif", ImageFormat(8, 1))[0].flatten().tolist() == [
        round(v / 257) for v in ramp.flatten()
    ]
    smooth = Image.linear_gradient("L").resize((32, 32))
    smooth.save(tmp_path / "plain.jpg", quality=95)
    smooth.save(tmp_path / "progressive.jpg", quality=95, progressive=True)
    assert images.decode(tmp_path / "plain.jpg", ImageFormat(32, 1)).equal(
        images.decode(tmp_path / "progressive.jpg", ImageFormat(32, 1))
    )
    (tmp_path / "woven.png").write_bytes(interlaced(np.arange(64, dtype=np.uint8).reshape(8, 8)))
    assert images.decode(tmp_path / "woven.png", ImageFormat(8, 1)).flatten().tolist() == list(range(64))
    values = np.linspace(0, 1, 16, dtype=np.float32).reshape(4, 4)
    values[0, 0] = np.nan
    Image.fromarray(values).save(tmp_path / "nan.tif")
    with pytest.raises(UserError, match="not finite"):
        images.decode(tmp_path / "nan.tif", ImageFormat(4, 1))


def interlaced(grey: np.ndarray) -> bytes:
    """A PNG in Adam7's seven passes, which Pillow reads and does not write."""
    passes = [(0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1)]
    rows = b"".join(
        b"\0" + row.tobytes() for y, x, down, across in passes for row in grey[y::down, x::across] if row.size
    )
    return png(grey.shape[1], grey.shape[0], rows, interlace=1)


def png(width: int, height: int, rows: bytes, interlace: int = 0) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big")

    head = width.to_bytes(4, "big") + height.to_bytes(4, "big") + bytes([8, 0, 0, 0, interlace])
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def test_a_bomb_is_refused_by_its_header(tmp_path):
    """A few bytes that say they are 81 megapixels, of which Pillow does not even warn, or 400."""
    for side in (9_000, 20_000):
        (tmp_path / "bomb.png").write_bytes(png(side, side, b""))
        with pytest.raises(UserError, match=r"bomb\.png: got .*pixels.*\nremove or replace .*PATCHWORD_PIXELS="):
            images.decode(tmp_path / "bomb.png", ImageFormat(8, 1))


def test_other_decoders_are_not_tried(tmp_path):
    (tmp_path / "a.png").write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\nshowpage\n")
    with pytest.raises(UserError, match="cannot identify"):
        images.decode(tmp_path / "a.png", ImageFormat(8, 1))


@pytest.mark.filterwarnings("ignore:.*:UserWarning")
def test_broken_pictures_fail_in_known_ways_only(tmp_path):
    """600 pictures with a few bytes changed: each is read, or is an error with its name."""
    generator, path = np.random.default_rng(0), tmp_path / "a"
    for kind in ("PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP"):
        stream = io.BytesIO()
        Image.fromarray(generator.integers(0, 256, (16, 16, 3), dtype=np.uint8)).save(stream, kind)
        for _ in range(100):
            data = bytearray(stream.getvalue())
            for place in generator.integers(0, len(data), 4):
                data[place] = generator.integers(0, 256)
            path.write_bytes(data)
            with contextlib.suppress(UserError):
                assert images.decode(path, ImageFormat(8, 3)).shape == (3, 8, 8)


def test_a_hundred_thousand_rows_with_many_faults_are_one_report(tmp_path):
    rows = "".join(f"text {row},{'ab'[row % 2] if row % 1000 else ''}\n" for row in range(100_000))
    found = faults_of(TextRecipe(train=write(tmp_path / "a.csv", "text,label\n" + rows)))
    assert found.startswith("the label is empty (100):")


def test_a_name_of_data_is_not_mistaken(tmp_path):
    (tmp_path / "a.tar.gz").write_bytes(b"x")
    with pytest.raises(UserError, match="compressed as a whole"):
        open_source(str(tmp_path / "a.tar.gz"))
