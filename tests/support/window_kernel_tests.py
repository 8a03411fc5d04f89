"""Random maps, partitions and inputs for the tests of window attention."""

import random
from contextlib import contextmanager
from math import log
from unittest import mock

import pytest
import torch

from patchword.core.grid import Grid
from patchword.layers import Interlaced, Windows
from support.kernel_tests import DEVICE

needs_triton = pytest.mark.usefixtures("triton", "fresh_launches")
KINDS = {
    "windows": lambda draw, grid: Windows(draw(grid.height), draw(grid.width)),
    "shifted windows": lambda draw, grid: Windows(1 + draw(grid.height), 1 + draw(grid.width), shift=draw(3)),
    "vertical stripes": lambda draw, grid: Windows(None, draw(grid.width)),
    "horizontal stripes": lambda draw, grid: Windows(draw(grid.height), None),
    "interlaced": lambda draw, grid: Interlaced(draw(grid.height), draw(grid.width)),
    "rows of a pale": lambda draw, grid: Interlaced(draw(grid.height), None),
    "columns of a pale": lambda draw, grid: Interlaced(None, draw(grid.width)),
}


def drawn(kind, seed, most=5):
    """Draws a map and a partition with at most `most` groups: the interpreter is slow for each."""
    numbers = random.Random(f"{kind} {seed}")
    while True:
        grid = Grid(numbers.randint(1, 9), numbers.randint(1, 9))
        partition = KINDS[kind](lambda largest: numbers.randint(1, largest), grid)
        if partition.cut(grid).groups <= most:
            return partition, grid, numbers


def given(cuts, heads, head, *, table=False, taps=False, joint=True, seed=0):
    """Returns random qkv, tables and taps."""
    generator = torch.Generator().manual_seed(seed)

    def random_(*shape):
        return torch.randn(*shape, generator=generator).to(DEVICE).requires_grad_()

    width, tokens = len(cuts) * heads * head, cuts[0].rows.length * cuts[0].columns.length
    qkv = [random_(1, tokens, 3 * width)] if joint else [random_(1, tokens, width) for _ in range(3)]
    none = torch.empty(0, device=DEVICE)
    tables = [random_(cut.offsets, heads) if table else none for cut in cuts]
    shapes = ((heads * head, 1, 3, 3), (heads * head,))
    return qkv, tables, [random_(*shape) if taps else none for _ in cuts for shape in shapes]


def learned(way, lists, cuts, heads, head):
    """Returns the output and all gradients."""
    inputs = [tensor for part in lists for tensor in part if tensor.requires_grad]
    answer = way(*lists, cuts, heads, head**-0.5)
    slopes = torch.linspace(-1, 1, answer.numel(), device=DEVICE, dtype=answer.dtype).view_as(answer)
    return [answer.detach(), *torch.autograd.grad(answer, inputs, slopes)]


class _RecomputedSoftmax(torch.autograd.Function):
    """A softmax over the last axis that rounds as the kernel does; see softmax_of_the_kernel."""

    @staticmethod
    def forward(ctx, scores, tiled):
        ctx.save_for_backward(scores)
        ctx.tiled = tiled
        return _exponentials(scores)[0]

    @staticmethod
    def backward(ctx, grad):
        before, scaled, logsumexp = _exponentials(*ctx.saved_tensors)
        weights = (scaled - logsumexp).exp2()
        delta = ((before if ctx.tiled else weights) * grad).sum(-1, keepdim=True)
        return weights * (grad - delta), None


def _exponentials(scores):
    """Returns the softmax, the scores scaled for powers of two, and their log-sum-exp."""
    scaled = scores * (1 / log(2))
    row_max = scaled.amax(-1, keepdim=True)
    weights = (scaled - row_max).exp2()
    total = weights.sum(-1, keepdim=True)
    return weights * (1 / total), scaled, row_max + total.log2()


@contextmanager
def softmax_of_the_kernel(tiled=False):
    """Makes Tensor.softmax(-1) round as the kernel does: with powers of two, and from a saved log-sum-exp in backward.

    Scores far from zero lose digits when the rounded log-sum-exp is subtracted. torch's softmax saves its weights, so
    that its gradients have up to ten times smaller errors. A reference that rounds as the kernel does shows whether the
    kernel adds an error of its own.

    tiled: of groups of several tiles, whose row sums of P * dP are computed from the output of the forward pass
    """
    with mock.patch.object(torch.Tensor, "softmax", lambda scores, axis: _RecomputedSoftmax.apply(scores, tiled)):
        yield


def exactly(lists):
    return [[tensor.detach().double().requires_grad_(tensor.requires_grad) for tensor in part] for part in lists]
