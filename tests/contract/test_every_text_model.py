"""What holds for every model of texts; a new family is held to all of it without a line here."""

from dataclasses import replace
from typing import get_args, get_type_hints

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

import patchword
from patchword.analysis.cost import count, text_of
from patchword.core.errors import UserError
from patchword.core.text import Packed, Text
from patchword.layers import checkpoint_activations, record_attention, reference_attention
from patchword.models import REGISTRY
from support.helpers import (
    TINY_TEXT,
    assert_sharp,
    difference,
    one_row,
    smallest,
    text_models,
    texts,
    tiny_text,
)
from support.sweeps import covering, sweep

FAMILIES = list(dict.fromkeys(REGISTRY.find(name)[0].name for name in text_models()))
BATCH = texts(17, 9, 24, 2)
SPOKEN = BATCH._replace(languages=torch.zeros_like(BATCH.ids))  # so that language embeddings get a gradient
STILL = {"dropout": 0.0, "attention_dropout": 0.0}
CLASSES = 5


def allowed(name: str, field: str) -> tuple[str, ...]:
    """The names its config allows for a head or a pool."""
    return get_args(get_type_hints(type(REGISTRY.find(name)[1].config))[field])


def options(head: str) -> dict[str, object]:
    return {"head": head, "classes": CLASSES if head in ("classes", "tags") else 0}


STRUCTURES = [(smallest(family), head) for family in FAMILIES for head in allowed(smallest(family), "head")]
POOLED = [(smallest(family), pool) for family in FAMILIES for pool in allowed(smallest(family), "pool")]


# By default all heads of the first family and two of each other family; the rest is slow.
@pytest.fixture(
    params=sweep([(pair,) for pair in STRUCTURES], [(pair,) for pair in covering(STRUCTURES, each=2)]), ids=" ".join
)
def model(request):
    name, head = request.param
    return tiny_text(name, **options(head), **STILL)


def parts(answer: Tensor | tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """The answers of a head that has two, or the one."""
    return answer if isinstance(answer, tuple) else (answer,)


def real(answer: Tensor | tuple[Tensor, ...], text: Text) -> list[Tensor]:
    """An answer without what stands at the padding: (texts, ...) or (tokens of all texts, ...)."""
    there = torch.ones_like(text.ids, dtype=torch.bool) if text.mask is None else text.mask
    return [part[there] if part.ndim == 3 else part for part in parts(answer)]


def some_loss(answer: Tensor | tuple[Tensor, ...], text: Text) -> Tensor:
    """Depends on all of an answer and on nothing at the padding."""
    generator = torch.Generator().manual_seed(5)
    found = real(answer, text)
    return sum(((part * torch.randn(part.shape, generator=generator)).mean() for part in found), torch.zeros(()))


def gradients(model, text: Text) -> dict[str, Tensor]:
    model.zero_grad()
    some_loss(model(text), text).backward()
    return {name: parameter.grad for name, parameter in model.named_parameters()}


# Counts


# By default the smallest model of every family, which has all its kinds of blocks; the other sizes are slow.
@pytest.mark.usefixtures("quick_meta")
@pytest.mark.parametrize("name", sweep(text_models(), [smallest(family) for family in FAMILIES]))
def test_counts_are_those_of_the_table(name):
    variant = REGISTRY.find(name)[1]
    with torch.device("meta"):
        model = patchword.create(name)
        text = variant.config.example()
    assert text.ids.shape == (1, 128)
    assert sum(parameter.numel() for parameter in model.parameters()) == variant.parameters
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        model(text)
    assert counter.get_total_flops() == 2 * variant.macs


@pytest.mark.parametrize(
    ("name", "fields", "parameters"),
    [
        ("bert-base", {"head": "pretraining"}, 110_106_428),
        ("bert-base", {"head": "words"}, 109_514_298),
        ("bert-base", {"head": "next"}, 109_483_778),
        ("bert-base", {"head": "classes", "classes": 2}, 109_483_778),
        ("bert-base", {"head": "tags", "classes": 2}, 108_893_186),
        ("bert-base", {"head": "span"}, 108_893_186),
        ("bert-base", {"head": "vector", "pool": "mean"}, 109_482_240 - 590_592),
        ("bert-base-cased", {"head": "pretraining"}, 108_932_934),
        ("bert-base-cased", {"head": "words"}, 108_340_804),
        ("bert-large", {"head": "pretraining"}, 336_226_108),
        ("bert-large", {"head": "words"}, 335_174_458),
        ("bert-base-multilingual", {}, 177_853_440),
        ("bert-base-multilingual", {"head": "pretraining"}, 178_566_653),
        ("bert-base-multilingual", {"head": "span"}, 177_264_386),
        ("bert-base-chinese", {"head": "words"}, 102_290_312),
        ("bert-base-chinese", {"head": "span"}, 101_678_594),
    ],
    ids=str,
)
def test_heads_of_bert_have_their_published_sizes(name, fields, parameters):
    with torch.device("meta"):
        model = patchword.create(name, **fields)
    assert sum(parameter.numel() for parameter in model.parameters()) == parameters


def assert_it_adds_up(model, tokens: int | None) -> None:
    text = None if tokens is None else text_of(model.card, tokens)
    cost = count(model.card, inputs=text)
    with reference_attention(model), FlopCounterMode(display=False) as counter:
        model.to("meta")(REGISTRY.configure(model.card.model, model.card.config).example(tokens).to("meta"))
    assert 2 * cost.macs == counter.get_total_flops()
    assert cost.parameters == sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.usefixtures("quick_meta")
def test_the_working_adds_up(model):
    assert_it_adds_up(model, 7)


@pytest.mark.usefixtures("quick_meta")
@pytest.mark.parametrize("family", FAMILIES)
def test_the_working_adds_up_for_as_many_tokens_as_it_is_told_with(family):
    assert_it_adds_up(tiny_text(smallest(family)), None)


# What training needs


def test_every_weight_gets_a_gradient(model):
    for name, gradient in gradients(model.train(), SPOKEN).items():
        assert gradient is not None, name
        assert gradient.any(), name


def test_recomputing_changes_nothing_but_memory(model):
    model.train()
    plain = gradients(model, SPOKEN)
    checkpoint_activations(model)
    assert model.encoder.recompute
    again = gradients(model, SPOKEN)
    assert all(torch.equal(plain[name], again[name]) for name in plain)
    checkpoint_activations(model, [])
    assert not model.encoder.recompute
    with pytest.raises(UserError, match="no such stage to recompute: expected 0 to 0"):
        checkpoint_activations(model, [1])


def test_dropout_is_drawn_anew_and_only_in_training():
    model = tiny_text(head="classes", classes=3)
    assert torch.equal(model(BATCH), model(BATCH))
    model.train()
    assert not torch.equal(model(BATCH), model(BATCH))


# Padding


@torch.no_grad()
def test_a_text_does_not_depend_on_its_batch(model):
    """In float64: some answers are small by chance, and float32 leaves few of their digits."""
    lengths = BATCH.mask.sum(1).tolist()
    whole = parts(model.double()(BATCH))
    for index, length in enumerate(lengths):
        alone = parts(model(Text(BATCH.ids[index : index + 1, :length], BATCH.segments[index : index + 1, :length])))
        for one, many in zip(alone, whole, strict=True):
            expected = many[index : index + 1, :length] if many.ndim == 3 else many[index : index + 1]
            assert difference(one, expected) < 1e-9


@torch.no_grad()
def test_what_stands_under_the_padding_changes_nothing(model):
    other = BATCH.ids.where(BATCH.mask, torch.randint(TINY_TEXT["vocabulary"], BATCH.ids.shape))
    assert not torch.equal(other, BATCH.ids)
    changed = Text(other, BATCH.segments.where(BATCH.mask, 0), BATCH.mask)
    for one, same in zip(real(model(BATCH), BATCH), real(model(changed), changed), strict=True):
        assert torch.equal(one, same)
    read = BATCH.ids.clone()
    read[:, 1] = read[:, 1] % 59 + 1  # what does stand in a text changes its answer
    for one, another in zip(real(model(BATCH), BATCH), real(model(Text(read, *BATCH[1:])), BATCH), strict=True):
        assert difference(one, another) > 1e-3


@torch.no_grad()
def test_no_segments_are_all_the_first_and_no_mask_is_no_padding(model):
    ids = BATCH.ids[:, :9]
    printed = Text(ids, torch.zeros_like(ids), torch.ones_like(ids, dtype=torch.bool))
    for one, same in zip(parts(model(ids)), parts(model(printed)), strict=True):
        assert difference(one, same) < 1e-5


def test_texts_in_one_row_equal_the_padded_batch(model):
    assert_sharp(model, SPOKEN)
    row = one_row(SPOKEN)
    assert row.texts == SPOKEN.texts == 4
    assert row.ids.shape == (1, 17 + 9 + 24 + 2)
    for one, other in zip(real(model(row), row), real(model(SPOKEN), SPOKEN), strict=True):
        assert difference(one, other) < 1e-5
    loss, expected = some_loss(model(row), row), some_loss(model(SPOKEN), SPOKEN)
    assert float((loss - expected).abs().detach()) < 1e-5 * max(1.0, float(expected.abs().detach()))
    ours, theirs = gradients(model, row), gradients(model, SPOKEN)
    scale = max(float(gradient.abs().max()) for gradient in theirs.values())
    for name, gradient in ours.items():
        assert float((gradient - theirs[name]).abs().max()) < 1e-5 * scale, name


@pytest.mark.parametrize(("name", "pool"), POOLED, ids=str)
@torch.no_grad()
def test_every_pooling_in_a_row_equals_the_padded_one(name, pool):
    model = tiny_text(name, head="pooled", pool=pool)
    assert difference(model(one_row(BATCH)), model(BATCH)) < 1e-5


@torch.no_grad()
def test_texts_of_a_row_do_not_see_each_other(model):
    """Another second text leaves the others as they were, to the last bit."""
    row = one_row(BATCH)
    ids = row.ids.clone()
    ids[:, 17:26] = ids[:, 17:26] % 59 + 1
    other = Text(ids, *row[1:])
    for one, same in zip(real(model(row), row), real(model(other), other), strict=True):
        kept = row.packed.sequence_id != 1 if len(one) == 52 else torch.arange(4) != 1
        assert torch.equal(one[kept], same[kept])
        assert not torch.equal(one[~kept], same[~kept])


def test_rows_go_there_and_back():
    packed = Packed.of(torch.tensor([3, 1, 4]))
    assert packed.cu_seqlens.tolist() == [0, 3, 4, 8]
    assert packed.cu_seqlens.dtype == torch.int32
    assert (packed.max_seqlen, packed.sequence_id.tolist()) == (4, [0, 0, 0, 1, 2, 2, 2, 2])
    assert packed.position_id.tolist() == [0, 1, 2, 0, 0, 1, 2, 3]
    tokens = torch.randn(1, 8, 5)
    assert torch.equal(packed.join(packed.pad(tokens)), tokens)
    assert packed.mask.sum(1).tolist() == [3, 1, 4]


@torch.no_grad()
def test_a_text_over_the_positions_is_refused(model):
    limit = TINY_TEXT["max_length"]
    long = torch.ones(1, limit + 1, dtype=torch.int64)
    for text in (Text(long), Text(long, packed=Packed.of(torch.tensor([limit + 1])))):
        with pytest.raises(UserError, match="longer than the model can read: expected 24 tokens at most, got 25"):
            model(text)
    many = torch.ones(1, 3 * limit, dtype=torch.int64)  # a row may be longer than any of its texts
    model(Text(many, packed=Packed.of(torch.tensor([limit, limit, limit]))))


# Words


WORDS = [(name, head) for name, head in STRUCTURES if head in ("words", "pretraining")]


@pytest.mark.parametrize(("name", "head"), WORDS, ids=str)
@torch.no_grad()
def test_only_the_places_asked_for_go_through_the_vocabulary(name, head):
    model = tiny_text(name, head=head)
    whole = parts(model(BATCH))[0]
    assert whole.shape == (4, 24, TINY_TEXT["vocabulary"])
    places = torch.tensor([3, 24 + 8, 48 + 23, 0])
    seen: list[tuple[int, ...]] = []
    model.head.words.output.register_forward_hook(lambda _, given, answer: seen.append(tuple(given[0].shape)))
    found = parts(model(Text(*BATCH[:3], predict_at=places)))
    assert [shape[:-1] for shape in seen] == [(4,)]
    assert difference(found[0], whole.flatten(0, 1)[places]) < 1e-5
    packed = torch.tensor([3, 17 + 8, 26 + 23, 0])
    assert difference(parts(model(Text(*one_row(BATCH)[:4], predict_at=packed)))[0], found[0]) < 1e-5
    assert all(torch.equal(one, other) for one, other in zip(found[1:], parts(model(BATCH))[1:], strict=True))


@pytest.mark.parametrize(("name", "head"), WORDS, ids=str)
def test_the_loss_of_masked_words_is_one_in_a_row_and_padded(name, head):
    model, targets = tiny_text(name, head=head), torch.tensor([5, 60, 7, 33])
    found = []
    for text, places in ((BATCH, [3, 24 + 8, 48 + 23, 0]), (one_row(BATCH), [3, 17 + 8, 26 + 23, 0])):
        model.zero_grad()
        loss = F.cross_entropy(parts(model(Text(*text[:4], predict_at=torch.tensor(places))))[0], targets)
        loss.backward()
        found.append((loss.detach(), model.embedding.words.weight.grad.clone()))
    assert difference(found[0][0], found[1][0]) < 1e-5
    assert difference(found[0][1], found[1][1]) < 1e-5


@pytest.mark.parametrize(("name", "head"), WORDS, ids=str)
def test_words_are_scored_by_their_own_table(name, head):
    """It has one set of weights, which learns from both ends."""
    model = tiny_text(name, head=head)
    table = model.embedding.words.weight
    assert sum(parameter.shape == table.shape for parameter in model.parameters()) == 1
    parts(model(Text(BATCH.ids[:1, :4])))[0][..., 60].sum().backward()
    assert table.grad[60].any()


# How attention is computed


@torch.no_grad()
def test_fused_equals_plain_where_attention_is_sharp(model):
    assert_sharp(model, BATCH)
    for text in (BATCH, one_row(BATCH)):
        fused = real(model(text), text)
        with reference_attention(model):
            plain = real(model(text), text)
        assert all(difference(one, other) < 1e-5 for one, other in zip(fused, plain, strict=True))


@torch.no_grad()
def test_attention_maps_of_a_row_are_those_of_the_padded_batch(model):
    found = []
    for text in (BATCH, one_row(BATCH)):
        answer = real(model(text), text)
        with record_attention(model) as maps:
            recorded = real(model(text), text)
        assert all(difference(one, other) < 1e-5 for one, other in zip(recorded, answer, strict=True))
        assert [attention.layer for attention in maps] == [
            f"encoder.blocks.{i}.attention.sublayer" for i in model.encoder.order
        ]
        found.append([attention.dense() for attention in maps])
    there = BATCH.mask[:, None, :, None] & BATCH.mask[:, None, None]  # a token that reads a token
    for padded, row in zip(*found, strict=True):
        assert padded.shape == row.shape == (4, TINY_TEXT["heads"], 24, 24)
        assert difference(row * there, padded * there) < 1e-5
        for weights in (padded, row):
            assert not weights.masked_select(~BATCH.mask[:, None, None]).any()
            assert difference((weights * there).sum(-1), BATCH.mask[:, None].expand(-1, 4, -1).float()) < 1e-5


@pytest.mark.parametrize("family", FAMILIES)
@torch.no_grad()
def test_compiles_without_a_break(family):
    model = tiny_text(smallest(family), **options("words"), **STILL)
    torch.compiler.reset()
    compiled = torch.compile(model, fullgraph=True, backend="eager")
    for one, other in zip(parts(compiled(BATCH)), parts(model(BATCH)), strict=True):
        assert difference(one, other) < 1e-5


# Saving and loading


@torch.no_grad()
def test_saved_and_loaded_it_is_the_same(model, tmp_path):
    model.card = replace(model.card, labels=tuple("abcde") if model.card.config["classes"] else ())
    patchword.save(model, tmp_path / "model")
    again = patchword.load(tmp_path / "model")
    assert again.card == model.card
    assert not again.training
    assert list(again.state_dict()) == list(model.state_dict())
    for one, other in zip(parts(again(BATCH)), parts(model(BATCH)), strict=True):
        assert torch.equal(one, other)


@torch.no_grad()
def test_a_new_head_keeps_the_encoder(model, tmp_path):
    patchword.save(model, tmp_path)
    other = patchword.load(tmp_path, head="classes", classes=3)
    assert other.card.config["head"] == "classes"
    assert other(BATCH).shape == (4, 3)
    assert torch.equal(other.encode(BATCH), model.encode(BATCH))
    before = dict(model.named_parameters()).get("head.pool.linear.weight")
    assert before is None or torch.equal(other.head.pool.linear.weight, before)
    assert float(other.head.linear.weight.abs().max()) < 0.15  # as new heads start, and not the old head's


@torch.no_grad()
def test_other_classes_replace_the_last_map_and_drop_the_labels(tmp_path):
    model = tiny_text(head="classes", classes=3)
    model.card = replace(model.card, labels=("bad", "good", "neither"))
    patchword.save(model, tmp_path)
    assert patchword.load(tmp_path, classes=3).card.labels == ("bad", "good", "neither")
    other = patchword.load(tmp_path, classes=7)
    assert other.card.labels == ()
    assert other(BATCH).shape == (4, 7)
    assert torch.equal(other.head.pool(other.encode(BATCH), BATCH), model.head.pool(model.encode(BATCH), BATCH))
    assert not patchword.load(tmp_path, head="tags").card.labels


def test_next_sentences_are_not_taken_for_two_classes(tmp_path):
    """Both maps are 2 x width; a new task starts afresh."""
    model = tiny_text(head="pretraining")
    patchword.save(model, tmp_path)
    other = patchword.load(tmp_path, head="classes", classes=2)
    assert other.head.linear.weight.shape == model.head.linear.weight.shape
    assert not torch.equal(other.head.linear.weight, model.head.linear.weight)


@torch.no_grad()
def test_pretraining_goes_on_from_words_alone(tmp_path):
    model = tiny_text(head="words")
    patchword.save(model, tmp_path)
    words, follows = patchword.load(tmp_path, head="pretraining")(BATCH)
    assert torch.equal(words, model(BATCH))
    assert follows.shape == (4, 2)


def test_a_head_of_classes_needs_their_number():
    with pytest.raises(UserError, match=r"head 'tags' needs field 'classes': expected e\.g\. classes=2"):
        patchword.create("bert-tiny", head="tags")


def test_weights_are_float32_and_contiguous(model):
    for name, tensor in model.state_dict().items():
        assert tensor.dtype == torch.float32, name
        assert tensor.is_contiguous(), name
