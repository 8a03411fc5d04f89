"""Writing: greedy, drawn and by beams, with kept keys and without, alone and in a batch."""

from itertools import product

import pytest
import torch
from torch import Tensor

from patchword.core.errors import UserError
from patchword.objectives.generation.beam_search import beam_search
from patchword.objectives.generation.causal import CausalSteps
from patchword.objectives.generation.sampling import NOTHING, Greedy, Sampling, generate, stream
from support.helpers import TINY_TEXT, tiny_text

PROMPTS = [[5, 9, 33], [7], [1, 2, 3, 4, 5, 6, 7, 8], [60, 60]]
END = 17
MODELS = ["gpt", "gpt2-small", "grover-base"]


class Table:
    """A made-up decoder: the next token depends on all before it, by a table drawn for each beginning."""

    def __init__(self, texts: int, vocabulary: int, room: int = 99, sharp: float = 1.5) -> None:
        self.written = [(text,) for text in range(texts)]
        self.vocabulary, self.most, self.sharp = vocabulary, room, sharp

    @property
    def room(self) -> Tensor:
        return torch.tensor([self.most + 1 - len(text) for text in self.written])

    def step(self, tokens: Tensor | None = None) -> Tensor:
        if tokens is not None:
            pairs = zip(self.written, tokens.tolist(), strict=True)
            self.written = [(*text, token) for text, token in pairs]
        return torch.stack([self.scores(text) for text in self.written])

    def take(self, index: Tensor) -> None:
        self.written = [self.written[number] for number in index.tolist()]

    def scores(self, text: tuple[int, ...]) -> Tensor:
        seed = sum((token + 1) * 31**place for place, token in enumerate(text))
        source = torch.Generator().manual_seed(seed)
        return (self.sharp * torch.randn(self.vocabulary, generator=source)).log_softmax(-1)

    def every(self, text: int, most: int, end: int) -> dict[tuple[int, ...], tuple[float, int]]:
        """All that can be written: the tokens without the end, the score with it, and how many were scored."""
        found = {}
        for length in range(most + 1):
            for tokens in product([token for token in range(self.vocabulary) if token != end], repeat=length):
                whole = tokens if length == most else (*tokens, end)
                chain = [self.scores((text, *whole[:place]))[token] for place, token in enumerate(whole)]
                found[tokens] = float(sum(chain)), len(whole)
        return found


def by_hand(model, prompt: list[int], count: int, end: int | None = None) -> tuple[int, ...]:
    """Greedy, by reading the whole text anew for every token."""
    tokens = list(prompt)
    for _ in range(count):
        with torch.no_grad():
            token = int(model(torch.tensor([tokens]))[0, -1].argmax())
        if token == end:
            break
        tokens.append(token)
    return tuple(tokens[len(prompt) :])


@pytest.fixture(params=MODELS)
def model(request):
    """It does not write one word over and over: its biases are small, and its positions matter."""
    model = tiny_text(request.param, seed=1, max_length=40)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim == 1:
                parameter += -0.5 if name.endswith("bias") else 0.5
        model.embedding.positions.weight.mul_(3)
    return model


# With kept keys and without


@pytest.mark.parametrize(
    "choice", [Greedy, Sampling, lambda: Sampling(0.7, 5, seed=3), lambda: Sampling(1.3, top_p=0.8)]
)
def test_kept_keys_change_no_token(model, choice):
    kept = generate(CausalSteps(model, PROMPTS), choice(), 20, [END])
    anew = generate(CausalSteps(model, PROMPTS, cache=False), choice(), 20, [END])
    assert [text.tokens for text in kept] == [text.tokens for text in anew]
    assert [text.score for text in kept] == pytest.approx([text.score for text in anew], abs=1e-3)
    assert len({text.tokens for text in kept}) == 4


def test_kept_keys_change_no_beam(model):
    kept, anew = (beam_search(CausalSteps(model, PROMPTS, cache=cache), 3, 12, [END], 0.6) for cache in (True, False))
    assert [[one.tokens for one in text] for text in kept] == [[one.tokens for one in text] for text in anew]


def test_with_kept_keys_a_step_reads_one_token(model):
    read: list[int] = []
    model.embedding.register_forward_hook(lambda _, given, __: read.append(given[0].ids.shape[1]))
    generate(CausalSteps(model, PROMPTS), Greedy(), 5)
    assert read == [8, 1, 1, 1, 1]
    read.clear()
    generate(CausalSteps(model, PROMPTS, cache=False), Greedy(), 5)
    assert read == [8, 9, 10, 11, 12]


# Batches


def test_greedy_takes_the_likeliest_and_a_batch_changes_nothing(model):
    found = generate(CausalSteps(model, PROMPTS), Greedy(), 15)
    for prompt, text in zip(PROMPTS, found, strict=True):
        assert text.tokens == by_hand(model, prompt, 15)
        assert generate(CausalSteps(model, [prompt]), Greedy(), 15)[0].tokens == text.tokens
        assert not text.ended


def test_what_is_drawn_for_a_text_does_not_depend_on_the_others(model):
    found = generate(CausalSteps(model, PROMPTS), Sampling(seed=4), 15)
    first = generate(CausalSteps(model, PROMPTS[:1]), Sampling(seed=4), 15)
    assert first[0].tokens == found[0].tokens
    beams = beam_search(CausalSteps(model, PROMPTS), 3, 10, [END])
    for prompt, text in zip(PROMPTS, beams, strict=True):
        alone = beam_search(CausalSteps(model, [prompt]), 3, 10, [END])[0]
        assert [one.tokens for one in alone] == [one.tokens for one in text]


# Where it stops


def test_each_text_stops_at_its_own_end(model):
    free = generate(CausalSteps(model, PROMPTS), Greedy(), 20)
    counts = [sum(token in text.tokens for text in free) for token in range(TINY_TEXT["vocabulary"])]
    end = counts.index(2)  # two write it, two do not
    stopped = generate(CausalSteps(model, PROMPTS), Greedy(), 20, [end])
    for prompt, one, other in zip(PROMPTS, stopped, free, strict=True):
        count = other.tokens.index(end) if end in other.tokens else 20
        assert one.tokens == other.tokens[:count] == by_hand(model, prompt, 20, end)
        assert one.ended == (end in other.tokens)
    assert sum(text.ended for text in stopped) == 2


def test_each_text_stops_where_the_model_has_no_position_left(model):
    found = generate(CausalSteps(model, PROMPTS), Greedy(), 1000)
    assert [len(prompt) + len(text.tokens) for prompt, text in zip(PROMPTS, found, strict=True)] == [40] * 4
    assert found[2].tokens == generate(CausalSteps(model, PROMPTS[2:3]), Greedy(), 1000)[0].tokens
    beams = beam_search(CausalSteps(model, PROMPTS), 2, 1000)
    assert [len(prompt) + len(text[0].tokens) for prompt, text in zip(PROMPTS, beams, strict=True)] == [40] * 4


def test_no_room_and_no_prompt_are_said(model):
    with pytest.raises(UserError, match=r"too long for the model: expected at most 39 tokens.*got 40"):
        CausalSteps(model, [[1] * 40, [1]])
    for prompts in ([[1], []], []):
        with pytest.raises(UserError, match="a prompt is empty"):
            CausalSteps(model, prompts)
    assert generate(CausalSteps(model, PROMPTS), Greedy(), 0)[0].tokens == ()
    assert beam_search(CausalSteps(model, PROMPTS), 2, 0)[0][0].tokens == ()


def test_texts_that_have_ended_are_no_longer_computed():
    steps = Table(3, 5, sharp=3.0)
    counts = []
    plain, steps.step = steps.step, lambda tokens=None: counts.append(len(steps.written)) or plain(tokens)
    found = list(stream(steps, Greedy(), 30, [0]))
    lengths = [sum(tokens[text] != NOTHING for tokens, _ in found) for text in range(3)]
    assert counts == [sum(length > place for length in lengths) for place in range(max(lengths))]
    assert min(lengths) < max(lengths)
    assert all(tokens[lengths.index(min(lengths))] == NOTHING for tokens, _ in found[min(lengths) :])


@pytest.mark.parametrize(
    ("name", "head", "message"),
    [
        ("bert-tiny", "words", "'bert-tiny' cannot generate text: its tokens attend to later tokens"),
        (
            "gpt2-small",
            "tokens",
            "'gpt2-small' has no language-model head: expected head 'words'",
        ),
    ],
)
def test_a_model_that_cannot_write_is_refused(name, head, message):
    with pytest.raises(UserError, match=message):
        CausalSteps(tiny_text(name, head=head), [[1]])


def test_forbidden_tokens_are_never_written(model):
    free = generate(CausalSteps(model, PROMPTS), Greedy(), 10)
    never = sorted({token for text in free for token in text.tokens})
    found = generate(CausalSteps(model, PROMPTS, never=never), Greedy(), 10)
    assert not {token for text in found for token in text.tokens} & set(never)


# Drawing


SCORES = torch.tensor([[0.4, 0.05, 0.3, 0.25], [0.01, 0.97, 0.01, 0.01]]).log()


@pytest.mark.parametrize(
    ("options", "left"),
    [
        ({}, [{0: 0.4, 1: 0.05, 2: 0.3, 3: 0.25}, {0: 0.01, 1: 0.97, 2: 0.01, 3: 0.01}]),
        ({"top_k": 2}, [{0: 4 / 7, 2: 3 / 7}, None]),
        ({"top_p": 0.5}, [{0: 4 / 7, 2: 3 / 7}, {1: 1.0}]),  # the first alone is less than half
        ({"top_p": 0.4}, [{0: 1.0}, {1: 1.0}]),
        ({"top_p": 1e-6}, [{0: 1.0}, {1: 1.0}]),  # one is always left
        ({"top_k": 3, "top_p": 0.7}, [{0: 4 / 7, 2: 3 / 7}, {1: 1.0}]),  # of three, 0.4 / 0.95 + 0.3 / 0.95 > 0.7
        ({"temperature": 0.5}, [{0: 0.16 / 0.315, 1: 0.0025 / 0.315, 2: 0.09 / 0.315, 3: 0.0625 / 0.315}, None]),
        ({"top_k": 99}, [{0: 0.4, 1: 0.05, 2: 0.3, 3: 0.25}, None]),
    ],
    ids=str,
)
def test_what_can_be_drawn(options, left):
    probabilities, order = Sampling(**options).probabilities(SCORES)
    for row, expected in enumerate(left):
        if expected is not None:
            pairs = zip(order[row].tolist(), probabilities[row].tolist(), strict=True)
            assert {token: share for token, share in pairs if share} == pytest.approx(expected)


def test_tokens_are_drawn_by_their_probability():
    draw, many = Sampling(seed=1), 4000
    found = draw(SCORES[:1].expand(many, -1), torch.arange(many))
    assert torch.bincount(found, minlength=4).div(many).tolist() == pytest.approx([0.4, 0.05, 0.3, 0.25], abs=0.03)
    same = Sampling(seed=1)(SCORES[:1].expand(many, -1), torch.arange(many))
    assert torch.equal(found, same)
    assert not torch.equal(found, Sampling(seed=2)(SCORES[:1].expand(many, -1), torch.arange(many)))
    assert not torch.equal(found, draw(SCORES[:1].expand(many, -1), torch.arange(many)))  # it goes on


def test_drawing_leaves_the_random_numbers_of_others_alone():
    torch.manual_seed(0)
    before = torch.get_rng_state()
    generate(Table(2, 5), Sampling(seed=1), 5)
    assert torch.equal(torch.get_rng_state(), before)


def test_one_candidate_is_greedy():
    greedy = generate(Table(3, 6), Greedy(), 9, [0])
    assert generate(Table(3, 6), Sampling(top_k=1), 9, [0]) == greedy
    assert generate(Table(3, 6), Sampling(temperature=1e-4), 9, [0]) == greedy


@pytest.mark.parametrize("options", [{"temperature": 0}, {"top_k": 0}, {"top_p": 0}, {"top_p": 1.1}], ids=str)
def test_impossible_wishes_are_refused(options):
    with pytest.raises(UserError, match=next(iter(options))):
        Sampling(**options)


# Beams


@pytest.mark.parametrize("penalty", [0.0, 0.6, 2.0])
def test_one_beam_is_greedy(model, penalty):
    greedy = generate(CausalSteps(model, PROMPTS), Greedy(), 15, [END])
    beams = beam_search(CausalSteps(model, PROMPTS), 1, 15, [END], penalty)
    assert [text[0].tokens for text in beams] == [text.tokens for text in greedy]
    for text, expected in zip(beams, greedy, strict=True):
        assert len(text) == 1
        assert text[0].ended == expected.ended
        assert text[0].score == pytest.approx(expected.score, abs=1e-3)
    for seed in range(20):
        found = beam_search(Table(seed + 1, 5), 1, 8, [0], penalty)
        assert [text[0].tokens for text in found] == [
            text.tokens for text in generate(Table(seed + 1, 5), Greedy(), 8, [0])
        ]


@pytest.mark.parametrize("penalty", [0.0, 0.6, 1.5])
def test_wide_beams_find_what_trying_all_finds(penalty):
    texts, vocabulary, most, end = 25, 4, 3, 2
    found = beam_search(Table(texts, vocabulary), 27, most, [end], penalty)
    lengths = set()
    for text in range(texts):
        every = Table(texts, vocabulary).every(text, most, end)
        worth = {tokens: score / ((5 + count) / 6) ** penalty for tokens, (score, count) in every.items()}
        best = max(worth, key=worth.get)
        assert found[text][0].tokens == best
        assert found[text][0].score == pytest.approx(every[best][0], abs=1e-5)
        assert found[text][0].ended == (len(best) < most)
        lengths.add(len(best))
        for one in found[text]:
            assert one.score == pytest.approx(every[one.tokens][0], abs=1e-5)
    assert len(lengths) > 1


def test_beams_find_better_texts_than_greedy_search():
    greedy = generate(Table(40, 8), Greedy(), 6)
    beams = beam_search(Table(40, 8), 6, 6)
    gains = [found[0].score - one.score for found, one in zip(beams, greedy, strict=True)]
    assert sum(gain > 1e-4 for gain in gains) > 10
    assert sum(gains) > 0
    for found in beams:
        assert len(found) == 6
        assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)
        assert len({one.tokens for one in found}) == 6


def test_a_penalty_prefers_longer_texts():
    def length(penalty: float) -> int:
        return sum(len(text[0].tokens) for text in beam_search(Table(40, 5), 4, 8, [0, 1], penalty))

    assert length(0.0) < length(1.0) < length(3.0)


def test_beams_below_one_are_refused():
    with pytest.raises(UserError, match="beams: expected at least 1, got 0"):
        beam_search(Table(1, 4), 0, 3)


def test_the_vocabulary_may_be_smaller_than_the_beams():
    found = beam_search(Table(2, 3), 8, 2, [0])
    assert all(found[text][0].tokens in Table(2, 3).every(text, 2, 0) for text in range(2))


@pytest.mark.parametrize("penalty", [0.0, 0.6])
@pytest.mark.parametrize("beams", [1, 3, 8])
def test_an_observer_changes_nothing_and_sees_every_step(beams, penalty):
    steps: list[list] = [[] for _ in range(12)]
    plain = beam_search(Table(12, 5), beams, 6, [0], penalty)
    assert beam_search(Table(12, 5), beams, 6, [0], penalty, [seen.append for seen in steps]) == plain
    for seen, found in zip(steps, plain, strict=True):
        finished = [one.score for candidates in seen for one in candidates if one.fate == "finished"]
        assert {text.score for text in found} <= set(finished)
        kept = [[one for one in candidates if one.fate == "kept"] for candidates in seen]
        assert not kept[-1]
        assert all(1 <= len(one) <= beams for one in kept[:-1])
        for before, candidates in zip(kept, seen[1:], strict=False):
            assert {one.beam for one in candidates} <= set(range(len(before)))
    assert max(map(len, steps)) > 2
