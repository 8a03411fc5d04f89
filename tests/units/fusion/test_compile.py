"""How a model is compiled, by where it runs and what it is given."""

import re

import pytest
import torch
from torch import nn
from torch._inductor import config as inductor
from torch._inductor.utils import get_code

from patchword.fusion import compile as module
from patchword.fusion.buckets import MOST_BUCKETS
from patchword.fusion.compile import FirstMicrobatchGraph, compile

GPU, CPU = torch.device("cuda", 0), torch.device("cpu")


@pytest.fixture
def asked(monkeypatch):
    """the options that torch.compile gets, in place of the compiled model; the self-tests of kernels run before"""
    tried = []
    monkeypatch.setattr(module, "run_self_tests", tried.append)
    monkeypatch.setattr(torch, "compile", lambda model, **options: options)

    def run(device, **given):
        monkeypatch.setattr(module, "_device_of", lambda model: device)
        return compile(nn.Linear(2, 2), **given)

    yield run
    assert len(tried) == 1


GRAPHS, NONE = ({"dynamic": None, "options": {"triton.cudagraphs": graphs}} for graphs in (True, False))


@pytest.mark.parametrize(
    ("device", "dynamic", "cuda_graphs", "expected"),
    [
        (GPU, None, False, NONE),
        (GPU, True, False, {"dynamic": True}),
        (CPU, None, True, NONE),
        (CPU, True, True, {"dynamic": True}),
    ],
)
def test_no_cuda_graphs_where_they_cannot_run(asked, device, dynamic, cuda_graphs, expected):
    assert asked(device, training=True, dynamic=dynamic, cuda_graphs=cuda_graphs) == expected


def test_cuda_graphs_on_a_gpu(asked):
    found = asked(GPU, training=True)
    assert (found.graphed, found.plain) == (GRAPHS, NONE)


def test_cuda_graphs_for_inference(asked):
    assert asked(GPU)["options"]["triton.cudagraphs"]


def test_no_cuda_graphs_on_a_cpu(asked):
    assert not asked(CPU)["options"]["triton.cudagraphs"]


def test_no_cuda_graphs_where_they_are_not_asked_for(asked):
    assert not asked(GPU, cuda_graphs=False)["options"]["triton.cudagraphs"]


def test_dynamic_shapes_have_no_cuda_graphs_for_inference(asked):
    assert asked(GPU, dynamic=True) == {"dynamic": True}


def test_static_shapes_are_passed_on(asked):
    assert asked(GPU, dynamic=False)["dynamic"] is False


def test_packed_text_has_a_cuda_graph_per_bucket_in_training(asked):
    found = asked(GPU, training=True, dynamic=True)
    given = found.graphed.graphed
    assert given["dynamic"]
    assert given["options"]["triton.cudagraphs"]
    assert given["options"]["triton.cudagraph_dynamic_shape_warn_limit"] > MOST_BUCKETS
    assert found.plain == found.graphed.plain == {"dynamic": True}


def test_those_are_options_of_torch():
    options = {"triton.cudagraphs": True, "triton.cudagraph_dynamic_shape_warn_limit": 2 * MOST_BUCKETS}
    torch.compile(nn.Linear(2, 2), dynamic=True, options=options)  # raises if it does not know one of them


def test_only_the_first_micro_batch_of_a_step_runs_as_a_cuda_graph():
    """a CUDA graph would overwrite the gradients of the micro-batch before"""
    model, went = nn.Linear(2, 2), []

    def by(name):
        def run(given):
            went.append(name)
            return model(given)

        return run

    run, given = FirstMicrobatchGraph(model, by("graphed"), by("plain")), torch.ones(1, 2)
    for _ in range(2):
        for _ in range(3):
            run(given).sum().backward()
        model.zero_grad()
    assert went == ["graphed", "plain", "plain"] * 2


def test_torch_has_the_same_option_for_cuda_graphs():
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
    with torch.no_grad(), inductor.patch({"cpp.simdlen": 1}):  # the same code whatever vectors the processor has
        codes = get_code(run, tokens)  # without C++'s compiler, which takes half a minute
    heads = re.findall(r'extern "C"\s+void\s+kernel\(([^{]*)\)', "".join(codes))
    return max(head.count("const ") for head in heads)


def test_for_inference_a_norm_reads_one_sum_and_what_is_added():
    """one of the two is overwritten; the others are the norm's scale and shift"""
    assert _most_read(compile(_Stream()), torch.randn(2, 3, 8)) == 3
