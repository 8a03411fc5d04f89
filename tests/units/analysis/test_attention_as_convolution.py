"""Attention built to be a convolution, against torch's; and the verb that shows it."""

import json

import pytest
import torch
from safetensors.torch import save_file

from patchword.analysis.attention.as_convolution import STRONG, attention_for, heads_needed, largest_error
from patchword.core.errors import UserError
from support.helpers import pixels

CASES = [(kernel, patch) for kernel in (1, 3, 5, 7) for patch in (1, 2, 4)]


def convolution(kernel: int, channels: int = 2, outputs: int = 3):
    return pixels(outputs, channels, kernel, kernel), pixels(outputs, seed=5)


@pytest.mark.parametrize(("kernel", "patch"), CASES)
def test_it_is_the_convolution_with_the_heads_of_the_lectures(kernel, patch):
    weight, bias = convolution(kernel)
    layer = attention_for(weight, bias, (8, 12), patch)
    assert largest_error(layer, weight, bias, pixels(2, 2, 8, 12)) < 1e-5
    assert len(layer.offsets) == heads_needed(kernel, patch)
    assert layer.idle == 0, "no head could be spared"


def test_the_number_of_heads():
    """Pixels: K^2. The division stands inside the ceiling: ceil(K - 1) / 2P would not even be whole."""
    assert [heads_needed(kernel) for kernel in (1, 3, 5, 7)] == [1, 9, 25, 49]
    assert [heads_needed(5, patch) for patch in (1, 2, 4, 16)] == [25, 9, 9, 9]
    assert [heads_needed(kernel, 4) for kernel in (1, 3, 9, 11)] == [1, 9, 9, 25]


@pytest.mark.parametrize(("kernel", "patch"), [(2, 1), (4, 1), (4, 2)])
def test_an_even_kernel_needs_no_more(kernel, patch):
    weight, bias = convolution(kernel)
    layer = attention_for(weight, bias, 8, patch)
    assert largest_error(layer, weight, bias, pixels(1, 2, 8, 8)) < 1e-5
    assert len(layer.offsets) <= heads_needed(kernel, patch)
    assert patch > 1 or len(layer.offsets) == kernel**2


def test_a_kernel_larger_than_the_image_reads_padding_alone_there():
    weight, bias = convolution(7)
    assert largest_error(attention_for(weight, bias, 3), weight, bias, pixels(1, 2, 3, 3)) < 1e-5


@pytest.mark.parametrize("patch", [1, 2])
def test_each_head_puts_all_weight_on_its_offset_or_on_the_zeros(patch):
    weight, _ = convolution(3)
    layer = attention_for(weight, None, 6, patch)
    weights = layer.attention_weights(pixels(1, 2, 6, 6))
    side = layer.grid.width
    for head, (row, column) in enumerate(layer.offsets):
        for query in range(side * side):
            where = query // side + row, query % side + column
            inside = all(0 <= place < side for place in where)
            target = 1 + where[0] * side + where[1] if inside else 0
            assert weights[head, 1 + query, target] == 1


@pytest.mark.parametrize("mutation", ["mirrored", "no zeros", "weak"])
@torch.no_grad()
def test_a_mistake_is_seen(mutation):
    weight, bias = convolution(3)
    layer, images = attention_for(weight, bias, 6), pixels(1, 2, 6, 6)
    table = layer.attention.patterns[0].position.table
    if mutation == "mirrored":
        table.copy_(table.flip(0))
    elif mutation == "weak":
        table.mul_(2 / STRONG)
    else:  # the leading token counts as a pixel of ones
        layer.attention.projection.joint.bias = torch.nn.Parameter(
            torch.ones(len(layer.attention.projection.joint.weight))
        )
    assert largest_error(layer, weight, bias, images) > 1e-2


def test_bad_sizes_are_refused():
    weight, bias = convolution(3)
    with pytest.raises(UserError, match="expected sides that are multiples of 4, got 10 x 10"):
        attention_for(weight, bias, 10, 4)
    with pytest.raises(UserError, match=r"\(outputs, channels, K, K\)"):
        attention_for(weight[..., :2], bias, 8)
    with pytest.raises(UserError, match="too large"):
        attention_for(torch.zeros(64, 512, 7, 7), None, 8)
    with pytest.raises(UserError, match="built for another image size"):
        attention_for(weight, bias, 8)(pixels(1, 2, 6, 6))


def test_the_verb_checks_and_draws(command, tmp_path):
    code, output, _ = command(
        "attention-as-convolution", "--kernel", "3", "--patch", "2", "--image", "6", "--out", str(tmp_path), "--json"
    )
    found = json.loads(output)["layers"][0]
    assert (code, found["heads"], found["formula"], found["idle"]) == (0, 9, 9, 0)
    assert found["error"] < 1e-5
    assert {path.name for path in tmp_path.iterdir()} == {"kernel-3-patches-2.svg", "kernel-3-patches-2.png"}


def test_a_kernel_of_a_file(command, tmp_path):
    save_file({"conv.weight": pixels(4, 1, 3, 3), "conv.bias": pixels(4)}, tmp_path / "m.safetensors")
    words = [
        "--weights",
        str(tmp_path / "m.safetensors"),
        "--image",
        "4",
        "--patch",
        "1",
        "--out",
        str(tmp_path / "out"),
    ]
    code, output, _ = command("attention-as-convolution", *words, "--tensor", "conv.weight")
    assert code == 0
    assert "1 -> 4" in output
    code, _, complaint = command("attention-as-convolution", *words, "--tensor", "conv.weigth")
    assert code == 2
    assert "did you mean 'conv.weight'" in complaint


def test_nothing_is_written_for_bad_sizes(command, tmp_path):
    code, _, complaint = command(
        "attention-as-convolution", "--image", "10", "--patch", "4", "--out", str(tmp_path / "out")
    )
    assert code == 2
    assert "error: patches do not divide the image: expected sides that are multiples of 4, got 10 x 10" in complaint
    assert not (tmp_path / "out").exists()
