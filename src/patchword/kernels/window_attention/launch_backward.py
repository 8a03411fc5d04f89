"""Launches of the backward pass of window attention, prepared as launch.py prepares those of the forward pass.

Import it only where Triton is installed.
"""

from functools import lru_cache
from typing import NamedTuple

from patchword.kernels.common.launch import PreparedLaunch, sm_count
from patchword.kernels.depthwise_conv.lepe_conv_launch import TapsBackward
from patchword.kernels.window_attention import bias_grad_triton, triton_backward
from patchword.kernels.window_attention.launch import Call, HeadGroupLaunch, head_group_launches
from patchword.kernels.window_attention.tuning import WARPS, walkers


class BiasGradLaunches(NamedTuple):
    biases: PreparedLaunch | None  # for larger groups; for groups in one tile the main kernel computes it
    parts: tuple[int, ...]  # shape of the partial sums of the biases' gradients
    reduce: PreparedLaunch


class FilterGradLaunches(NamedTuple):
    values: PreparedLaunch  # adds to the gradient of the values
    taps: TapsBackward


class BackwardLaunches(NamedTuple):
    """The launches of one head group."""

    main: PreparedLaunch  # all gradients of groups in one tile; those of the queries of larger groups
    keys: PreparedLaunch | None
    table: BiasGradLaunches | None
    local: FilterGradLaunches | None


@lru_cache(1024)
def backward(call: Call) -> tuple[BackwardLaunches, ...]:
    """Returns the launches of each head group."""
    return tuple(_backward_launches(group, call.joint) for group in head_group_launches(call, "backward"))


def _backward_launches(group: HeadGroupLaunch, joint: bool) -> BackwardLaunches:
    layout, kernels = group.layout, triton_backward
    stride = (3 if joint else 1) * layout.all_heads * group.head  # from token to token of the gradients
    numbers = (*group.arguments[:5], stride, *group.arguments[5:], *group.constants)
    if group.plan.single_tile:
        main, keys = PreparedLaunch(kernels.single_tile_backward, group.grid, numbers, *group.options), None
    else:
        main = PreparedLaunch(kernels.query_backward, group.grid, (*numbers, group.local), *group.options)
        keys = PreparedLaunch(kernels.key_value_backward, group.grid, numbers, *group.options)
    table, local = (
        _bias_grad_launches(group) if group.has_bias else None,
        _filter_grad_launches(group, joint) if group.local else None,
    )
    return BackwardLaunches(main, keys, table, local)


def _filter_grad_launches(group: HeadGroupLaunch, joint: bool) -> FilterGradLaunches:
    gradient = group.channel_layout(joint=False)
    values = group.filter.backward(gradient, group.channel_layout(joint), accumulate=True)
    return FilterGradLaunches(values, group.filter.taps(group.values, gradient))


def _bias_grad_launches(group: HeadGroupLaunch) -> BiasGradLaunches:
    heads, plan, biases = group.layout.heads, group.plan, None
    if plan.single_tile:
        count = group.grid[1] * group.grid[2]
    else:
        tiles = heads * (-(-group.cut.size // plan.key_block)) ** 2
        count = walkers(group.layout.batch * group.cut.groups, tiles, plan.waves * sm_count(group.device))
        constants = *group.sides, group.head, group.pads_tile, plan.key_block, plan.width
        numbers = (*group.arguments, *constants)
        warps = WARPS["backward", plan.key_block]
        biases = PreparedLaunch(bias_grad_triton.bias_backward, (tiles, count, 1), numbers, warps, *group.options[1:])
    side = -(-group.cut.size // plan.key_block) * plan.key_block
    reduce = PreparedLaunch(
        bias_grad_triton.reduce_bias_grad,
        (group.cut.offsets, heads, 1),
        (count, heads, group.cut.rows.members, group.cut.columns.members, side, 16, 64),
        4,
        2,
    )
    return BiasGradLaunches(biases, (count, heads, side, side), reduce)
