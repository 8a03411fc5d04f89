"""Writing translations: with what is kept and without, greedy and by beams, against every text there is."""

from itertools import product

import pytest
import torch
import torch.nn.functional as F

from patchword.core.text import Pair, Text
from patchword.objectives.generation.beam_search import beam_search
from patchword.objectives.generation.sampling import Greedy, Sampling, generate
from patchword.objectives.generation.translating import TranslatingSteps, alignment
from patchword.objectives.translation import NextWords
from support.helpers import difference, pairs, randomise, tiny_pair, tiny_sizes

MODELS = {
    "post": ("transformer-small", {"norm": "post"}),
    "pre": ("transformer-small", {"norm": "pre"}),
    **{kind: ("lstm-translation-small", {"attention": kind}) for kind in ("none", "dot", "multiplicative", "additive")},
}
SOURCE = pairs((17, 9, 24, 2), (5, 20, 11, 24)).source
BEGIN, END = 1, 2
SEED = 9


def lively(name: str, **options):
    """It does not write one word over and over: biases are small, and so is a word beside its place and the memory."""
    model = tiny_pair(name, seed=SEED, **options)
    with torch.no_grad():
        for parameter_name, parameter in model.named_parameters():
            if parameter.ndim == 1:
                parameter += -0.5 if "bias" in parameter_name else 0.5
    model.writing.scale = 0.3 if model.writing.scale > 1 else 1.0
    return model


@pytest.fixture(params=MODELS)
def model(request):
    name, options = MODELS[request.param]
    return lively(name, max_length=30, **options)


def by_hand(model, source: Text, count: int) -> tuple[int, ...]:
    """Greedy, for one text, by reading everything anew for every token."""
    written = [BEGIN]
    for _ in range(count):
        with torch.no_grad():
            token = int(model(Pair(source, Text(torch.tensor([written]))))[0, -1].argmax())
        if token == END:
            break
        written.append(token)
    return tuple(written[1:])


def alone(index: int) -> Text:
    return Text(SOURCE.ids[index : index + 1, : int(SOURCE.mask[index].sum())])


# What is kept changes nothing


@pytest.mark.parametrize("choice", [Greedy, lambda: Sampling(0.7, 5, seed=3)], ids=["greedy", "drawn"])
def test_what_is_kept_changes_no_token(model, choice):
    kept, anew = (
        generate(TranslatingSteps(model, SOURCE, BEGIN, cache=cache), choice(), 20, [END]) for cache in (True, False)
    )
    assert [text.tokens for text in kept] == [text.tokens for text in anew]
    assert [text.score for text in kept] == pytest.approx([text.score for text in anew], abs=1e-3)
    assert len({text.tokens for text in kept}) > 2


def test_what_is_kept_changes_no_beam(model):
    kept, anew = (
        beam_search(TranslatingSteps(model, SOURCE, BEGIN, cache=cache), 3, 12, [END], 0.6) for cache in (True, False)
    )
    assert [[one.tokens for one in text] for text in kept] == [[one.tokens for one in text] for text in anew]


def test_a_step_reads_one_token_and_the_source_is_read_once(model):
    read, sources = [], []
    model.writing.register_forward_hook(lambda _, given, __: read.append(given[0].ids.shape[1]))
    encode = model.encode
    model.encode = lambda source: sources.append(source) or encode(source)
    generate(TranslatingSteps(model, SOURCE, BEGIN), Greedy(), 5)
    assert read == [1] * 5
    assert len(sources) == 1


# Greedy


def test_greedy_takes_the_likeliest_and_a_batch_changes_nothing(model):
    found = generate(TranslatingSteps(model, SOURCE, BEGIN), Greedy(), 15, [END])
    for index, text in enumerate(found):
        assert text.tokens == by_hand(model, alone(index), 15)
        assert generate(TranslatingSteps(model, alone(index), BEGIN), Greedy(), 15, [END])[0].tokens == text.tokens


def test_one_beam_is_greedy_search(model):
    greedy = generate(TranslatingSteps(model, SOURCE, BEGIN), Greedy(), 12, [END])
    beams = beam_search(TranslatingSteps(model, SOURCE, BEGIN), 1, 12, [END])
    assert [text[0].tokens for text in beams] == [text.tokens for text in greedy]


def test_some_tokens_are_never_written(model):
    free = generate(TranslatingSteps(model, SOURCE, BEGIN), Greedy(), 10)
    never = sorted({token for text in free for token in text.tokens})[:3]
    found = generate(TranslatingSteps(model, SOURCE, BEGIN, never=never), Greedy(), 10)
    assert not {token for text in found for token in text.tokens} & set(never)


def test_a_target_stops_where_there_is_no_room(model):
    steps = TranslatingSteps(model, SOURCE, BEGIN)
    assert steps.room.tolist() == [29] * 4
    assert [len(text.tokens) for text in generate(steps, Greedy(), 1000)] == [29] * 4
    steps = TranslatingSteps(model, SOURCE, BEGIN, beyond=3)
    assert steps.room.tolist() == [20, 12, 27, 5]
    assert [len(text.tokens) for text in generate(steps, Greedy(), 1000)] == [20, 12, 27, 5]
    assert TranslatingSteps(model, alone(1), BEGIN, beyond=3).room.tolist() == [12]
    beams = beam_search(TranslatingSteps(model, SOURCE, BEGIN, beyond=3), 2, 1000)
    assert [len(text[0].tokens) for text in beams] == [20, 12, 27, 5]


# Beams


@pytest.mark.parametrize("name", MODELS)
def test_beams_find_the_best_of_all_texts(name):
    """As many beams as there are texts of the full length: then nothing is dropped that could still win."""
    family, options = MODELS[name]
    model = lively(family, target_vocabulary=5, **options)
    most, words = 3, [token for token in range(5) if token != END]
    texts = [tokens for length in range(most + 1) for tokens in product(words, repeat=length)]
    whole = [(*tokens, END)[:most] for tokens in texts]
    for penalty in (0.0, 0.6):
        found = beam_search(TranslatingSteps(model, SOURCE, BEGIN), len(words) ** most, most, [END], penalty)
        for index in range(4):
            scores = chances(model, alone(index), whole)
            worth = {
                text: score / ((5 + len(tokens)) / 6) ** penalty
                for text, tokens, score in zip(texts, whole, scores, strict=True)
            }
            best = max(worth, key=worth.get)
            assert found[index][0].tokens == best
            assert found[index][0].score == pytest.approx(scores[texts.index(best)], abs=1e-4)
            order = [worth[text.tokens] for text in found[index]]
            assert order == pytest.approx(sorted(worth.values(), reverse=True)[: len(order)], abs=1e-4)


@torch.no_grad()
def chances(model, source: Text, texts: list[tuple[int, ...]]) -> list[float]:
    """log-probabilities of whole targets, all at once"""
    longest = max(map(len, texts))
    ids = torch.tensor([[BEGIN, *text, *[0] * (longest - len(text))] for text in texts])
    pair = Pair(Text(source.ids.expand(len(texts), -1)), Text(ids[:, :-1]))
    each = model(pair).log_softmax(-1).gather(-1, ids[:, 1:, None])[..., 0]
    return [float(row[: len(text)].sum()) for row, text in zip(each, texts, strict=True)]


# Where it looks


@pytest.mark.parametrize("name", [name for name in MODELS if name != "none"])
def test_where_it_looked_while_writing_is_where_it_looks_in_the_whole(name):
    from patchword.layers import Cache, record_attention

    family, options = MODELS[name]
    model = lively(family, **options)
    ids = torch.tensor([[BEGIN, 7, 9, 30, 12]]).expand(4, -1)
    whole = alignment(model, Pair(SOURCE, Text(ids)))
    memory, cache = model.encode(SOURCE), Cache()
    for place in range(5):
        with torch.no_grad(), record_attention(model) as maps:
            model.decode(Text(ids[:, place : place + 1]), memory, cache)
        looked = [one.weights.mean(1) for one in maps if "memory" in one.layer or "look" in one.layer]
        assert difference(torch.stack(looked)[:, :, 0], whole[:, :, place]) < 1e-5
    assert whole.shape == (len(looked), 4, 5, 24)


# What it learns


class Some:
    def __init__(self, pair: Pair, targets: torch.Tensor) -> None:
        self.pair, self.asked_targets, self.weight = pair, targets, len(targets)


def learning(source: Text, targets: list[list[int]]) -> Some:
    """Each target behind BEGIN, and asked for with END behind it."""
    longest = max(map(len, targets)) + 1
    ids = torch.tensor([[BEGIN, *text, *[0] * (longest - 1 - len(text))] for text in targets])
    mask = torch.arange(longest) <= torch.tensor([len(text) for text in targets])[:, None]
    asked = torch.tensor([token for text in targets for token in (*text, END)])
    places = mask.flatten().nonzero()[:, 0]
    return Some(Pair(source, Text(ids, mask=mask, predict_at=places)), asked)


TARGETS = [[5, 9], [7, 7, 7, 30, 12], [40], [3, 4, 5]]


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_is_the_mean_over_words(smoothing):
    model, batch = tiny_pair(), learning(SOURCE, TARGETS)
    loss, right = NextWords(model, smoothing)(batch, batch)
    scores, total = model(batch.pair._replace(target=Text(batch.pair.target.ids))).log_softmax(-1), 0.0
    for row, text in enumerate(TARGETS):
        for place, token in enumerate((*text, END)):
            chances = scores[row, place]
            total -= (1 - smoothing) * chances[token] + smoothing * chances.mean()
    assert float(loss.detach()) == pytest.approx(float(total.detach()) / 15, rel=1e-5)
    best = [int(scores[row, place].argmax()) for row, text in enumerate(TARGETS) for place in range(len(text) + 1)]
    assert int(right) == sum(one == other for one, other in zip(best, batch.asked_targets.tolist(), strict=True))


def test_pieces_add_up_to_the_batch():
    model, batch = tiny_pair(), learning(SOURCE, TARGETS)
    whole = NextWords(model, 0.1)(batch, batch)
    pieces = [
        learning(Text(SOURCE.ids[rows], mask=SOURCE.mask[rows]), TARGETS[rows]) for rows in (slice(0, 1), slice(1, 4))
    ]
    parts = [NextWords(model, 0.1)(piece, batch) for piece in pieces]
    assert float(sum(part.loss.detach() for part in parts)) == pytest.approx(float(whole.loss.detach()), rel=1e-5)
    assert sum(int(part.right) for part in parts) == int(whole.right)


@pytest.mark.parametrize("name", ["pre", "dot"])
def test_it_learns_to_copy_what_it_reads(name):
    import patchword

    family, options = MODELS[name]
    torch.manual_seed(0)
    sizes = tiny_sizes(family) | {"target_vocabulary": 0, "vocabulary": 12, "depth": 1, "dropout": 0.0}
    model = patchword.create(family, **sizes, **options)
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    draw = torch.Generator().manual_seed(1)
    for _ in range(100):
        ids = torch.randint(3, 12, (32, 2), generator=draw)
        batch = learning(Text(ids), ids.tolist())
        optimizer.zero_grad()
        NextWords(model)(batch, batch).loss.backward()
        optimizer.step()
    ids = torch.randint(3, 12, (20, 2), generator=draw)
    found = generate(TranslatingSteps(model.eval(), Text(ids), BEGIN), Greedy(), 6, [END])
    right = sum(text.tokens == tuple(row) for text, row in zip(found, ids.tolist(), strict=True))
    assert right >= 18
    looked = alignment(model, Pair(Text(ids), Text(F.pad(ids, (1, 0), value=BEGIN)[:, :2])))[-1]
    if name == "dot":
        return
    assert float(looked.diagonal(dim1=1, dim2=2).mean()) > 0.5  # it looks at the word it writes next


def test_random_weights_do_not_copy():
    model = randomise(tiny_pair(target_vocabulary=0, vocabulary=12))
    ids = torch.randint(3, 12, (20, 3), generator=torch.Generator().manual_seed(2))
    found = generate(TranslatingSteps(model, Text(ids), BEGIN), Greedy(), 6, [END])
    assert sum(text.tokens == tuple(row) for text, row in zip(found, ids.tolist(), strict=True)) < 3
