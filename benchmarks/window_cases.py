"""Attention layers for window_kernel.py: those of Swin, CSWin and Pale, random ones, and three implementations."""

import random
from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from patchword.core.grid import Grid
from patchword.kernels.window_attention.operation import HeadGroup, window_attention_kernel
from patchword.kernels.window_attention.reference import split_qkv, window_attention_reference
from patchword.layers import Interlaced, Windows

DEVICE = torch.device("cuda")
Cut = Windows | Interlaced


class Layer(NamedTuple):
    """The attention of one block."""

    name: str
    grid: Grid
    cuts: tuple[Cut, ...]
    heads: int  # per cut
    head: int
    joint: bool
    table: bool = False
    taps: bool = False
    depth: float = 1  # number of such blocks in the model


class Case(NamedTuple):
    qkv: list[Tensor]
    groups: list[HeadGroup]
    heads: int
    scale: float

    @property
    def learned(self) -> list[Tensor]:
        others = (tensor for group in self.groups for tensor in group[1:] if tensor.numel())
        return [*self.qkv, *others]


def layers(model: str) -> Iterator[Layer]:
    sides = (56, 28, 14, 7)
    if model.startswith("swin"):
        first, depths = (3, (2, 2, 6, 2)) if model == "swin-tiny" else (4, (2, 2, 18, 2))
        for stage, (side, depth) in enumerate(zip(sides, depths, strict=True)):
            for shift in (0, 3) if side > 7 else (0,):
                part = depth / (2 if side > 7 else 1)
                cut = (Windows(7, 7, shift=shift),)
                name = f"{side} x {side}, shift {shift}"
                yield Layer(name, Grid(side, side), cut, first * 2**stage, 32, True, table=True, depth=part)
    elif model == "cswin-tiny":
        for side, stripe, heads, depth in zip(sides, (1, 2, 7, 0), (1, 2, 4, 16), (1, 2, 21, 1), strict=True):
            cuts: tuple[Cut, ...] = (Windows(None, stripe), Windows(stripe, None)) if stripe else (Windows(None, None),)
            yield Layer(
                f"{side} x {side}, stripe {stripe}", Grid(side, side), cuts, heads, 32, True, taps=True, depth=depth
            )
    else:
        for side, heads, depth in zip(sides, (1, 2, 4, 8), (2, 2, 16, 2), strict=True):
            cuts = (Interlaced(7, None), Interlaced(None, 7))
            yield Layer(f"{side} x {side}, pale 7", Grid(side, side), cuts, heads, 32, False, depth=depth)


def case(layer: Layer, batch: int, dtype: torch.dtype, seed: int = 0) -> Case:
    generator = torch.Generator(DEVICE).manual_seed(seed)

    def drawn(*shape: int, as_type: torch.dtype = dtype) -> Tensor:
        return torch.randn(*shape, generator=generator, device=DEVICE).to(as_type).requires_grad_()

    width, none, cuts = len(layer.cuts) * layer.heads * layer.head, torch.empty(0, device=DEVICE), layer.cuts
    qkv = [drawn(batch, layer.grid.tokens, width * (3 if layer.joint else 1)) for _ in range(1 if layer.joint else 3)]
    groups = []
    for cut in (cut.cut(layer.grid) for cut in cuts):
        table = drawn(cut.offsets, layer.heads, as_type=torch.float32) if layer.table else none
        shapes = [(layer.heads * layer.head, 1, 3, 3), (layer.heads * layer.head,)]
        taps, constant = (drawn(*shape, as_type=torch.float32) if layer.taps else none for shape in shapes)
        groups.append(HeadGroup(cut, table, taps, constant))
    return Case(qkv, groups, layer.heads, layer.head**-0.5)


def random_layer(seed: int) -> Layer:
    draw = random.Random(seed)
    grid = Grid(draw.randint(3, 30), draw.randint(3, 30))
    side = (draw.randint(2, 20), draw.randint(2, 20))
    kinds: dict[str, tuple[Cut, ...]] = {
        "windows": (Windows(*side),),
        "shifted windows": (Windows(*side, shift=draw.randint(1, min(side))),),
        "stripes": (Windows(None, side[1]), Windows(side[0], None)),
        "pale": (Interlaced(side[0], None), Interlaced(None, side[1])),
        "interlaced": (Interlaced(*side),),
    }
    name = list(kinds)[seed % len(kinds)]
    head = draw.choice([16, 24, 32, 48, 64, 96, 128])
    coins = [draw.random() < 0.5 for _ in range(3)]
    return Layer(name, grid, kinds[name], draw.choice([1, 2, 3]), head, coins[0], table=coins[1], taps=coins[2])


def by_kernel(given: Case) -> Tensor:
    return window_attention_kernel(given.qkv, given.groups, given.heads, given.scale)


def by_reference(given: Case) -> Tensor:
    return window_attention_reference(*lists(given), [group.cut for group in given.groups], given.heads, given.scale)


def lists(given: Case) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
    """The tensor lists that the ops take: qkv, bias tables and convolution taps."""
    taps = [part for group in given.groups for part in (group.taps, group.constant)]
    return given.qkv, [group.table for group in given.groups], taps


def by_copies(layer: Layer) -> Callable[[Case], Tensor]:
    """The path without the kernel: split into groups, torch's fused attention with bias and mask, LePE, merge."""

    def run(given: Case) -> Tensor:
        parts = [part.chunk(len(layer.cuts), -1) for part in split_qkv(given.qkv)]
        answers = []
        for number, (cut, group) in enumerate(zip(layer.cuts, given.groups, strict=True)):
            q, k, v = (
                cut.split(part[number], layer.grid).unflatten(-1, (layer.heads, -1)).transpose(1, 2) for part in parts
            )
            mask, inner = cut.mask(layer.grid, DEVICE), cut.inner(layer.grid)
            bias = _bias(group, inner).to(q.dtype) if group.table.numel() else None
            if mask is not None:
                mask = mask.repeat(len(q) // len(mask), 1, 1, 1)
                bias = mask if bias is None else bias.masked_fill(~mask, -1e4)
            answer = F.scaled_dot_product_attention(q, k, v, bias, scale=given.scale)
            if group.taps.numel():
                tiles = v.transpose(1, 2).flatten(2).transpose(1, 2).unflatten(2, (inner.height, inner.width))
                taps, constant = group.taps.to(v.dtype), group.constant.to(v.dtype)
                local = F.conv2d(tiles, taps, constant, padding=1, groups=len(taps))
                answer = answer + local.flatten(2).unflatten(1, (layer.heads, -1)).transpose(2, 3)
            answers.append(cut.merge(answer.transpose(1, 2).flatten(2), layer.grid))
        return torch.cat(answers, -1)

    return run


def _bias(group: HeadGroup, inner: Grid) -> Tensor:
    member = torch.arange(inner.height * inner.width, device=DEVICE)
    span = 2 * inner.width - 1
    along = member // inner.width * span + member % inner.width
    offset = along[:, None] - along[None, :] + (inner.height - 1) * span + inner.width - 1
    return group.table[offset].permute(2, 0, 1)
