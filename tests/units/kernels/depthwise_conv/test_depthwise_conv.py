"""The 3 x 3 depthwise convolution kernel matches torch's, on a GPU or in Triton's interpreter.

Shapes are drawn at random from fixed seeds: odd maps, tokens with any strides, with and without a bias.
"""

import random

import pytest
import torch
from functorch.compile import make_boxed_func
from torch._dynamo.backends.common import aot_autograd

from patchword.kernels.depthwise_conv import lepe_conv_tuning
from patchword.kernels.depthwise_conv import operation as module
from patchword.kernels.depthwise_conv.operation import depthwise_conv, has_depthwise_conv_kernel, matches_reference
from patchword.kernels.depthwise_conv.reference import depthwise_conv_reference
from patchword.kernels.depthwise_conv.torch_op import filter_back, filter_forward
from support.helpers import difference
from support.kernel_tests import DEVICE, assert_as_exact, assert_rounded, needs_triton


@pytest.fixture
def triton():
    """Empties the launch caches, so that they follow the tuning of this test only."""
    found = pytest.importorskip("triton")
    from patchword.kernels.depthwise_conv import launch

    for launches in (launch.forward, launch.backward):
        launches.cache_clear()
    yield found
    for launches in (launch.forward, launch.backward):
        launches.cache_clear()


def given(batch, height, width, channels, *, bias=True, seed=0):
    """Returns tokens, weight and bias, and the height and width of the map."""
    generator = torch.Generator().manual_seed(seed)

    def random_(*shape):
        return torch.randn(*shape, generator=generator).to(DEVICE).requires_grad_()

    tokens, weight = random_(batch, height * width, channels), random_(channels, 1, 3, 3)
    return tokens, weight, random_(channels) if bias else None, height, width


def differentiated(run, tensors):
    """Returns the output and all gradients."""
    output = run(*tensors)
    inputs = [part for part in tensors if isinstance(part, torch.Tensor) and part.requires_grad]
    slopes = (torch.arange(output.numel(), device=DEVICE) % 7 - 2).view_as(output)  # exact in every dtype
    return [output.detach(), *torch.autograd.grad(output, inputs, slopes.to(output.dtype))]


def cast(tensors, dtype):
    return [part.detach().to(dtype).requires_grad_() if isinstance(part, torch.Tensor) else part for part in tensors]


def check(tensors, run=depthwise_conv, differentiate=differentiated):
    """The kernel is about as exact as the reference."""
    reference = differentiate(depthwise_conv_reference, tensors)
    exact = differentiate(depthwise_conv_reference, cast(tensors, torch.float64))
    assert_as_exact(differentiate(run, tensors), reference, exact)


@needs_triton
@pytest.mark.parametrize("bias", [False, True], ids=["no bias", "bias"])
@pytest.mark.parametrize("seed", range(5))
def test_kernel_matches_reference(seed, bias):
    numbers = random.Random(seed)
    shape = numbers.randint(1, 3), numbers.randint(1, 6), numbers.randint(1, 9), numbers.choice([3, 16, 20, 64, 72])
    check(given(*shape, bias=bias, seed=seed))


@needs_triton
def test_maps_wider_than_the_columns_of_a_program(monkeypatch):
    monkeypatch.setattr(lepe_conv_tuning, "EACH", 2)
    check(given(2, 2, 5, 64))


@needs_triton
@pytest.mark.parametrize("programs", [1, 6, 99])
def test_rows_are_split_between_programs(programs, monkeypatch):
    """With many programs for a small map, each has few rows."""
    monkeypatch.setattr(lepe_conv_tuning, "PROGRAMS", programs)
    check(given(1, 5, 3, 16))


@needs_triton
def test_tokens_may_have_any_strides():
    full = torch.randn(2, 6, 100, generator=torch.Generator().manual_seed(0)).to(DEVICE)
    _, weight, bias, *_ = given(1, 1, 1, 32)
    turned = full[..., :32].transpose(1, 2).contiguous().transpose(1, 2)
    odd = full.flatten()[1 : 1 + 2 * 6 * 32].view(2, 6, 32)
    for tokens in (full[..., 32:64], full[..., 3:35], turned, odd):
        tensors = [tokens.detach().requires_grad_(), weight, bias, 2, 3]
        assert tensors[0].stride() == tokens.stride()
        check(tensors)


@needs_triton
@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_a_moved_tap_changes_the_result(direction):
    tokens, weight, *rest = given(1, 4, 3, 16)
    moved = weight.detach().roll(1, -1).requires_grad_()
    found = differentiated(depthwise_conv, (tokens, moved, *rest))
    expected = differentiated(depthwise_conv_reference, (tokens, weight, *rest))
    number = ("forward", "backward").index(direction)
    assert difference(found[number], expected[number]) > 1e-2


@needs_triton
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_16_bit_tensors(dtype):
    """First the tokens alone, as under autocast, then all."""
    tensors = list(given(2, 2, 4, 32))
    tensors[0] = tensors[0].detach().to(dtype).requires_grad_()
    exact = differentiated(depthwise_conv_reference, cast(tensors, torch.float64))
    found = differentiated(depthwise_conv, tensors)
    assert [part.dtype for part in found] == [dtype, dtype, torch.float32, torch.float32]
    assert_rounded(found, exact)
    tensors[1:3] = [part.detach().to(dtype).requires_grad_() for part in tensors[1:3]]
    found = differentiated(depthwise_conv, tensors)
    assert [part.dtype for part in found] == [dtype] * 4
    assert_rounded(found, differentiated(depthwise_conv_reference, cast(tensors, torch.float64)))


@needs_triton
def test_autocast_decides_the_dtype_of_the_output():
    tensors = given(1, 3, 4, 16)
    with torch.autocast(DEVICE.type, torch.bfloat16):
        output = depthwise_conv(*tensors)
        assert output.dtype == depthwise_conv_reference(*tensors).dtype == torch.bfloat16
    assert_rounded([output], [depthwise_conv_reference(*cast(tensors, torch.float64))], roundings=2)  # of tokens, too
    assert torch.autograd.grad(output.sum(), tensors[0])[0].dtype == torch.float32


@needs_triton
def test_an_empty_batch():
    tokens, weight, bias, *_ = given(1, 3, 4, 16)
    output = depthwise_conv(tokens[:0], weight, bias, 3, 4)
    assert output.shape == (0, 12, 16)
    assert not torch.autograd.grad(output.sum(), weight)[0].any()


GUARD = 50


@needs_triton
def test_nothing_is_written_outside_the_outputs(monkeypatch):
    """Guards surround all memory that kernels write, and every element of it is written."""
    from patchword.kernels.depthwise_conv import torch_op

    buffers = []

    def guarded(like, shape, dtype=None):
        count = torch.Size(shape).numel()
        buffers.append(like.new_full((count + 2 * GUARD,), float("nan"), dtype=dtype))
        return buffers[-1][GUARD : GUARD + count].view(shape)

    monkeypatch.setattr(torch_op, "allocate", guarded)
    check(given(3, 5, 7, 20))
    assert len(buffers) == 5
    for buffer in buffers:
        assert buffer[:GUARD].isnan().all()
        assert buffer[-GUARD:].isnan().all()
        assert not buffer[GUARD:-GUARD].isnan().any()


@needs_triton
def test_second_derivatives():
    """They are those of the reference."""

    def second(run, tensors):
        first = torch.autograd.grad(run(*tensors).sin().sum(), tensors[0], create_graph=True)[0]
        return torch.autograd.grad(first.square().sum(), tensors[:3])

    check(given(1, 3, 3, 8), differentiate=second)


@needs_triton
@pytest.mark.parametrize("create_graph", [False, True])
def test_a_convolution_that_is_used_twice_has_the_gradient_of_both(create_graph):
    def gradients(run, tensors):
        tokens, *rest = tensors
        output = run(run(tokens, *rest), *rest)
        return torch.autograd.grad(output.sin().sum(), tensors[:3], create_graph=create_graph)

    check(given(1, 3, 3, 8), differentiate=gradients)


@needs_triton
def test_opcheck_accepts_the_registration():
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
    check(tensors, compiled)
    assert seen == [["patchword.depthwise_conv_forward.default"], ["patchword.depthwise_conv_back.default"]]


@needs_triton
def test_self_test_rejects_a_wrong_kernel(monkeypatch):
    short = torch.bfloat16 if DEVICE.type == "cuda" else torch.float16
    assert matches_reference(DEVICE, short)
    original = module._filter
    monkeypatch.setattr(module, "_filter", lambda tokens, weight, *rest: original(tokens, weight.flip(-1), *rest))
    assert not matches_reference(DEVICE, short)


def test_it_is_not_chosen_on_a_cpu(monkeypatch):
    monkeypatch.setattr(module.SELF_TEST, "found", {0: True, -1: True})
    assert not has_depthwise_conv_kernel(torch.zeros(1, 12, 16))


@pytest.mark.parametrize("lanes", [1, 14, 3584, 14336])
@pytest.mark.parametrize("rows", [1, 7, 14, 56])
@pytest.mark.parametrize("channels", [3, 20, 32, 48, 64, 96, 128, 512])
@pytest.mark.parametrize("sm_count", [1, 132])
def test_every_row_of_every_column_has_one_program(lanes, rows, channels, sm_count):
    plan = lepe_conv_tuning.strips(lanes, rows, channels, sm_count)
    for count, each, programs in zip((lanes, channels, rows), plan[:3], plan.grid, strict=True):
        assert (programs - 1) * each < count <= programs * each
    walking = lepe_conv_tuning.walkers(lanes, channels, sm_count)
    assert walking.grid[0] * walking.tile < lanes + walking.tile
    assert walking.grid[1] * walking.block >= channels
