"""How a model is compiled, by where it runs and what it is given."""

import pytest
import torch
from torch import nn

from patchword.layers import compiled as module
from patchword.layers.compiled import compiled

GPU, CPU = torch.device("cuda", 0), torch.device("cpu")


@pytest.mark.parametrize(
    ("device", "changing", "pieces", "expected"),
    [
        (GPU, False, 1, {"mode": "reduce-overhead"}),
        (GPU, False, 2, {"mode": "default"}),  # a graph would write over the gradients of the first piece
        (GPU, True, 1, {"dynamic": True}),
        (CPU, False, 1, {"mode": "default"}),
        (CPU, True, 1, {"dynamic": True}),
    ],
)
def test_graphs_are_recorded_where_they_can_be(monkeypatch, device, changing, pieces, expected):
    tried = []
    monkeypatch.setattr(module, "try_all", tried.append)
    monkeypatch.setattr(torch, "compile", lambda model, **options: options)
    assert compiled(nn.Linear(2, 2), device, changing, pieces) == expected
    assert tried == [device]  # kernels, before anything is compiled
