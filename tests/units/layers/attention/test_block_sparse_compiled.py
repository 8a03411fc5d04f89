"""Big Bird's blocks under torch.compile, in several layers."""

import pytest
import torch

from support.helpers import difference, one_row, texts, tiny_text

BATCH = texts(23, 18)


@pytest.fixture
def model():
    return tiny_text(
        "bigbird-base", max_length=40, block=2, random_blocks=1, head="words", dropout=0.0, attention_dropout=0.0
    )


@pytest.mark.parametrize("batch", [BATCH, one_row(BATCH)], ids=["padded", "packed"])
@torch.no_grad()
def test_two_layers_are_one_graph(model, batch):
    run = torch.compile(model, backend="aot_eager", fullgraph=True)
    assert difference(run(batch), model(batch)) < 1e-5


def test_gradients_are_the_same(model):
    run = torch.compile(model.train(), backend="aot_eager", fullgraph=True)
    found = []
    for forward in (model, run):
        model.zero_grad()
        forward(BATCH).square().sum().backward()
        found.append([parameter.grad.clone() for parameter in model.parameters()])
    assert all(difference(ours, theirs) < 1e-4 for theirs, ours in zip(*found, strict=True) if theirs.any())


@torch.no_grad()
def test_another_length_is_compiled_anew(model):
    run = torch.compile(model, backend="aot_eager", dynamic=False, fullgraph=True)
    for lengths in ((23, 18), (9, 4)):  # the second is short enough for full attention
        batch = texts(*lengths)
        assert difference(run(batch), model(batch)) < 1e-5


@pytest.mark.parametrize("length", [17, 22, 40])
def test_the_blocks_are_contiguous(model, length):
    """NumPy's layout is another one; the compiler expects this one."""
    partition = model.encoder.blocks[1].attention.sublayer.patterns[0].partition
    assert partition.read(length // 2, 4).is_contiguous()
