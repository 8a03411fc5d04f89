"""The convolution of enlarged maps, computed from the small ones, against the plain one."""

import pytest
import torch
from torch import nn

from patchword.kernels import enlarged_convolution
from patchword.kernels.enlarged_convolution import convolve_enlarged, enlarge
from support.dense.operators import assert_compiles

SIZES = {
    "halves": [(16, 24), (8, 12), (4, 6), (2, 3)],
    "odd": [(17, 23), (9, 12), (5, 6), (3, 3)],
    "one cell": [(5, 7), (1, 1)],
    "no enlargement": [(6, 6), (6, 6)],
}


def example(sizes, dtype=torch.float64, width=24):
    generator = torch.Generator().manual_seed(0)
    maps = [torch.randn(2, width, *size, generator=generator, dtype=dtype).requires_grad_() for size in SIZES[sizes]]
    torch.manual_seed(0)
    return nn.Conv2d(width * len(maps), 5, 3, padding=1, bias=False).to(dtype), maps


def plain(convolution, maps):
    return convolution(torch.cat([enlarge(one, maps[0].shape[-2:]) for one in maps], dim=1))


@pytest.mark.parametrize("sizes", SIZES)
def test_results_and_gradients_equal_the_plain_ones(sizes):
    convolution, maps = example(sizes)
    found, expected = convolve_enlarged(convolution, maps), plain(convolution, maps)
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)
    given = [convolution.weight, *maps]
    weights = torch.randn(expected.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    pairs = zip(*(torch.autograd.grad((one * weights).sum(), given) for one in (found, expected)), strict=True)
    for one, other in pairs:
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)


def runs_of_module(convolution, maps):
    """The channels of what the module itself convolves, if it runs; without a hook, which would change the path."""
    found = []
    forward = nn.Conv2d._conv_forward

    def watched(module, input, *others):
        found.append(input.shape[1])
        return forward(module, input, *others)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nn.Conv2d, "_conv_forward", watched)
        convolve_enlarged(convolution, maps)
    return found


def test_the_module_runs_only_where_it_must():
    convolution, maps = example("halves", torch.float32)
    assert runs_of_module(convolution, maps) == []
    with torch.device("meta"):
        assert runs_of_module(convolution.to("meta"), [one.to("meta") for one in maps]) == [96]
    convolution, maps = example("no enlargement", torch.float32)
    assert runs_of_module(convolution, maps) == [48]


def test_hooks_of_the_module_are_called():
    convolution, maps = example("halves", torch.float32)
    called = []
    convolution.register_forward_hook(lambda *given: called.append(given))
    convolve_enlarged(convolution, maps)
    assert len(called) == 1


@torch.no_grad()
def test_autocast_is_as_exact_as_the_plain_convolution():
    convolution, maps = example("halves", torch.float32, width=64)
    exact = plain(convolution, maps)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found, other = convolve_enlarged(convolution, maps), plain(convolution, maps)
    assert found.dtype == torch.bfloat16
    worst, allowed = (float((one.float() - exact).abs().max()) for one in (found, other))
    assert worst <= 2 * allowed


@torch.no_grad()
def test_it_compiles():
    convolution, maps = example("halves", torch.float32)
    assert_compiles(convolve_enlarged, convolution, [one.detach() for one in maps])


def test_a_changed_border_would_be_noticed(monkeypatch):
    convolution, maps = example("halves")
    compute = enlarged_convolution._compute
    monkeypatch.setattr(enlarged_convolution, "_cached", lambda *given: compute(*given).roll(1, 1))
    assert not torch.allclose(convolve_enlarged(convolution, maps), plain(convolution, maps))
