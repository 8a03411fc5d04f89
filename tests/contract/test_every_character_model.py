"""What holds for every model that reads words by their characters; a new family is held to all of it."""

import pytest
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

import patchword
from patchword.analysis.cost import count, text_of
from patchword.core.text import Packed, Text
from patchword.data.text.tokenizers.characters import CharacterReader
from patchword.models import REGISTRY
from support.helpers import character_models, difference, randomise, smallest, structures

TINY = {
    "characters": 12,
    "character_width": 5,
    "filters": ((1, 4), (3, 8)),
    "width": 16,
    "cell": 24,
    "vocabulary": 31,
    "classes": 7,
}
SENTENCES = [["a", "cat", "sat", "on", "it"], ["why"], ["the", "longest", "sentence", "of", "all", "has", "a", "cat"]]
LENGTHS = [len(sentence) + 2 for sentence in SENTENCES]
BATCH = CharacterReader(limit=12, spare=3)(SENTENCES)
FAMILIES = list(dict.fromkeys(REGISTRY.find(name)[0].name for name in character_models()))


STRUCTURES = {
    f"{smallest(family)} {' '.join(structure.values())}": (smallest(family), structure)
    for family in FAMILIES
    for structure in structures(smallest(family))
}


def tiny(name: str, **overrides: object):
    """A recurrent matrix of large weights would make of a rounding another answer."""
    model = randomise(patchword.create(name, **TINY | overrides)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(0.3 if parameter.ndim == 3 else 1.0)
    return model


@pytest.fixture(params=STRUCTURES)
def model(request):
    name, structure = STRUCTURES[request.param]
    return tiny(name, dropout=0.0, head_dropout=0.0, **structure)


def answers(model, text: Text) -> list[Tensor]:
    """Without what stands at the padding; of texts, or of their tokens."""
    found = model(text)
    found = list(found) if isinstance(found, tuple) else [found]
    if found[0].ndim == 2:
        return found
    if text.packed is not None:
        return [answer[0] for answer in found]
    return [answer.flatten(0, 1) if text.mask is None else answer[text.mask] for answer in found]


def furthest(ours: list[Tensor], theirs: list[Tensor]) -> float:
    return max(difference(one, other) for one, other in zip(ours, theirs, strict=True))


def spelled_once(text: Text) -> Text:
    words, which = text.ids.flatten(0, 1).unique(dim=0, return_inverse=True)
    return text._replace(ids=which.view(text.ids.shape[:2]), spelling=words)


# Counts


@pytest.mark.usefixtures("quick_meta")
@pytest.mark.parametrize("name", character_models())
def test_counts_are_those_of_the_table(name):
    variant = REGISTRY.find(name)[1]
    with torch.device("meta"):
        model = patchword.create(name)
        text = variant.config.example()
    assert text.ids.shape == (1, 128, 50)
    assert sum(parameter.numel() for parameter in model.parameters()) == variant.parameters
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        model(text)
    assert counter.get_total_flops() == 2 * variant.macs


@pytest.mark.usefixtures("quick_meta")
def test_the_working_adds_up(model):
    for tokens in (3, 7):
        cost = count(model.card, inputs=text_of(model.card, tokens))
        text = REGISTRY.configure(model.card.model, model.card.config).example(tokens).to(torch.device("meta"))
        with torch.no_grad(), FlopCounterMode(display=False) as counter:  # the quick path's products are not counted
            model.to("meta")(text)
        assert 2 * cost.macs == counter.get_total_flops()
        assert cost.parameters == sum(parameter.numel() for parameter in model.parameters())


# What training needs


def test_every_weight_gets_a_gradient(model):
    generator = torch.Generator().manual_seed(5)
    found = answers(model.train(), BATCH)
    sum((answer * torch.randn(answer.shape, generator=generator)).mean() for answer in found).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.any(), name


@pytest.mark.parametrize("family", FAMILIES)
def test_dropout_is_drawn_anew_and_only_in_training(family):
    model = tiny(smallest(family), dropout=0.2)
    assert torch.equal(model(BATCH), model(BATCH))
    model.train()
    assert not torch.equal(model(BATCH), model(BATCH))


# Padding, and what may be read


@torch.no_grad()
def test_a_text_does_not_depend_on_its_batch(model):
    whole = answers(model, BATCH)
    parts = [answers(model, Text(BATCH.ids[[index], :length])) for index, length in enumerate(LENGTHS)]
    assert furthest([torch.cat(part) for part in zip(*parts, strict=True)], whole) < 1e-5


@torch.no_grad()
def test_what_stands_under_the_padding_changes_nothing(model):
    changed = BATCH._replace(ids=BATCH.ids.where(BATCH.mask[..., None], 7))
    assert not torch.equal(changed.ids, BATCH.ids)
    assert furthest(answers(model, changed), answers(model, BATCH)) < 1e-6


@torch.no_grad()
def test_in_one_row_texts_are_the_same(model):
    row = Text(BATCH.ids[BATCH.mask][None], packed=Packed.of(BATCH.mask.sum(1)))
    assert furthest(answers(model, row), answers(model, BATCH)) < 1e-5


@torch.no_grad()
def test_a_word_that_is_spelled_once_is_the_same(model):
    once = spelled_once(BATCH)
    assert len(once.spelling) < BATCH.ids.shape[0] * BATCH.ids.shape[1]
    assert furthest(answers(model, once), answers(model, BATCH)) < 1e-6
    other = once._replace(spelling=once.spelling.flip(0))
    assert furthest(answers(model, other), answers(model, BATCH)) > 1e-3


@torch.no_grad()
def test_every_token_reads_every_word_in_some_state(model):
    """One direction or the other: a word in the middle moves the last state of all tokens."""
    alone = Text(BATCH.ids[2:])
    before = model.encode(alone)[-1]
    ids = alone.ids.clone()
    ids[0, 4, 1] = 200
    moved = (model.encode(Text(ids))[-1] - before).abs().amax(-1)[0]
    assert (moved > 1e-7).all()


@torch.no_grad()
def test_only_the_places_asked_for_go_through_the_vocabulary():
    model = tiny(smallest(FAMILIES[0]), head="words")
    places = torch.tensor([2, 11, 23])
    found = model(BATCH._replace(predict_at=places))
    assert furthest(list(found), [scores.flatten(0, 1)[places] for scores in model(BATCH)]) < 1e-5


# Weights


@torch.no_grad()
def test_saved_and_loaded_it_is_the_same(model, tmp_path):
    patchword.save(model, tmp_path / "model")
    again = patchword.load(tmp_path / "model")
    assert again.card == model.card
    assert list(again.state_dict()) == list(model.state_dict())
    assert all(torch.equal(*pair) for pair in zip(answers(again, BATCH), answers(model, BATCH), strict=True))


@torch.no_grad()
def test_another_head_keeps_all_below_it(model, tmp_path):
    patchword.save(model, tmp_path / "model")
    other = "tags" if model.card.config["head"] != "tags" else "words"
    again = patchword.load(tmp_path / "model", head=other)
    assert again.card.config["head"] == other
    for state, wanted in zip(again.encode(BATCH), model.encode(BATCH), strict=True):
        assert torch.equal(state[BATCH.mask], wanted[BATCH.mask])


def test_weights_are_float32_and_contiguous(model):
    for name, tensor in model.state_dict().items():
        assert tensor.dtype == torch.float32, name
        assert tensor.is_contiguous(), name
