"""Matching of queries and objects, and its costs."""

import pytest
import torch
from scipy.optimize import linear_sum_assignment

from patchword.objectives.detection.queries.matching import (
    focal_cost,
    giou_cost,
    l1_cost,
    mark_nonfinite,
    match,
    softmax_cost,
)


def test_each_layer_and_image_is_matched_by_itself():
    costs = torch.randn(3, 2, 7, 4, generator=torch.Generator().manual_seed(0))
    valid = torch.tensor([[True, True, False, True], [False, False, False, False]])
    found = match(costs, valid)
    assert found.shape == (3, 2, 4)
    for layer in range(3):
        queries, objects = linear_sum_assignment(costs[layer, 0][:, valid[0]].double())
        expected = torch.empty(3, dtype=torch.long)
        expected[torch.from_numpy(objects)] = torch.from_numpy(queries)
        assert found[layer, 0, valid[0]].tolist() == expected.tolist()
    assert (found[:, ~valid] == -1).all()


def test_with_few_queries_the_dearest_objects_have_none():
    found = match(torch.tensor([[[[3.0, 1.0, 2.0]]]]), torch.ones(1, 3, dtype=torch.bool))
    assert found.tolist() == [[[-1, 0, -1]]]


def test_non_finite_costs_give_a_non_finite_loss():
    costs = torch.zeros(1, 2, 2, 3)
    costs[0, 1, 0, 0] = float("nan")
    found = match(costs, torch.ones(2, 3, dtype=torch.bool))
    assert found[0, 1].tolist() == [0, 1, -1]
    assert mark_nonfinite(torch.tensor(1.0), costs).isnan()
    assert mark_nonfinite(torch.tensor(1.0), torch.ones(3)) == 1.0


def test_class_costs():
    logits = torch.tensor([[[[0.0, 2.0, -1.0]]]])
    labels = torch.tensor([[1, 0]])
    assert softmax_cost(logits, labels)[0, 0, 0].tolist() == pytest.approx([-0.8438, -0.1142], abs=1e-4)
    present = 0.25 * 0.5**2 * 0.6931
    assert float(focal_cost(logits, labels)[0, 0, 0, 1]) == pytest.approx(present - 3 * present, abs=1e-4)


def test_box_costs():
    boxes, targets = torch.tensor([[[[0.0, 0, 2, 2], [1, 1, 3, 3]]]]), torch.tensor([[[0.0, 0, 2, 2]]])
    assert l1_cost(boxes, targets)[0, 0, :, 0].tolist() == [0, 4]
    assert giou_cost(boxes, targets)[0, 0, :, 0].tolist() == pytest.approx([-1, -1 / 7 + 2 / 9])


def test_a_compiler_does_not_trace_the_assignment():
    """It would trace the loops of numpy into dozens of graphs."""
    graphs = []

    def backend(graph, _):
        graphs.append(graph)
        return graph

    def matched(costs, valid):
        return match(costs * 2, valid) + 1

    torch._dynamo.reset()
    costs, valid = torch.rand(2, 3, 9, 4, generator=torch.Generator().manual_seed(0)), torch.ones(3, 4) > 0
    assert torch.equal(torch.compile(matched, backend=backend)(costs, valid), matched(costs, valid))
    assert len(graphs) == 2
