"""Texts in a row brought to few sizes: what a model says of its own texts stays the same, and sizes become few."""

import random

import pytest
import torch

from patchword.benchmarking.text_inputs import natural_lengths
from patchword.core.text import Packed, Text
from patchword.data.text.batching.packing import pack_by_tokens
from patchword.fusion import buckets as module
from patchword.fusion.buckets import BucketedGraphs, cut, sizes_of, to_bucket
from patchword.fusion.compile import compile
from patchword.kernels.linear_cross_entropy.operation import TokenLosses
from patchword.models import REGISTRY
from patchword.objectives.text import MaskedWords
from support.helpers import difference

TINY = {"width": 16, "depth": 2, "heads": 2, "hidden": 32, "vocabulary": 50, "max_length": 40, "dropout": 0.0}


def texts(lengths, seed=0, labelled=True):
    generator, total = torch.Generator().manual_seed(seed), sum(lengths)
    ids = torch.randint(5, 50, (1, total), generator=generator)
    places = torch.randperm(total, generator=generator)[: max(1, total // 7)].sort().values
    targets = torch.randint(5, 50, places.shape, generator=generator) if labelled else None
    segments = torch.arange(total)[None] % 2
    return Text(ids, segments, packed=Packed.of(torch.tensor(lengths)), predict_at=places, targets=targets)


def bert(name="bert-tiny", **fields):
    torch.manual_seed(0)
    model = REGISTRY.create(name, **{**TINY, "attention_dropout": 0.0, "head": "words", **fields})
    for part in model.parameters():
        torch.nn.init.normal_(part, std=0.3)
    return model


def natural(seed, texts_=40):
    draw = random.Random(seed)
    return [min(40, max(2, round(draw.lognormvariate(2.2, 0.7)))) for _ in range(draw.randint(texts_ - 5, texts_))]


@pytest.mark.parametrize("seed", range(5))
def test_texts_behind_its_own_are_texts(seed):
    """as Packed counts them: each has a token, none is too long, and its own stay where they were"""
    given = texts(natural(seed))
    found = to_bucket(given, 40)
    lengths = found.packed.cu_seqlens.diff().long()
    expected = Packed.of(lengths)
    assert torch.equal(found.packed.cu_seqlens, expected.cu_seqlens)
    assert torch.equal(found.packed.sequence_id, expected.sequence_id)
    assert torch.equal(found.packed.position_id, expected.position_id)
    assert found.packed.cu_seqlens.dtype == given.packed.cu_seqlens.dtype
    assert 1 <= int(lengths.min()) <= int(lengths.max()) == given.packed.max_seqlen
    assert torch.equal(lengths[: given.texts], given.packed.cu_seqlens.diff().long())
    assert found.ids.shape == found.segments.shape == (1, int(lengths.sum()))
    assert torch.equal(found.ids[:, : given.ids.shape[1]], given.ids)
    assert torch.equal(found.segments[:, : given.ids.shape[1]], given.segments)
    assert torch.equal(found.predict_at[: len(given.predict_at)], given.predict_at)


def test_many_tokens_that_are_missing_are_dealt_out_to_texts_that_are_not_too_long():
    given = texts([3] * 170)
    lengths = to_bucket(given, 3).packed.cu_seqlens.diff()
    assert int(lengths.max()) <= 3
    assert int(lengths.min()) >= 1


def test_sizes_that_are_steady_stay():
    given = texts([32] * 32)
    found = to_bucket(given, 32)
    assert torch.equal(found.ids, given.ids)
    assert torch.equal(found.packed.cu_seqlens, given.packed.cu_seqlens)
    assert torch.equal(found.packed.position_id, given.packed.position_id)


def test_sizes_become_few():
    """of batches of natural texts, as a run fills them"""
    lengths = natural_lengths(80 * 128, 512)
    met = [texts(lengths[index].tolist()) for index in pack_by_tokens(torch.arange(len(lengths)), lengths, 10_368)]
    grown = [to_bucket(text, 512) for text in met]
    assert len({sizes_of(text) for text in met}) == len(met) > 70
    assert len({sizes_of(text) for text in grown}) < 16
    assert sum(text.ids.shape[1] for text in grown) < 1.03 * sum(text.ids.shape[1] for text in met)


FIELDS = {
    "words": {},
    "words and sentences": {"head": "pretraining"},
    "languages": {"name": "xlm-tlm-xnli15", "languages": 3},
    "causal": {"name": "gpt2-small"},
    "three words at a time": {"name": "mobilebert"},
}


@pytest.mark.parametrize("fields", FIELDS.values(), ids=FIELDS)
@pytest.mark.parametrize("labelled", [True, False], ids=["targets", "no targets"])
def test_what_is_said_of_its_own_texts_stays(fields, labelled):
    model, given = bert(**fields).eval(), texts(natural(3), labelled=labelled)
    if "languages" in fields:
        given = given._replace(languages=given.ids % 3, positions=given.packed.position_id[None] // 2)
    with torch.no_grad():
        expected, found = model(given), cut(model(to_bucket(given, 40)), given)
    pairs = zip(expected, found, strict=True) if "head" in fields else [(expected, found)]
    for one, other in pairs:
        parts = (one, other) if isinstance(one, TokenLosses) else ((one,), (other,))
        assert type(one) is type(other)
        for right, part in zip(*parts, strict=True):
            assert right.shape == part.shape
            assert difference(part, right) < 1e-5


class Asked:
    """A piece of texts that asks for words."""

    def __init__(self, text):
        self.text, self.asked_targets, self.weight = text._replace(targets=None), text.targets, len(text.predict_at)


def slopes(run, model, text):
    model.zero_grad()
    MaskedWords(run)(Asked(text), Asked(text)).loss.backward()
    return torch.cat([part.grad.flatten() for part in model.parameters() if part.grad is not None])


@pytest.fixture
def rows(monkeypatch):
    """as if there were a kernel for rows here, for heads of 8 channels"""
    monkeypatch.setattr(module, "has_varlen_attention_kernel", lambda query, width, rate: width % 8 == 0)


def by_sizes(model):
    """graphed: lists the sizes that it got"""
    met = []

    def graphed(text):
        met.append(sizes_of(text))
        return model(text)

    return BucketedGraphs(model, graphed, model), met


@pytest.mark.usefixtures("rows")
def test_gradients_stay():
    model, given = bert(), texts(natural(4))
    run, met = by_sizes(model)
    assert difference(slopes(run, model, given), slopes(model, model, given)) < 1e-5
    assert met == [sizes_of(to_bucket(given, 40 if max(natural(4)) > 32 else 32))]


@pytest.mark.usefixtures("rows")
def test_a_text_that_reads_what_lies_behind_is_seen(monkeypatch):
    model, given = bert(), texts(natural(4))

    def wrong(text, longest):
        found = to_bucket(text, longest)
        found.packed.cu_seqlens[text.texts] += 1
        return found

    monkeypatch.setattr(module, "to_bucket", wrong)
    run, _ = by_sizes(model)
    assert difference(slopes(run, model, given), slopes(model, model, given)) > 1e-3


@pytest.mark.usefixtures("rows")
def test_the_longest_is_a_power_of_two_or_what_the_model_reads():
    """whatever came before: a run that is resumed computes the same"""
    run, met = by_sizes(bert())
    for longest in (20, 30, 33, 20, 40):
        run(texts([longest, 5, 6]))
    assert [sizes[2] for sizes in met] == [32, 32, 40, 32, 40]


def test_without_a_limit_the_longest_is_a_power_of_two():
    run, _ = by_sizes(bert())
    run.limit = None
    assert [run._longest(longest) for longest in (1, 32, 33, 1000)] == [1, 32, 64, 1024]


@pytest.mark.usefixtures("rows")
def test_buckets_beyond_the_limit_have_no_cuda_graph(monkeypatch):
    monkeypatch.setattr(module, "MOST_BUCKETS", 2)
    model, gone = bert(), []
    run, met = by_sizes(model)
    run.plain = lambda text: gone.append(sizes_of(text)) or model(text)
    for count in (30, 34, 38, 30):
        assert run(texts([20] * count)).losses.shape == texts([20] * count).predict_at.shape
    assert [sizes[1] for sizes in met] == [32, 36, 32]
    assert [sizes[1] for sizes in gone] == [40]  # padded to the same sizes


@pytest.mark.usefixtures("rows")
def test_a_micro_batch_has_no_cuda_graph():
    """a row that is no number is looked for in halves, each of another size; so is a batch for which memory is short"""
    run, met = by_sizes(bert())
    for lengths in ([20] * 30, [20] * 15, [20] * 30):
        assert run(texts(lengths)).losses.shape == texts(lengths).predict_at.shape
    assert len(met) == 2


@pytest.mark.usefixtures("rows")
@pytest.mark.parametrize(
    "fields",
    [
        {"heads": 4},  # of four channels each
        {"head": "pooled"},
        {"name": "bigbird-base"},
    ],
    ids=["heads", "no words", "attention"],
)
def test_models_that_cannot_stay_in_a_row_go_their_own_way(fields):
    gone, given = [], texts([4, 5])
    BucketedGraphs(bert(**fields), lambda text: pytest.fail("a CUDA graph"), gone.append)(given)
    assert gone == [given]


@pytest.mark.usefixtures("rows")
def test_what_is_no_row_that_asks_for_words_goes_its_own_way():
    gone, given = [], texts([4, 5])
    run = BucketedGraphs(bert(), lambda text: pytest.fail("a CUDA graph"), lambda *other: gone.append(other))
    others = [
        (Text(given.ids.view(1, 9), predict_at=given.predict_at),),
        (given._replace(predict_at=None, targets=None),),
        (given, None),
        ((given, given),),
    ]
    for other in others:
        run(*other)
    assert gone == others


def test_without_a_kernel_for_packed_text_there_are_no_cuda_graphs():
    gone, given = [], texts([4, 5])
    BucketedGraphs(bert(), lambda text: pytest.fail("a CUDA graph"), gone.append)(given)
    assert gone == [given]


def test_no_place_and_one_text():
    model, given = bert().eval(), texts([9])
    for places in (given.predict_at[:0], given.predict_at):
        one = given._replace(predict_at=places, targets=given.targets[: len(places)])
        found = cut(model(to_bucket(one, 16)), one)
        assert difference(found.losses, model(one).losses) < 1e-5 if len(places) else found.losses.shape == (0,)


on_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="CUDA graphs need a GPU")


@pytest.fixture
def graphed():
    """makes a model with CUDA graphs for two batches, which come again and again; nothing ran without them"""
    device, skipped = torch.device("cuda"), torch._dynamo.utils.counters["inductor"]

    def made(**fields):
        model = bert(width=64, hidden=128, **fields).to(device)
        run = compile(model, training=True, dynamic=True)
        batches = [texts(natural(seed), seed).to(device) for seed in (1, 2)]
        with torch.autocast("cuda", torch.bfloat16):
            for given in 3 * batches:
                slopes(run, model, given)
        assert 1 <= len(run.sizes) <= 2
        return model, run, batches

    before = skipped["cudagraph_skips"]
    yield made
    assert skipped["cudagraph_skips"] == before


@on_gpu
def test_cuda_graphs_have_the_same_gradients(graphed):
    model, run, batches = graphed()
    with torch.autocast("cuda", torch.bfloat16):
        for given in 2 * batches:
            assert difference(slopes(run, model, given), slopes(model, model, given)) < 5e-2


@on_gpu
def test_cuda_graphs_drop_by_the_seed(graphed):
    model, run, (given, _) = graphed(dropout=0.3, attention_dropout=0.3)
    with torch.autocast("cuda", torch.bfloat16):
        found = []
        for seed in (1, 2, 1):
            torch.manual_seed(seed)
            found.append(slopes(run, model, given))
    assert difference(found[1], found[0]) > 1e-2
    assert difference(found[2], found[0]) < 1e-3


@on_gpu
def test_micro_batches_of_a_step_add_up(graphed):
    model, run, (one, other) = graphed()
    with torch.autocast("cuda", torch.bfloat16):
        expected = slopes(model, model, one) + slopes(model, model, other)
        slopes(run, model, one)
        MaskedWords(run)(Asked(other), Asked(other)).loss.backward()
    found = torch.cat([part.grad.flatten() for part in model.parameters() if part.grad is not None])
    assert difference(found, expected) < 5e-2
