"""DETR against the authors' code: positions, mask, predictions of each layer, matches, results and losses.

No cell of the golden map is padding; tests/parity has a padded batch.
"""

from dataclasses import replace

import pytest
import torch

from patchword.core.geometry.boxes import clip_boxes
from patchword.core.geometry.objects import Targets
from patchword.layers.dense.queries.detr import QueryDecoder
from patchword.layers.dense.queries.sine_positions import valid_cells
from patchword.objectives.detection.queries.detr_loss import DetrLoss
from patchword.objectives.detection.queries.matching import match
from support.dense.detectors import golden_detector
from support.dense.queries import IMAGE, golden_detr

LAYERS = ("out.aux0", "out.aux1", "out")


@pytest.fixture
def golden():
    return golden_detector("detr")


def levels_of(golden, detector):
    return detector.with_pixels(golden["in.map"], IMAGE)


def assert_near(found, expected, share=1e-5):
    """Within a share of the largest expected value."""
    assert found.shape == expected.shape
    assert float((found - expected).abs().max()) <= share * float(expected.abs().max())


def targets_of(golden):
    """The authors' boxes are centers and sizes, relative to the images."""
    sizes = golden.sizes
    boxes, labels = [], []
    for image in range(2):
        centers, (height, width) = golden[f"gt.{image}.boxes"], sizes[image].tolist()
        corners = torch.cat([centers[:, :2] - centers[:, 2:] / 2, centers[:, :2] + centers[:, 2:] / 2], dim=1)
        boxes.append(corners * torch.tensor([width, height, width, height]))
        labels.append(golden[f"gt.{image}.labels"])
    return Targets.of(boxes, labels, sizes)


@torch.no_grad()
def test_mask_and_positions(golden):
    detector = golden_detr(golden)
    valid = valid_cells(levels_of(golden, detector)[1], golden.sizes)
    assert torch.equal(~valid, golden["in.mask"])
    assert_near(detector.positions(valid), golden["out.position"].flatten(2).transpose(1, 2))


@torch.no_grad()
def test_predictions_of_each_layer(golden):
    detector = golden_detr(golden)
    logits, boxes = detector.outputs(levels_of(golden, detector), golden.sizes)
    for layer, name in enumerate(LAYERS):
        assert_near(logits[layer], golden[f"{name}.logits"])
        assert_near(boxes[layer], golden[f"{name}.boxes"])


@torch.no_grad()
def test_results(golden):
    detector = golden_detr(golden)
    found = detector.detect(levels_of(golden, detector), golden.sizes)
    assert found.valid.all()
    for image in range(2):
        order = golden[f"result.{image}.scores"].argsort(descending=True)
        assert_near(found.scores[image], golden[f"result.{image}.scores"][order])
        assert torch.equal(found.labels[image], golden[f"result.{image}.labels"][order])
        expected = clip_boxes(golden[f"result.{image}.boxes"][order][None], golden.sizes[image : image + 1])
        assert_near(found.boxes[image], expected[0])


@torch.no_grad()
def test_matches(golden):
    detector, targets = golden_detr(golden), targets_of(golden)
    output = detector.outputs(levels_of(golden, detector), golden.sizes)
    found = match(DetrLoss().costs(output, targets), targets.valid)
    for image in range(2):
        expected = torch.full((int(targets.counts()[image]),), -1)
        expected[golden[f"out.match.{image}.target"]] = golden[f"out.match.{image}.query"]
        assert found[-1, image, : len(expected)].tolist() == expected.tolist()


def expected_losses(golden):
    """The authors' losses under our names, with their weights."""
    weights = golden.config["weights"]
    parts = {"class": "loss_ce", "box": "loss_bbox", "giou": "loss_giou"}
    layers = {"layer_1_": "_0", "layer_2_": "_1", "": ""}
    return {
        prefix + ours: weights[theirs] * float(golden[f"loss.{theirs}{suffix}"])
        for prefix, suffix in layers.items()
        for ours, theirs in parts.items()
    }


def losses_of(golden, detector, loss):
    return loss.on_levels(detector, levels_of(golden, detector), targets_of(golden))


@torch.no_grad()
def test_losses(golden):
    found = losses_of(golden, golden_detr(golden), DetrLoss())
    expected = expected_losses(golden)
    assert found.keys() == expected.keys()
    for name, loss in expected.items():
        assert float(found[name]) == pytest.approx(loss, rel=1e-5), name


# A changed convention is noticed.


def normed_between(detector, monkeypatch):
    """The norm of the decoder between its layers, as in transformers with auxiliary_loss=True."""

    def forward(self, tokens, scope):
        found = []
        for block in self.blocks:
            tokens = self.norm(block(tokens, scope))
            found.append(tokens)
        return found

    monkeypatch.setattr(QueryDecoder, "forward", forward)


def on_values(detector, monkeypatch):
    """Positions in the values, too."""
    for block in detector.encoder.blocks:
        projection = block.attention.sublayer.projection
        plain = projection.forward

        def forward(tokens, scope, plain=plain):
            return plain(tokens + scope.position, replace(scope, position=torch.zeros_like(scope.position)))

        monkeypatch.setattr(projection, "forward", forward)


def first_layer_only(detector, monkeypatch):
    """Positions in the first layer of the encoder only."""
    for block in list(detector.encoder.blocks)[1:]:
        projection = block.attention.sublayer.projection
        plain = projection.forward
        monkeypatch.setattr(
            projection,
            "forward",
            lambda tokens, scope, plain=plain: plain(tokens, replace(scope, position=torch.zeros_like(scope.position))),
        )


def queries_as_input(detector, monkeypatch):
    """The queries as the input of the decoder, instead of zeros."""
    plain = detector.decoder.forward
    monkeypatch.setattr(detector.decoder, "forward", lambda tokens, scope: plain(scope.position, scope))


NETWORKS = (normed_between, on_values, first_layer_only, queries_as_input)


@pytest.mark.parametrize("changed", NETWORKS)
@torch.no_grad()
def test_a_changed_network_is_noticed(golden, changed, monkeypatch):
    detector = golden_detr(golden)
    changed(detector, monkeypatch)
    logits = detector.outputs(levels_of(golden, detector), golden.sizes).logits
    assert float((logits[-1] - golden["out.logits"]).abs().max()) > 1e-3 * float(golden["out.logits"].abs().max())


LOSSES = {
    "none counts fully": {"none_weight": 1.0},
    "box weight": {"box_weight": 2.0},
    "giou weight": {"giou_weight": 5.0},
    "class weight": {"class_weight": 2.0},
}


@pytest.mark.parametrize("name", LOSSES)
@torch.no_grad()
def test_a_changed_loss_is_noticed(golden, name):
    found = losses_of(golden, golden_detr(golden), DetrLoss(**LOSSES[name]))
    assert any(abs(float(found[key]) - loss) > 1e-4 * loss for key, loss in expected_losses(golden).items())


@torch.no_grad()
def test_only_the_last_layer_learns_without_auxiliary_losses(golden):
    found = losses_of(golden, golden_detr(golden), DetrLoss().configured({"auxiliary": False}))
    assert found.keys() == {"class", "box", "giou"}
    assert float(found["giou"]) == pytest.approx(expected_losses(golden)["giou"], rel=1e-5)
