"""Batches of objects."""

import torch

from patchword.core.geometry.objects import Detections, Targets, take

SIZES = torch.tensor([[10, 20], [30, 40]])


def two_images():
    boxes = [torch.tensor([[1.0, 2.0, 3.0, 4.0]]), torch.zeros(0, 4)]
    labels = [torch.tensor([5]), torch.zeros(0, dtype=torch.long)]
    masks = [torch.ones(1, 3, 2, dtype=torch.bool), torch.zeros(0, 3, 2, dtype=torch.bool)]
    return Targets.of(boxes, labels, SIZES, masks)


def test_images_are_padded_to_the_same_number_of_objects():
    found = two_images()
    assert found.boxes.tolist() == [[[1, 2, 3, 4]], [[0, 0, 0, 0]]]
    assert found.labels.tolist() == [[5], [0]]
    assert found.valid.tolist() == [[True], [False]]
    assert found.masks.shape == (2, 1, 3, 2)
    assert found.counts().tolist() == [1, 0]


def test_images_without_any_object_leave_room_for_one():
    found = Targets.of([torch.zeros(0, 4)], [torch.zeros(0, dtype=torch.long)], SIZES[:1])
    assert found.boxes.shape == (1, 1, 4)
    assert not found.valid.any()
    assert found.masks is None


def test_a_slice_holds_some_images():
    found = two_images()[1:]
    assert len(found) == 1
    assert found.sizes.tolist() == [[30, 40]]
    assert found.masks.shape == (1, 1, 3, 2)


def test_a_batch_moves_to_a_device_as_a_whole():
    found = Detections(torch.zeros(1, 2, 4), torch.zeros(1, 2), torch.ones(1, 2), SIZES[:1], torch.zeros(1, 2))
    assert {one.device.type for one in vars(found.to("meta")).values() if one is not None} == {"meta"}


def test_values_are_taken_by_their_index_in_each_image():
    values = torch.arange(12).view(2, 3, 2)
    assert take(values, torch.tensor([[2, 0], [1, 1]])).tolist() == [[[4, 5], [0, 1]], [[8, 9], [8, 9]]]


def test_detections_given_per_image_are_sorted_and_padded():
    boxes = [torch.tensor([[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]]), torch.zeros(0, 4)]
    labels = [torch.tensor([1, 2]), torch.zeros(0, dtype=torch.long)]
    scores = [torch.tensor([0.25, 0.75]), torch.zeros(0)]
    masks = [torch.stack([torch.zeros(2, 2), torch.ones(2, 2)]), torch.zeros(0, 2, 2)]
    found = Detections.of(boxes, labels, scores, SIZES, masks)
    assert found.scores.tolist() == [[0.75, 0.25], [0, 0]]
    assert found.labels.tolist() == [[2, 1], [0, 0]]
    assert found.boxes[0, 0].tolist() == [5, 6, 7, 8]
    assert found.valid.tolist() == [[True, True], [False, False]]
    assert found.masks[0, 0].all()
    assert Detections.of(boxes, labels, scores, SIZES).masks is None
