import pytest
import torch

import patchword

CUT = 0.8796  # the spread that is left of a normal distribution cut at two of its standard deviations


@pytest.fixture(scope="module")
def vit():
    return patchword.create("vit-tiny-16", depth=1).requires_grad_(False)


@pytest.fixture(scope="module")
def deit():
    return patchword.create("deit-tiny-distilled", depth=1).requires_grad_(False)


def test_vit_starts_as_in_the_paper(vit):
    block, stage = vit.stages[0].encoder.blocks[0], vit.stages[0]
    joint = block.attention.sublayer.projection.joint.weight
    bound = (6 / (192 + 192)) ** 0.5  # Xavier's, for each of the three matrices alone
    for matrix in joint.chunk(3):
        assert bound * 0.99 < float(matrix.abs().max()) <= bound
    assert float(stage.positions.table.std()) == pytest.approx(0.02, rel=0.05)
    assert float(stage.stem.weight.std()) == pytest.approx((3 * 16 * 16) ** -0.5, rel=0.05)
    assert not stage.prefix.tokens.any()
    assert not vit.head.linear.weight.any()


def test_deit_starts_as_in_the_paper(deit):
    matrices = [parameter for parameter in deit.parameters() if parameter.ndim > 1]
    assert len(matrices) == 1 + 2 + 4 + 2  # embedding; tokens and positions; the block; two heads
    for matrix in matrices:
        assert float(matrix.std()) == pytest.approx(CUT * 0.02, rel=0.15)
        assert float(matrix.abs().max()) <= 0.04


def test_bert_starts_as_tensorflow_starts_it():
    model = patchword.create("bert-tiny", depth=1).requires_grad_(False)
    for table in (model.embedding.words.weight, model.encoder.blocks[0].feed_forward.sublayer.up.weight):
        assert float(table.std()) == pytest.approx(CUT * 0.02, rel=0.02)
        assert 0.0399 < float(table.abs().max()) <= 0.04  # cut at two standard deviations, and reaching them


@pytest.mark.parametrize("name", ["vit", "deit"])
def test_biases_start_at_zero_and_norms_at_one(name, request):
    for key, parameter in request.getfixturevalue(name).named_parameters():
        if key.endswith("bias"):
            assert not parameter.any(), key
        elif "norm" in key:
            assert torch.equal(parameter, torch.ones_like(parameter)), key


def test_a_seed_decides_the_weights():
    first, second = (torch.manual_seed(3) and patchword.create("vit-exercise").state_dict() for _ in range(2))
    assert all(torch.equal(first[key], second[key]) for key in first)
