"""Every planted fault of detection data is named by file and object, in one report, and nothing is written."""

import hashlib
import json

import pytest
from PIL import Image

from patchword.core.errors import UserError
from patchword.data.detection.checking import check_detection, read_usable_detection
from patchword.data.faults import fault_lines
from support.detection.annotations import (
    HEIGHT,
    WIDTH,
    coco_folder,
    coco_image,
    coco_object,
    listed,
    shape,
    voc_object,
    write_coco_file,
    write_image,
    write_labelme,
    write_voc,
    write_yolo,
)


def faults_of(path) -> str:
    with pytest.raises(UserError) as caught:
        check_detection(path)
    return listed(caught.value)


def digests(folder):
    return {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.rglob("*") if path.is_file()}


def box(id: int, x: float, y: float, width: float, height: float) -> dict:
    return coco_object(id, bbox=[x, y, width, height], segmentation=[])


PLANTED = {
    "annotation 21: the box is outside of the image: expected x 0 to 32, y 0 to 24, got x 20 to 40, y 1 to 5": (
        box(21, 20, 1, 20, 4)
    ),
    "annotation 22: the box is outside of the image": box(22, -3, 1, 20, 4),
    "annotation 23: the box is empty or a single pixel": box(23, 3, 4, 0, 8),
    "annotation 24: the corners of the box are swapped: expected x1 < x2 and y1 < y2, got x 9 to 5, y 9 to 13": (
        box(24, 9, 9, -4, 4)
    ),
    "annotation 25: unknown class": coco_object(25, category_id=4),
    "annotation 26: not a polygon": coco_object(26, segmentation=[[1, 1, 5, 5]]),
    "annotation 27: the mask has another size than the image: expected 32 x 24, got 24 x 32": coco_object(
        27, segmentation={"size": [WIDTH, HEIGHT], "counts": [100, 20, WIDTH * HEIGHT - 120]}
    ),
    "annotation 28: the object is a duplicate of annotation 1": coco_object(28),
    "annotation 29: its image is not in the list of images": coco_object(29, image_id=77),
    "annotation 30: the polygon is outside of the image": coco_object(30, segmentation=[[1, 1, 50, 5, 9, 9]]),
    "annotation 31, bbox: not a finite number": coco_object(31, bbox=[1, 1, None, 4]),
    "annotation 32: the box is empty or a single pixel": box(32, 3, 4, 1, 1),
}


def test_all_planted_faults_are_named_at_once_and_nothing_is_written(tmp_path):
    file = coco_folder(tmp_path, coco_object(1), *PLANTED.values())
    record = json.loads(file.read_text())
    record["images"] += [
        coco_image(2, "missing.png"),
        coco_image(3, "broken.png"),
        coco_image(4, "small.png", height=9),
        coco_image(5, ""),
    ]
    write_image(tmp_path / "small.png")
    (tmp_path / "broken.png").write_bytes((tmp_path / "small.png").read_bytes()[:60])
    file.write_text(json.dumps(record))
    before = digests(tmp_path)
    found = faults_of(file)
    assert digests(tmp_path) == before
    for message in PLANTED:
        assert f"{file}, {message}" in found, found
    assert f"{file}, image 2: there is no image {tmp_path / 'missing.png'}" in found
    assert f"cannot read the image {tmp_path / 'broken.png'}" in found
    assert f"{file}: the size of the image small.png is wrong: expected 32 x 24, as the image file, got 32 x 9" in found
    assert f"{file}, image 5: no file_name" in found
    assert sum(line.startswith("  ") and "->" not in line for line in found.splitlines()) == len(PLANTED) + 4


def test_sound_data_has_a_summary_and_no_notes(tmp_path):
    file = coco_folder(tmp_path, coco_object(1), coco_object(2, category_id=7))
    summary, notes = check_detection(file)
    assert summary == "1 images (0 without objects), 2 objects of 2 classes, outlines, COCO JSON"
    assert list(notes) == []


def test_rounded_numbers_are_no_fault(tmp_path):
    write_yolo(tmp_path, a="0 0.500000 0.500000 1.000001 1.000001")
    (tmp_path / "classes.txt").write_text("cat")
    assert check_detection(tmp_path)[0].startswith("1 images")
    (tmp_path / "labels/a.txt").write_text("0 0.5 0.5 1.04 1")  # more than half a pixel
    assert "a.txt, line 1: the box is outside of the image" in faults_of(tmp_path)


@pytest.mark.parametrize("name", ["missing.xml", "broken.xml"])
def test_a_broken_file_does_not_hide_the_faults_of_others(tmp_path, name):
    write_voc(tmp_path, "a", voc_object((5, 5, 5, 5)), voc_object((9, 5, 3, 12)), voc_object((1, 1, 33, 20)))
    (tmp_path / "Annotations" / name).write_text("<annotation><object>")
    found = faults_of(tmp_path)
    assert f"cannot read {tmp_path / 'Annotations' / name}: expected an XML file" in found
    assert "object 1: the box is empty or a single pixel: expected a width and a height above 0 pixels" in found
    assert "object 2: the corners of the box are swapped" in found
    assert "object 3: the box is outside of the image" in found


def test_an_embedded_image_is_decoded(tmp_path):
    file = write_labelme(tmp_path / "a.json", shape([[1, 1], [9, 1], [9, 7]]), imageData="AAAA")
    assert f"cannot read the image {file}" in faults_of(file)


def test_possible_mistakes_are_notes(tmp_path):
    write_image(tmp_path / "a.png")
    images = [coco_image(1), coco_image(2)]
    tiny = coco_object(2, bbox=[3.2, 3.2, 1.2, 0.2], segmentation=[[3.2, 3.2, 4.4, 3.2, 4.4, 3.4]])
    file = write_coco_file(tmp_path / "x.json", images, [coco_object(1), tiny, box(3, 1, 1, 5, 5)])
    notes = "\n".join(fault_lines(check_detection(file)[1]))
    assert "a class without objects (1):\n" in notes
    assert f"{file}: dog" in notes
    assert f"an image that is listed several times (1):\n  {tmp_path / 'a.png'}: 2 times" in notes
    assert "objects without an outline" in notes
    assert "annotation 2" in notes


def test_an_image_without_annotations_is_a_note(tmp_path):
    write_voc(tmp_path, "a", voc_object((5, 5, 9, 9)))
    write_image(tmp_path / "JPEGImages" / "b.png")
    notes = "\n".join(fault_lines(check_detection(tmp_path)[1]))
    assert notes == f"an image without annotations, which is left out (1):\n  {tmp_path / 'JPEGImages' / 'b.png'}"


@pytest.mark.parametrize(
    ("orientation", "size", "expected"),
    [
        (6, (WIDTH, HEIGHT), "taken as those of the upright image"),
        (8, (HEIGHT, WIDTH), "count the stored pixels"),
        (3, (HEIGHT, WIDTH), "taken as those of the upright image"),
    ],
)
def test_rotated_images_say_how_the_boxes_are_meant(tmp_path, orientation, size, expected):
    write_image(tmp_path / "a.jpg", orientation=orientation)
    image = coco_image(1, "a.jpg", height=size[0], width=size[1])
    file = write_coco_file(tmp_path / "x.json", [image], [coco_object(1), coco_object(2, category_id=7)])
    notes = "\n".join(fault_lines(check_detection(file)[1]))
    assert "an image that EXIF data rotate" in notes
    assert expected in notes
    assert f"{tmp_path / 'a.jpg'}: orientation {orientation}" in notes


def test_data_without_objects_is_a_fault(tmp_path):
    assert "has no objects" in faults_of(coco_folder(tmp_path))
    write_voc(tmp_path / "voc", "a").write_text("<annotation")
    assert "no images with readable annotations" in faults_of(tmp_path / "voc")


# For training


def many(tmp_path, *faulty: dict, **image: object):
    """Write 30 sound objects and some faulty ones, in 30 images of which the last has other settings."""
    images = [coco_image(id, f"{id}.png") for id in range(1, 31)]
    images[-1] |= image
    for entry in images:
        write_image(tmp_path / f"{entry['id']}.png")
    sound = [coco_object(id, image_id=id, category_id=3 if id % 2 else 7) for id in range(1, 31)]
    return write_coco_file(tmp_path / "x.json", images, [*sound, *faulty])


def test_a_few_faulty_objects_are_skipped_in_training(tmp_path):
    file = many(tmp_path, box(40, 3, 4, 0, 8))
    dataset, skipped = read_usable_detection(file)
    assert [fault.line.split(": ")[1] for fault in skipped] == ["the box is empty or a single pixel"]
    assert len(dataset.images) == 30
    first = dataset.images[0]
    assert first.ids.tolist() == [1]
    assert len(first.boxes) == len(first.outlines) == len(first.areas) == len(first.crowd) == 1
    assert "annotation 40: the box is empty" in faults_of(file)  # data check reports it


def test_many_faulty_objects_or_a_lost_class_are_errors(tmp_path):
    with pytest.raises(UserError, match=r"3 faults(.*\n)*.*3 of 33 objects are faulty; at most 5% are skipped"):
        read_usable_detection(many(tmp_path, *(box(id, 3, 4, 0, 8) for id in (40, 41, 42))))
    alone = coco_folder(
        tmp_path / "b",
        *(coco_object(id, bbox=[4, 4, 8, id]) for id in range(1, 9)),
        box(9, 1, 1, 0, 4) | {"category_id": 7},
    )
    with pytest.raises(UserError, match="no objects of the class 'dog' are left"):
        read_usable_detection(alone)


@pytest.mark.parametrize("fault", ["size", "missing", "broken"])
@pytest.mark.parametrize("whole", [True, False])
def test_a_faulty_image_is_skipped_in_training(tmp_path, fault, whole):
    file = many(tmp_path, **({"height": 9, "width": 9} if fault == "size" else {}))
    if fault == "missing":
        (tmp_path / "30.png").unlink()
    if fault == "broken":
        (tmp_path / "30.png").write_bytes(b"no image")
    if fault == "size":  # an object that is outside of 9 x 9 pixels comes first
        record = json.loads(file.read_text())
        record["annotations"] = [one for one in record["annotations"] if one["image_id"] != 30]
        file.write_text(json.dumps(record))
    dataset, skipped = read_usable_detection(file, whole=whole)
    assert len(skipped) == 1
    assert "30.png" in skipped[0].line
    assert [image.id for image in dataset.images] == [*range(1, 30)]


# The verb


def test_the_verb_recognises_annotations(tmp_path, command):
    file = coco_folder(tmp_path, coco_object(1))
    code, out, _ = command("data", "check", file)
    assert code == 0
    assert "no faults: 1 images (0 without objects), 1 objects of 2 classes, outlines, COCO JSON" in out
    assert "note: a class without objects (1):" in out
    write_yolo(tmp_path, a="0 0.5 0.5 1 1\n0 0.5 0.5 2 1\n")
    code, _, complaint = command("data", "check", tmp_path)
    assert code == 2
    assert "choose one: format=coco or format=yolo" in complaint
    code, _, complaint = command("data", "check", tmp_path, "format=yolo")
    assert code == 2
    assert "labels/a.txt, line 2: the box is outside of the image" in complaint
    code, _, complaint = command("data", "check", tmp_path, "format=yoll")
    assert code == 2
    assert "did you mean 'yolo'" in complaint


def test_the_verb_names_the_folder_below_that_has_annotations(tmp_path, command):
    inner = coco_folder(tmp_path / "set", coco_object(1)).parent
    code, _, complaint = command("data", "check", tmp_path)
    assert code == 2
    assert f"{inner} has annotations of objects: `patchword data check {inner}`" in complaint


def test_the_verb_checks_classes_and_questions_as_before(tmp_path, command):
    Image.new("L", (8, 8)).save(tmp_path / "a.png")
    (tmp_path / "squad.json").write_text('{"version": "1.1", "data": 3}')
    code, _, complaint = command("data", "check", tmp_path)
    assert code == 2
    assert "has no class folders" in complaint
    code, _, complaint = command("data", "check", tmp_path / "squad.json")
    assert code == 2
    assert "objects" not in complaint
