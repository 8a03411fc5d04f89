"""Pascal VOC XML: pixels that are counted from 1, splits, and XML that could expand."""

import pytest

from patchword.core.errors import UserError
from patchword.data.detection.formats.xml_files import read_xml
from patchword.data.detection.reading import read_detection
from patchword.data.faults import collect_faults
from support.detection.annotations import HEIGHT, WIDTH, voc_object, write_voc


def test_boxes_count_from_1_and_include_their_last_pixel(tmp_path):
    hard = voc_object((3, 2, 7.5, 9), "dog", "<difficult>1</difficult>")
    write_voc(tmp_path, "a", voc_object((1, 1, WIDTH, HEIGHT)), hard)
    write_voc(tmp_path, "b")
    dataset = read_detection(tmp_path)
    assert dataset.classes == ("cat", "dog")
    assert dataset.format == "Pascal VOC XML"
    assert dataset.images[0].boxes.tolist() == [[0, 0, WIDTH, HEIGHT], [2, 1, 7.5, 9]]
    assert dataset.images[0].difficult.tolist() == [False, True]
    assert dataset.images[0].areas.tolist() == [WIDTH * HEIGHT, 44]
    assert len(dataset.images[1]) == 0
    assert dataset.images[0].where(1) == f"{tmp_path / 'Annotations' / 'a.xml'}, object 2"


@pytest.mark.parametrize("place", ["", "Annotations", "Annotations/a.xml"])
def test_root_folder_and_file_are_accepted(tmp_path, place):
    write_voc(tmp_path, "a", voc_object((1, 1, 4, 4)))
    assert read_detection(tmp_path / place).images[0].image == tmp_path / "JPEGImages/a.png"


def test_the_image_is_found_by_the_name_of_the_file(tmp_path):
    path = write_voc(tmp_path, "a", voc_object((1, 1, 4, 4)))
    path.write_text(path.read_text().replace("a.png", "C:\\elsewhere\\IMG_1.JPG"))
    assert read_detection(tmp_path).images[0].image == tmp_path / "JPEGImages/a.png"


def test_splits(tmp_path):
    for name in "abcd":
        write_voc(tmp_path, name, voc_object((1, 1, 4, 4)))
    lists = tmp_path / "ImageSets" / "Main"
    lists.mkdir(parents=True)
    for name, text in (("train", "a\nb  1\n"), ("val", "c"), ("trainval", "a\nb\nc"), ("cat_train", "d -1")):
        (lists / f"{name}.txt").write_text(text)
    assert [image.split for image in read_detection(tmp_path).images] == ["train", "train", "validation", None]
    (lists / "test.txt").write_text("c\nnowhere\n")
    missing = r"test.txt, line 2: the image has no annotation file: got nowhere"
    with pytest.raises(UserError, match=missing), collect_faults() as report:
        read_detection(tmp_path)
    assert "c is also in the validation split" in report.doubts[0].line


def test_classes_of_a_list_are_the_only_ones(tmp_path):
    (tmp_path / "classes.txt").write_text("dog\ncat\n")
    path = write_voc(tmp_path, "a", voc_object((1, 1, 4, 4)))
    assert read_detection(tmp_path).images[0].labels.tolist() == [1]
    path.write_text(path.read_text().replace("cat", "cta"))
    with pytest.raises(UserError, match=r"a.xml, object 1: unknown class: expected dog, cat, got cta"):
        read_detection(tmp_path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (voc_object((1, 1, "x", 4)), "object 1, xmax: not a finite number: expected a number, got 'x'"),
        ("<object><name>cat</name></object>", "object 1: no bndbox"),
        (voc_object((1, 1, 4, 4), " "), "object 1: no name of a class"),
    ],
)
def test_faulty_objects_are_named(tmp_path, content, message):
    write_voc(tmp_path, "a", content)
    with pytest.raises(UserError, match=message):
        read_detection(tmp_path)


def test_a_size_of_zero_is_a_fault(tmp_path):
    write_voc(tmp_path, "a", voc_object((1, 1, 4, 4)), size=(0, 0))
    with pytest.raises(UserError, match=r"a.xml, size: not the size of an image"):
        read_detection(tmp_path)


BOMB = '<!DOCTYPE a [<!ENTITY x "xxxxxxxxxx"><!ENTITY y "&x;&x;&x;&x;">]><annotation>&y;</annotation>'
OUTSIDE = '<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><annotation>&x;</annotation>'


@pytest.mark.parametrize("text", [BOMB, OUTSIDE])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_entities_are_refused(tmp_path, text, encoding):
    (tmp_path / "a.xml").write_bytes(text.encode(encoding))
    with pytest.raises(UserError, match="expected XML without a DOCTYPE"):
        read_xml(tmp_path / "a.xml")


@pytest.mark.parametrize("text", ["", "<annotation>", "<a>&y;</a>", "\0", "<a>" * 60])
def test_malformed_xml_is_an_error_of_the_user(tmp_path, text):
    (tmp_path / "a.xml").write_text(text)
    with pytest.raises(UserError, match=r"cannot read .*a.xml"):
        read_xml(tmp_path / "a.xml")


def test_another_xml_file_is_refused(tmp_path):
    (tmp_path / "a.xml").write_text("<html/>")
    with pytest.raises(UserError, match="not an annotation of Pascal VOC: expected <annotation>, got <html>"):
        read_detection(tmp_path / "a.xml")
