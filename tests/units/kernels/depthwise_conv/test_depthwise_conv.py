"""A filter of 3 x 3 over a map is torch's depthwise convolution: on a GPU, or else in Triton's interpreter.

Shapes are drawn at random, from fixed seeds: odd maps, tokens that lie anywhere, with and without a bias.
"""

import random

import pytest
import torch
from functorch.compile import make_boxed_func
from torch._dynamo.backends.common import aot_autograd

from patchword.kernels.depthwise_conv import lepe_conv_tuning as window_local_plan
from patchword.kernels.depthwise_conv import operation as module
from patchword.kernels.depthwise_conv.operation import depthwise_conv, has_depthwise_conv_kernel, matches_reference
from patchword.kernels.depthwise_conv.reference import depthwise_conv_reference
from patchword.kernels.depthwise_conv.torch_op import filter_back, filter_forward
from support.helpers import difference
from support.kernel_tests import DEVICE, farthest


@pytest.fixture
def triton():
    """With launches that follow the rules of this test alone."""
    found = pytest.importorskip("triton")
    from patchword.kernels.depthwise_conv import launch as neighbours_launch

    for launches in (neighbours_launch.forward, neighbours_launch.backward):
        launches.cache_clear()
    yield found
    for launches in (neighbours_launch.forward, neighbours_launch.backward):
        launches.cache_clear()


needs_triton = pytest.mark.usefixtures("triton")


def given(batch, height, width, channels, *, bias=True, seed=0):
    """tokens, weight, bias and the map"""
    generator = torch.Generator().manual_seed(seed)

    def random_(*shape):
        return torch.randn(*shape, generator=generator).to(DEVICE).requires_grad_()

    tokens, weight = random_(batch, height * width, channels), random_(channels, 1, 3, 3)
    return tokens, weight, random_(channels) if bias else None, height, width


def learned(way, tensors):
    """the answer and all gradients"""
    answer = way(*tensors)
    inputs = [part for part in tensors if isinstance(part, torch.Tensor) and part.requires_grad]
    slopes = (
        (torch.arange(answer.numel(), device=DEVICE) % 7 - 2).to(answer.dtype).view_as(answer)
    )  # in all kinds alike
    return [answer.detach(), *torch.autograd.grad(answer, inputs, slopes)]


def exactly(tensors):
    return [part.detach().double().requires_grad_() if isinstance(part, torch.Tensor) else part for part in tensors]


def worst(tensors):
    """of the kernel, beside the plain way in float64"""
    return farthest(learned(depthwise_conv, tensors), learned(depthwise_conv_reference, exactly(tensors)))


@needs_triton
@pytest.mark.parametrize("bias", [False, True], ids=["no bias", "bias"])
@pytest.mark.parametrize("seed", range(5))
def test_it_is_a_depthwise_convolution(seed, bias):
    numbers = random.Random(seed)
    shape = numbers.randint(1, 3), numbers.randint(1, 6), numbers.randint(1, 9), numbers.choice([3, 16, 20, 64, 72])
    assert worst(given(*shape, bias=bias, seed=seed)) < 1e-5


@needs_triton
def test_more_columns_than_a_program_has(monkeypatch):
    monkeypatch.setattr(window_local_plan, "EACH", 2)
    assert worst(given(2, 2, 5, 64)) < 1e-5


@needs_triton
@pytest.mark.parametrize("programs", [1, 6, 99])
def test_rows_in_spans(programs, monkeypatch):
    """many programs for a small map have a few rows each"""
    monkeypatch.setattr(window_local_plan, "PROGRAMS", programs)
    assert worst(given(1, 5, 3, 16)) < 1e-5


@needs_triton
def test_tokens_may_lie_anywhere():
    whole = torch.randn(2, 6, 100, generator=torch.Generator().manual_seed(0)).to(DEVICE)
    _, weight, bias, *_ = given(1, 1, 1, 32)
    turned = whole[..., :32].transpose(1, 2).contiguous().transpose(1, 2)
    odd = whole.flatten()[1 : 1 + 2 * 6 * 32].view(2, 6, 32)
    for tokens in (whole[..., 32:64], whole[..., 3:35], turned, odd):
        tensors = [tokens.detach().requires_grad_(), weight, bias, 2, 3]
        assert tensors[0].stride() == tokens.stride()
        assert worst(tensors) < 1e-5


@needs_triton
@pytest.mark.parametrize("way", ["forward", "backward"])
def test_a_tap_that_moved_is_seen(way):
    tokens, weight, *rest = given(1, 4, 3, 16)
    moved = weight.detach().roll(1, -1).requires_grad_()
    found, expected = (
        learned(depthwise_conv, (tokens, moved, *rest)),
        learned(depthwise_conv_reference, (tokens, weight, *rest)),
    )
    number = ("forward", "backward").index(way)
    assert difference(found[number], expected[number]) > 1e-2


@needs_triton
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_numbers_of_16_bits(dtype):
    """of tokens alone, as under autocast, and of all"""
    tensors = list(given(2, 2, 4, 32))
    tensors[0] = tensors[0].detach().to(dtype).requires_grad_()
    assert depthwise_conv(*tensors).dtype == dtype
    assert worst(tensors) < 1e-2
    tensors[1:3] = [part.detach().to(dtype).requires_grad_() for part in tensors[1:3]]
    assert [part.dtype for part in learned(depthwise_conv, tensors)] == [dtype] * 4
    assert worst(tensors) < 1e-2


@needs_triton
def test_autocast_tells_what_the_answer_is_made_of():
    tokens, weight, bias, *_ = given(1, 3, 4, 16)
    with torch.autocast(DEVICE.type, torch.bfloat16):
        answer = depthwise_conv(tokens, weight, bias, 3, 4)
        assert answer.dtype == depthwise_conv_reference(tokens, weight, bias, 3, 4).dtype == torch.bfloat16
    assert difference(answer.float(), depthwise_conv_reference(tokens, weight, bias, 3, 4)) < 1e-2
    assert torch.autograd.grad(answer.sum(), tokens)[0].dtype == torch.float32


@needs_triton
def test_no_images_have_no_answer():
    tokens, weight, bias, *_ = given(1, 3, 4, 16)
    answer = depthwise_conv(tokens[:0], weight, bias, 3, 4)
    assert answer.shape == (0, 12, 16)
    assert not torch.autograd.grad(answer.sum(), weight)[0].any()


GUARD = 50


@needs_triton
def test_nothing_is_written_beside_what_is_asked_for(monkeypatch):
    from patchword.kernels.depthwise_conv import torch_op as neighbours_operation

    rooms = []

    def guarded(like, shape, dtype=None):
        count = torch.Size(shape).numel()
        rooms.append(like.new_full((count + 2 * GUARD,), float("nan"), dtype=dtype))
        return rooms[-1][GUARD : GUARD + count].view(shape)

    monkeypatch.setattr(neighbours_operation, "allocate", guarded)
    assert worst(given(3, 5, 7, 20)) < 1e-5
    assert len(rooms) == 5
    for room in rooms:
        assert room[:GUARD].isnan().all()
        assert room[-GUARD:].isnan().all()
        assert not room[GUARD:-GUARD].isnan().any()


@needs_triton
def test_a_gradient_of_the_gradient():
    """which the plain twin gives"""
    tensors = given(1, 3, 3, 8)

    def second(way):
        first = torch.autograd.grad(way(*tensors).sin().sum(), tensors[0], create_graph=True)[0]
        return torch.autograd.grad(first.square().sum(), [tensors[0], tensors[1], tensors[2]])

    assert farthest(second(depthwise_conv), second(depthwise_conv_reference)) < 1e-5


@needs_triton
def test_a_filter_that_is_used_twice_has_the_gradient_of_both():
    """with a gradient of its own as without"""
    tokens, weight, bias, *grid = given(1, 3, 3, 8)

    def needs_grad(way, create_graph):
        answer = way(way(tokens, weight, bias, *grid), weight, bias, *grid)
        return torch.autograd.grad(answer.sin().sum(), [tokens, weight, bias], create_graph=create_graph)

    expected = needs_grad(depthwise_conv_reference, create_graph=False)
    for create_graph in (False, True):
        assert farthest(needs_grad(depthwise_conv, create_graph), expected) < 1e-4


@needs_triton
def test_torch_agrees_with_how_it_is_registered():
    tokens, weight, bias, height, width = given(1, 2, 2, 8)
    numbers = height, width, torch.float32
    torch.library.opcheck(module._filter, (tokens, weight, bias, *numbers))
    held = [part.detach() for part in (tokens, weight, bias)]
    checks = ("test_schema", "test_faketensor")
    torch.library.opcheck(filter_forward, (*held, *numbers), test_utils=checks)
    torch.library.opcheck(filter_back, (held[0], *held, height, width), test_utils=checks)


@needs_triton
def test_a_compiled_model_runs_the_two_operations():
    seen, tensors = [], given(2, 3, 4, 16)

    def keep(graph, inputs):
        seen.append([str(node.target) for node in graph.graph.nodes if "patchword" in str(node.target)])
        return make_boxed_func(graph)

    compiled = torch.compile(depthwise_conv, backend=aot_autograd(fw_compiler=keep), fullgraph=True)
    assert farthest(learned(compiled, tensors), learned(depthwise_conv_reference, tensors)) < 1e-5
    assert seen == [["patchword.depthwise_conv_forward.default"], ["patchword.depthwise_conv_back.default"]]


@needs_triton
def test_it_is_tried_before_it_is_trusted(monkeypatch):
    short = torch.bfloat16 if DEVICE.type == "cuda" else torch.float16
    assert matches_reference(DEVICE, short)
    original = module._filter
    monkeypatch.setattr(module, "_filter", lambda tokens, weight, *rest: original(tokens, weight.flip(-1), *rest))
    assert not matches_reference(DEVICE, short)


def test_on_a_processor_nothing_changes(monkeypatch):
    monkeypatch.setattr(module.SELF_TEST, "found", {0: True, -1: True})
    assert not has_depthwise_conv_kernel(torch.zeros(1, 12, 16))


@pytest.mark.parametrize("lanes", [1, 14, 3584, 14336])
@pytest.mark.parametrize("rows", [1, 7, 14, 56])
@pytest.mark.parametrize("channels", [3, 20, 32, 48, 64, 96, 128, 512])
@pytest.mark.parametrize("sm_count", [1, 132])
def test_every_row_of_every_column_has_one_program(lanes, rows, channels, sm_count):
    plan = window_local_plan.strips(lanes, rows, channels, sm_count)
    for count, each, programs in zip((lanes, channels, rows), plan[:3], plan.grid, strict=True):
        assert (programs - 1) * each < count <= programs * each
    walking = window_local_plan.walkers(lanes, channels, sm_count)
    assert walking.grid[0] * walking.tile < lanes + walking.tile
    assert walking.grid[1] * walking.block >= channels
