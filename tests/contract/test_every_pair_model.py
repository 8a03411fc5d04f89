"""What holds for every model that writes a text for a text; a new family is held to all of it without a line here."""

import pytest
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

import patchword
from patchword.analysis.cost import count, text_of
from patchword.core.errors import UserError
from patchword.core.text import Pair, Text
from patchword.layers import checkpoint_activations, record_attention, reference_attention
from patchword.models import REGISTRY
from patchword.objectives.generation.translating import alignment, attends_to_source
from support.helpers import TINY_PAIR, assert_sharp, difference, pair_models, pairs, smallest, structures, tiny_pair

BATCH = pairs((17, 9, 24, 2), (5, 20, 11, 24))
FAMILIES = list(dict.fromkeys(REGISTRY.find(name)[0].name for name in pair_models()))


STRUCTURES = {
    f"{smallest(family)} {' '.join(structure.values())}": (smallest(family), structure)
    for family in FAMILIES
    for structure in structures(smallest(family))
}


@pytest.fixture(params=STRUCTURES)
def model(request):
    name, structure = STRUCTURES[request.param]
    return tiny_pair(name, dropout=0.0, **structure)


def real(answer: Tensor, pair: Pair) -> Tensor:
    """without what stands at the padding"""
    return answer.flatten(0, 1) if pair.target.mask is None else answer[pair.target.mask]


def some_loss(model, pair: Pair) -> Tensor:
    scores = real(model(pair), pair)
    return (scores * torch.randn(scores.shape, generator=torch.Generator().manual_seed(5))).mean()


def gradients(model, pair: Pair) -> dict[str, Tensor]:
    model.zero_grad()
    some_loss(model, pair).backward()
    return {name: parameter.grad for name, parameter in model.named_parameters()}


def one_of(pair: Pair, index: int) -> Pair:
    """One pair without padding."""
    return Pair(*(Text(text.ids[index : index + 1, : int(text.mask[index].sum())]) for text in pair))


# Counts


@pytest.mark.usefixtures("quick_meta")
@pytest.mark.parametrize("name", pair_models())
def test_counts_are_those_of_the_table(name):
    variant = REGISTRY.find(name)[1]
    with torch.device("meta"):
        model = patchword.create(name)
        pair = variant.config.example()
    assert pair.source.ids.shape == pair.target.ids.shape == (1, 32)
    assert sum(parameter.numel() for parameter in model.parameters()) == variant.parameters
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        model(pair)
    assert counter.get_total_flops() == 2 * variant.macs


@pytest.mark.usefixtures("quick_meta")
def test_the_working_adds_up(model):
    for tokens in (3, 7):
        cost = count(model.card, inputs=text_of(model.card, tokens))
        pair = REGISTRY.configure(model.card.model, model.card.config).example(tokens).to("meta")
        with reference_attention(model), FlopCounterMode(display=False) as counter:
            model.to("meta")(pair)
        assert 2 * cost.macs == counter.get_total_flops()
        assert cost.parameters == sum(parameter.numel() for parameter in model.parameters())


# What training needs


def test_every_weight_gets_a_gradient(model):
    for name, gradient in gradients(model.train(), BATCH).items():
        assert gradient is not None, name
        assert gradient.any(), name


def test_recomputing_changes_nothing_but_memory(model):
    plain = gradients(model.train(), BATCH)
    checkpoint_activations(model)
    again = gradients(model, BATCH)
    assert all(torch.equal(plain[name], again[name]) for name in plain)


@pytest.mark.parametrize("family", FAMILIES)
def test_dropout_is_drawn_anew_and_only_in_training(family):
    model = tiny_pair(smallest(family), dropout=0.2)
    assert torch.equal(model(BATCH), model(BATCH))
    model.train()
    assert not torch.equal(model(BATCH), model(BATCH))


@torch.no_grad()
def test_only_the_places_asked_for_go_through_the_vocabulary(model):
    whole = model(BATCH)
    assert whole.shape == (4, 24, TINY_PAIR["target_vocabulary"])
    places = torch.tensor([3, 24 + 8, 48 + 10, 72])
    found = model(BATCH._replace(target=BATCH.target._replace(predict_at=places)))
    assert difference(found, whole.flatten(0, 1)[places]) < 1e-5


# Padding, and what may be read


@torch.no_grad()
def test_a_pair_does_not_depend_on_its_batch(model):
    whole = model(BATCH)
    for index, length in enumerate(BATCH.target.mask.sum(1).tolist()):
        assert difference(model(one_of(BATCH, index)), whole[index : index + 1, :length]) < 1e-5


@torch.no_grad()
def test_what_stands_under_the_padding_changes_nothing(model):
    changed = Pair(*(text._replace(ids=text.ids.where(text.mask, 7)) for text in BATCH))
    assert not any(torch.equal(one.ids, other.ids) for one, other in zip(changed, BATCH, strict=True))
    assert difference(real(model(changed), BATCH), real(model(BATCH), BATCH)) < 1e-6


@torch.no_grad()
def test_a_token_reads_all_of_the_source_and_of_the_target_what_is_before_it(model):
    pair, whole = one_of(BATCH, 1), model(one_of(BATCH, 1))
    for place in (0, 4, 8):
        ids = pair.source.ids.clone()
        ids[:, place] = ids[:, place] % 46 + 1
        moved = (model(pair._replace(source=Text(ids))) - whole).abs().amax(-1)[0]
        assert (moved > 1e-6).all()
    ids = pair.target.ids.clone()
    ids[:, 11] = ids[:, 11] % 46 + 1
    moved = (model(pair._replace(target=Text(ids))) - whole).abs().amax(-1)[0]
    assert not moved[:11].any()
    assert (moved[11:] > 1e-6).all()


@torch.no_grad()
def test_a_text_over_the_positions_is_refused(model):
    long = Text(torch.ones(1, 25, dtype=torch.int64))
    for pair in (BATCH._replace(source=long), BATCH._replace(target=long)):
        with pytest.raises(UserError, match="longer than the model can read: expected 24 tokens at most, got 25"):
            model(pair)


# Attention


@torch.no_grad()
def test_fused_equals_plain_where_attention_is_sharp(model):
    with record_attention(model) as maps:
        model(BATCH)
    if not maps:
        return
    assert_sharp(model, BATCH)
    fused = real(model(BATCH), BATCH)
    with reference_attention(model):
        assert difference(real(model(BATCH), BATCH), fused) < 1e-5


@torch.no_grad()
def test_where_it_looks_sums_to_one_over_the_source(model):
    if not attends_to_source(model):
        with pytest.raises(UserError, match="no attention over the source"):
            alignment(model, BATCH)
        return
    looked = alignment(model, BATCH)
    assert looked.shape[1:] == (4, 24, 24)
    assert difference(looked.sum(-1), torch.ones(looked.shape[:-1])) < 1e-5
    assert not looked.masked_select(~BATCH.source.mask[:, None]).any()
    for index, (source, target) in enumerate(zip((17, 9, 24, 2), (5, 20, 11, 24), strict=True)):
        alone = alignment(model, one_of(BATCH, index))
        assert difference(alone[:, 0], looked[:, index, :target, :source]) < 1e-5


@pytest.mark.parametrize("family", FAMILIES)
@torch.no_grad()
def test_compiles_without_a_break(family):
    model = tiny_pair(smallest(family), dropout=0.0)
    torch.compiler.reset()
    with torch._dynamo.config.patch(allow_rnn=True):  # without, the compiler leaves LSTMs as they are, in a break
        compiled = torch.compile(model, fullgraph=True, backend="eager")
        assert difference(compiled(BATCH), model(BATCH)) < 1e-5


# Weights


@torch.no_grad()
def test_saved_and_loaded_it_is_the_same(model, tmp_path):
    patchword.save(model, tmp_path / "model")
    again = patchword.load(tmp_path / "model")
    assert again.card == model.card
    assert list(again.state_dict()) == list(model.state_dict())
    assert torch.equal(again(BATCH), model(BATCH))


@pytest.mark.parametrize("family", FAMILIES)
def test_one_vocabulary_is_one_table(family):
    model = tiny_pair(smallest(family), target_vocabulary=0)
    both = tiny_pair(smallest(family))
    table = model.source.words.weight
    assert model.writing is model.source
    assert sum(parameter.shape == table.shape for parameter in model.parameters()) == 1
    assert model(BATCH).shape[-1] == len(table) == TINY_PAIR["vocabulary"]
    assert both.writing.words.weight.shape[0] == TINY_PAIR["target_vocabulary"] == both(BATCH).shape[-1]


def test_weights_are_float32_and_contiguous(model):
    for name, tensor in model.state_dict().items():
        assert tensor.dtype == torch.float32, name
        assert tensor.is_contiguous(), name
