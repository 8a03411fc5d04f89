"""How a model is compiled, by where it runs and what it is given."""

import re

import pytest
import torch
from torch import nn
from torch._inductor.utils import run_and_get_code

from patchword.fusion import compile as module
from patchword.fusion.buckets import MOST
from patchword.fusion.compile import FirstMicrobatchGraph, compiled

GPU, CPU = torch.device("cuda", 0), torch.device("cpu")


@pytest.fixture
def asked(monkeypatch):
    """what torch is asked to compile with, instead of what it compiles; kernels are tried before"""
    tried = []
    monkeypatch.setattr(module, "run_self_tests", tried.append)
    monkeypatch.setattr(torch, "compile", lambda model, **options: options)
    yield lambda device, **given: compiled(nn.Linear(2, 2), device, **given)
    assert len(tried) == 1


GRAPHS, NONE = {"options": {"triton.cudagraphs": True}}, {"options": {"triton.cudagraphs": False}}


@pytest.mark.parametrize(
    ("device", "changing", "records", "expected"),
    [
        (GPU, False, False, NONE),
        (GPU, True, False, {"dynamic": True}),
        (CPU, False, True, NONE),
        (CPU, True, True, {"dynamic": True}),
    ],
)
def test_no_graphs_are_recorded_where_they_cannot_be(asked, device, changing, records, expected):
    assert asked(device, learns=True, changing=changing, records=records) == expected


def test_graphs_are_recorded_on_a_gpu(asked):
    found = asked(GPU, learns=True)
    assert (found.recorded, found.plain) == (GRAPHS, NONE)


def test_graphs_are_recorded_for_inference(asked):
    assert asked(GPU, learns=False)["options"]["triton.cudagraphs"]


def test_what_changes_is_not_recorded_for_inference(asked):
    assert asked(GPU, learns=False, changing=True) == {"dynamic": True}


def test_texts_of_other_sizes_are_recorded_where_something_is_learned(asked):
    found = asked(GPU, learns=True, changing=True)
    told = found.recorded.recorded
    assert told["dynamic"]
    assert told["options"]["triton.cudagraphs"]
    assert told["options"]["triton.cudagraph_dynamic_shape_warn_limit"] > MOST
    assert found.changing == found.recorded.plain == {"dynamic": True}


def test_those_are_options_of_torch():
    options = {"triton.cudagraphs": True, "triton.cudagraph_dynamic_shape_warn_limit": 2 * MOST}
    torch.compile(nn.Linear(2, 2), dynamic=True, options=options)  # says so if it knows one of them not


def test_only_the_first_piece_of_a_step_is_recorded():
    """a graph would write its gradients over those of the piece before"""
    model, went = nn.Linear(2, 2), []

    def by(name):
        def run(given):
            went.append(name)
            return model(given)

        return run

    run, given = FirstMicrobatchGraph(model, by("recorded"), by("plain")), torch.ones(1, 2)
    for _ in range(2):
        for _ in range(3):
            run(given).sum().backward()
        model.zero_grad()
    assert went == ["recorded", "plain", "plain"] * 2


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
