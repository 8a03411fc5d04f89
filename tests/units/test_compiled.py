"""How a model is compiled, by where it runs and what it is given."""

import re

import pytest
import torch
from torch import nn
from torch._inductor.utils import run_and_get_code

from patchword.layers import compiled as module
from patchword.layers.compiled import compiled

GPU, CPU = torch.device("cuda", 0), torch.device("cpu")


@pytest.mark.parametrize(
    ("device", "changing", "pieces", "expected"),
    [
        (GPU, False, 1, {"options": {"triton.cudagraphs": True}}),
        (GPU, False, 2, {"options": {"triton.cudagraphs": False}}),  # it would write over the first piece's gradients
        (GPU, True, 2, {"dynamic": True}),
        (CPU, False, 1, {"options": {"triton.cudagraphs": False}}),
        (CPU, True, 1, {"dynamic": True}),
    ],
)
def test_graphs_are_recorded_where_they_can_be(monkeypatch, device, changing, pieces, expected):
    tried = []
    monkeypatch.setattr(module, "try_all", tried.append)
    monkeypatch.setattr(torch, "compile", lambda model, **options: options)
    assert compiled(nn.Linear(2, 2), device, learns=True, changing=changing, pieces=pieces) == expected
    assert tried == [device]  # kernels, before anything is compiled


@pytest.mark.parametrize("learns", [True, False])
def test_texts_of_other_sizes_are_recorded_where_something_is_learned(monkeypatch, learns):
    monkeypatch.setattr(module, "try_all", lambda device: None)
    monkeypatch.setattr(torch, "compile", lambda model, **options: options)
    found = compiled(nn.Linear(2, 2), GPU, learns=learns, changing=True)
    if learns:
        assert found.recorded == {"dynamic": True, "options": {"triton.cudagraphs": True}}
    assert (found.changing if learns else found) == {"dynamic": True}


def test_recorded_graphs_are_what_torch_calls_so():
    assert torch._inductor.list_mode_options("reduce-overhead") == {"triton.cudagraphs": True}


class _Stream(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(8) for _ in range(4))
        self.parts = nn.ModuleList(nn.Linear(8, 8) for _ in range(4))

    def forward(self, tokens):
        for norm, part in zip(self.norms, self.parts, strict=True):
            tokens = tokens + part(norm(tokens))
        return tokens


def _most_read(run, tokens):
    """of all that the compiler writes, the tensors that one kernel reads"""
    with torch.no_grad():
        _, codes = run_and_get_code(run, tokens)
    heads = re.findall(r'extern "C"\s+void\s+kernel\(([^{]*)\)', "".join(codes))
    return max(head.count("const ") for head in heads)


def test_for_inference_a_norm_reads_one_sum_and_what_is_added():
    """one of the two is overwritten; the others are the norm's scale and shift"""
    assert _most_read(compiled(_Stream(), CPU, learns=False), torch.randn(2, 3, 8)) == 3
