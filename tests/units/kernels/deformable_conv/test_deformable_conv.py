"""Deformable convolution: the golden tensors, and the kernel against the reference, on a GPU or in the interpreter."""

import pytest
import torch
import torch.nn.functional as F
from functorch.compile import make_boxed_func
from torch._dynamo.backends.common import aot_autograd

from patchword.kernels.deformable_conv import deformable_conv, torch_op
from patchword.kernels.deformable_conv import operation as module
from patchword.kernels.deformable_conv.operation import fused_columns, has_columns_kernel
from patchword.kernels.deformable_conv.reference import columns_reference
from support.dense.operators import assert_compiles, assert_golden, golden
from support.kernel_tests import DEVICE, assert_as_exact, assert_rounded, needs_triton


@pytest.fixture
def chosen(triton, monkeypatch):
    """The kernel runs for every tensor, also on the CPU."""
    monkeypatch.setattr(module, "has_columns_kernel", lambda features, offsets: True)


def given(batch, channels, height, width, dtype=torch.float32, reach=3.0):
    """Return a map, and offsets of which some lead outside."""
    torch.manual_seed(0)
    features = torch.randn(batch, channels, height, width)
    return features.to(DEVICE, dtype), (torch.randn(batch, 18, height, width) * reach).to(DEVICE)


def differentiated(run, *parts):
    leaves = [part.detach().requires_grad_() for part in parts]
    output = run(*leaves)
    slopes = (torch.arange(output.numel(), device=DEVICE) % 7 - 2).view(output.shape)  # exact in every dtype
    return [output.detach(), *torch.autograd.grad(output, leaves, slopes.to(output.dtype))]


# The definition


def by_definition(features, offsets, weight):
    """mmcv's rule in loops: bilinear reads with zeros outside; maps smaller than the kernel are padded, then cut."""
    rows, columns = features.shape[2:]
    padding = 0, max(0, 3 - columns), 0, max(0, 3 - rows)
    features, offsets = F.pad(features, padding), F.pad(offsets, padding)
    batch, channels, height, width = features.shape
    output = features.new_zeros(batch, len(weight), height, width)

    def cell(image, y, x):
        return features[image, :, y, x] if 0 <= y < height and 0 <= x < width else features.new_zeros(channels)

    for image, y, x, tap in torch.cartesian_prod(*map(torch.arange, (batch, height, width, 9))).tolist():
        down, right = offsets[image, 2 * tap : 2 * tap + 2, y, x].tolist()
        at_y, at_x = y + tap // 3 - 1 + down, x + tap % 3 - 1 + right
        low_y, low_x = int(at_y // 1), int(at_x // 1)
        v, u = at_y - low_y, at_x - low_x
        value = (1 - v) * ((1 - u) * cell(image, low_y, low_x) + u * cell(image, low_y, low_x + 1))
        value = value + v * ((1 - u) * cell(image, low_y + 1, low_x) + u * cell(image, low_y + 1, low_x + 1))
        output[image, :, y, x] += weight[:, :, tap // 3, tap % 3] @ value
    return output[..., :rows, :columns]


@pytest.mark.parametrize("size", [(4, 5), (1, 2), (2, 1), (1, 1)], ids=str)
def test_the_definition(size):
    features, offsets = (part.double().cpu() for part in given(2, 3, *size, reach=2.0))
    weight = torch.randn(4, 3, 3, 3, dtype=torch.float64)
    assert torch.allclose(deformable_conv(features, offsets, weight), by_definition(features, offsets, weight))


def test_without_offsets_it_is_a_convolution():
    features, offsets = given(2, 3, 5, 6)
    weight = torch.randn(4, 3, 3, 3, device=DEVICE)
    expected = F.conv2d(features, weight, padding=1)
    assert torch.allclose(deformable_conv(features, offsets * 0, weight), expected, atol=1e-5)


def test_offsets_far_outside_read_zeros():
    features, offsets = given(1, 3, 4, 4)
    for far in (1e30, -1e30, float("inf")):
        columns = columns_reference(features, torch.full_like(offsets, far))
        assert not columns.any()


def test_golden_outputs_and_gradients():
    parts = [golden(f"deform_conv/{name}") for name in ("map", "offset", "weight")]
    assert_golden(deformable_conv, "deform_conv/out", *parts)

    def slopes(place):
        def run(*given):
            leaves = [part.detach().requires_grad_() for part in given]
            output = deformable_conv(*leaves)
            slope = torch.linspace(-1, 1, output.numel(), dtype=output.dtype).view(output.shape)
            return torch.autograd.grad(output, leaves, slope)[place]

        return run

    for place, name in enumerate(("map", "offset", "weight")):
        assert_golden(slopes(place), f"deform_conv/gradient.{name}", *parts)


# The kernel


@pytest.mark.usefixtures("chosen")
@pytest.mark.parametrize("shape", [(2, 5, 6, 7), (1, 37, 3, 4), (3, 64, 1, 2), (2, 1, 1, 1)], ids=str)
def test_the_kernel_matches_the_reference(shape):
    features, offsets = given(*shape)
    exact = differentiated(columns_reference, features.double(), offsets.double())
    reference = differentiated(columns_reference, features, offsets)
    assert_as_exact(differentiated(fused_columns, features, offsets), reference, exact)


@pytest.mark.usefixtures("chosen")
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_16_bit_maps(dtype):
    features, offsets = given(2, 9, 4, 5, dtype)
    found = differentiated(fused_columns, features, offsets)
    exact = differentiated(columns_reference, features.double(), offsets.double())
    assert [part.dtype for part in found] == [dtype, dtype, torch.float32]
    assert_rounded(found[:2], exact[:2])


@pytest.mark.usefixtures("chosen")
def test_several_programs_views_and_no_images(monkeypatch):
    monkeypatch.setattr(torch_op, "PLACES", 16)
    monkeypatch.setattr(torch_op, "CHANNELS", 4)
    features, offsets = given(2, 10, 5, 6)
    views = features.transpose(2, 3), offsets.transpose(2, 3)
    for parts in ((features, offsets), views, (features[:, ::2], offsets)):
        exact = differentiated(columns_reference, *(part.double() for part in parts))
        assert_as_exact(differentiated(fused_columns, *parts), differentiated(columns_reference, *parts), exact)
    assert fused_columns(features[:0], offsets[:0]).shape == (0, 30, 9, 10)


@pytest.mark.usefixtures("chosen")
def test_second_derivatives():
    features, offsets = given(1, 3, 3, 3, reach=1.0)

    def curvature(run):
        leaves = [part.detach().requires_grad_() for part in (features, offsets)]
        slopes = torch.autograd.grad(run(*leaves).square().sum(), leaves, create_graph=True)
        return torch.autograd.grad(sum(slope.square().sum() for slope in slopes), leaves)

    for found, expected in zip(curvature(fused_columns), curvature(columns_reference), strict=True):
        assert torch.allclose(found, expected, rtol=1e-4, atol=1e-3)


@pytest.mark.usefixtures("chosen")
def test_a_compiled_graph_has_one_operation_forward_and_one_backward():
    features, offsets = given(2, 4, 3, 5)
    seen: list[str] = []

    def backend(graph, _):
        seen.extend(str(node.target) for node in graph.graph.nodes if "patchword" in str(node.target))
        return make_boxed_func(graph)

    torch._dynamo.reset()
    compiled = torch.compile(
        fused_columns, fullgraph=True, backend=aot_autograd(fw_compiler=backend, bw_compiler=backend)
    )
    found, expected = differentiated(compiled, features, offsets), differentiated(fused_columns, features, offsets)
    bound = 1e-5 if DEVICE.type == "cuda" else 0.0  # on a GPU, atomics add in any order
    for one, other in zip(found, expected, strict=True):
        assert (one - other).abs().max() <= bound * other.abs().max()
    assert seen == ["patchword.deformable_columns_forward.default", "patchword.deformable_columns_back.default"]


def test_the_reference_compiles_as_one_graph():
    features, offsets = (part.cpu() for part in given(2, 4, 3, 5))
    assert_compiles(deformable_conv, features, offsets, torch.randn(6, 4, 3, 3))


@pytest.mark.usefixtures("chosen")
def test_autocast_gives_its_dtype():
    features, offsets = given(1, 4, 3, 3)
    with torch.autocast(DEVICE.type, torch.bfloat16):
        assert fused_columns(features, offsets).dtype == torch.bfloat16


def test_when_it_is_chosen(hopper):
    features = torch.empty(2, 8, 4, 5, device=hopper, dtype=torch.bfloat16)
    offsets = torch.empty(2, 18, 4, 5, device=hopper)
    assert has_columns_kernel(features, offsets)
    assert not has_columns_kernel(features.double(), offsets)


@needs_triton
def test_the_self_test_passes_and_notices_a_wrong_kernel(monkeypatch):
    assert module.matches_reference(DEVICE)
    kernel = module.fused_columns
    monkeypatch.setattr(module, "fused_columns", lambda features, offsets: kernel(features, offsets + 0.1))
    assert not module.matches_reference(DEVICE)
