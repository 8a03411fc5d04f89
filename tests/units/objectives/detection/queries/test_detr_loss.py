"""The loss of DETR: processes add up, no objects, more objects than queries, half precision, non-finite predictions."""

from dataclasses import replace

import pytest
import torch

from patchword.core.geometry.objects import Targets
from patchword.layers.dense.queries.detr import QueryOutput
from patchword.objectives.detection.queries.detr_loss import DetrLoss
from patchword.objectives.detection.shared_loss import SharedLoss

LAYERS, BATCH, QUERIES, CLASSES = 2, 4, 6, 3


@pytest.fixture
def output():
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(LAYERS, BATCH, QUERIES, CLASSES + 1, generator=generator)
    boxes = torch.rand(LAYERS, BATCH, QUERIES, 4, generator=generator) * 0.5 + 0.1
    return QueryOutput(logits, boxes)


def targets(*counts):
    generator = torch.Generator().manual_seed(1)
    corners = [torch.rand(count, 2, generator=generator) * 60 for count in counts]
    boxes = [torch.cat([low, low + 20], dim=1) for low in corners]
    labels = [torch.randint(0, CLASSES, (count,), generator=generator) for count in counts]
    return Targets.of(boxes, labels, torch.tensor([[80, 90], [100, 96], [90, 90], [64, 100]]))


def some(output, images):
    return QueryOutput(output.logits[:, images], output.boxes[:, images])


def test_the_losses_of_two_processes_add_up_to_that_of_the_batch(output):
    given, loss = targets(2, 0, 5, 1), DetrLoss()
    whole = loss.on_outputs(output, given)
    counts: list[list[torch.Tensor]] = [[], []]
    parts = (slice(0, 3), slice(3, 4))

    def keep(number):
        def total(count):
            counts[number].append(count)
            return count

        return SharedLoss(total=total)

    for number, images in enumerate(parts):
        loss.on_outputs(some(output, images), given[images], keep(number))
    sums = [first + second for first, second in zip(*counts, strict=True)]
    found = []
    for images in parts:
        left = iter(sums)
        shared = SharedLoss(total=lambda count, left=left: next(left))
        found.append(loss.on_outputs(some(output, images), given[images], shared))
    for name, expected in whole.items():
        assert float(found[0][name] + found[1][name]) == pytest.approx(float(expected), rel=1e-5), name


def test_without_objects_all_queries_learn_that_there_is_none(output):
    found = DetrLoss().on_outputs(output, targets(0, 0, 0, 0))
    none = -output.logits.log_softmax(-1)[-1, ..., -1].mean()
    assert float(found["class"]) == pytest.approx(float(none), rel=1e-5)
    assert float(found["box"]) == float(found["giou"]) == 0


def test_more_objects_than_queries_are_divided_by_all_objects(output):
    given = targets(9, 9, 9, 9)
    found = DetrLoss().on_outputs(output, given)
    assert all(loss.isfinite() for loss in found.values())
    fewer = replace(given, valid=given.valid & (torch.arange(9) < QUERIES))
    assert float(found["box"]) < float(DetrLoss().on_outputs(output, fewer)["box"])


def test_an_object_of_a_query_has_the_full_weight(output):
    """One image, one object: (its loss + 0.1 * those of the others) / (1 + 0.1 * others)."""
    given, one = targets(1, 0, 0, 0)[:1], some(output, slice(0, 1))
    costs = DetrLoss().costs(one, given)[-1, 0, :, 0]
    best, label = int(costs.argmin()), int(given.labels[0, 0])
    losses = -one.logits[-1, 0].log_softmax(-1)
    others = sum(losses[query, -1] for query in range(QUERIES) if query != best)
    expected = (losses[best, label] + 0.1 * others) / (1 + 0.1 * (QUERIES - 1))
    assert float(DetrLoss().on_outputs(one, given)["class"]) == pytest.approx(float(expected), rel=1e-5)


@pytest.mark.parametrize("part", ["logits", "boxes"])
def test_a_non_finite_prediction_gives_a_non_finite_loss(output, part):
    getattr(output, part)[0, 1, 2] = float("nan")
    losses = DetrLoss().on_outputs(output, targets(2, 1, 1, 1))
    assert not torch.stack(list(losses.values())).sum().isfinite()
