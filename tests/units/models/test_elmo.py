"""ELMo: every state equals a step-by-step working, bounds included; directions stay apart; padding changes nothing."""

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from patchword.analysis.cost.count import lines_of
from patchword.core.errors import UserError
from patchword.core.text import Packed, Text
from patchword.data.text.tokenizers.characters import CharacterReader
from patchword.layers import ClippedLstm, ScalarMix
from patchword.models.text import elmo
from patchword.models.text.elmo import Elmo, ElmoConfig
from support.helpers import difference

TINY = ElmoConfig(
    character_width=3,
    characters=9,
    filters=((1, 2), (2, 3), (3, 4)),
    width=4,
    cell=6,
    cell_clip=0.7,
    output_clip=0.4,
    dropout=0.0,
    head_dropout=0.0,
)
SENTENCES = [["the", "cat", "sat"], ["a"], ["the", "longest", "one", "of", "these", "a"]]
PUBLISHED = {"small": 13_593_312, "medium": 28_027_744, "original": 93_600_864}


def tiny(scale: float = 0.8, **fields: object) -> Elmo:
    """Weights large enough that states reach their bounds, if nothing else is said."""
    model = elmo.build(replace(TINY, **fields)).eval()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(scale * torch.randn(parameter.shape, generator=generator))
    return model


@pytest.fixture
def text() -> Text:
    return CharacterReader(limit=9, spare=3)(SENTENCES)


# The working, one number after the other


def dot(row: Tensor, column: Tensor) -> float:
    return sum(float(one) * float(other) for one, other in zip(row, column, strict=True))


def mapped(weights: dict[str, Tensor], name: str, values: Tensor) -> Tensor:
    rows, bias = weights[f"{name}.weight"], weights[f"{name}.bias"]
    return torch.tensor([dot(row, values) + float(shift) for row, shift in zip(rows, bias, strict=True)])


def sigmoid(number: float) -> float:
    return 1 / (1 + math.exp(-number))


def spelled(weights: dict[str, Tensor], characters: Tensor) -> Tensor:
    """One word: filter by filter, place by place; then highways and a linear map."""
    letters = [weights["embedding.characters.weight"][number] for number in characters.tolist()]
    found = []
    for number in range(3):
        for kernel, bias in zip(
            weights[f"embedding.filters.{number}.weight"], weights[f"embedding.filters.{number}.bias"], strict=True
        ):
            size = kernel.shape[1]
            answers = [
                sum(dot(kernel[:, offset], letters[place + offset]) for offset in range(size)) + float(bias)
                for place in range(len(letters) - size + 1)
            ]
            found.append(max(max(answers), 0.0))
    word = torch.tensor(found)
    for number in range(2):
        new = mapped(weights, f"embedding.highways.{number}.candidate", word)
        gate = mapped(weights, f"embedding.highways.{number}.gate", word)
        shares = [sigmoid(float(value)) for value in gate]
        word = torch.tensor(
            [t * max(float(h), 0.0) + (1 - t) * float(x) for t, h, x in zip(shares, new, word, strict=True)]
        )
    return mapped(weights, "embedding.project", word)


def read(
    weights: dict[str, Tensor],
    layer: int,
    way: int,
    words: list[Tensor],
    cell_clip: float,
    output_clip: float,
    gates: str,
) -> list[Tensor]:
    """One layer in one direction, word by word, cell by cell."""
    inputs, recurrent, bias, output = (
        weights[f"encoder.layers.{layer}.{name}"][way] for name in ("inputs", "recurrent", "bias", "output")
    )
    count, width = output.shape
    cells, state, states = [0.0] * count, torch.zeros(width), []
    for word in words:
        held = []
        for number in range(count):
            total = {}
            for place, gate in enumerate(gates):
                column = place * count + number
                total[gate] = dot(inputs[:, column], word) + dot(recurrent[:, column], state) + float(bias[0, column])
            cell = sigmoid(total["f"]) * cells[number] + sigmoid(total["i"]) * math.tanh(total["g"])
            cells[number] = min(max(cell, -cell_clip), cell_clip)
            held.append(sigmoid(total["o"]) * math.tanh(cells[number]))
        left = [dot(output[:, number], torch.tensor(held)) for number in range(width)]
        state = torch.tensor([min(max(value, -output_clip), output_clip) for value in left])
        states.append(state)
    return states


def working(
    model: Elmo,
    characters: Tensor,
    *,
    cell_clip: float = 0.7,
    output_clip: float = 0.4,
    gates: str = "ifog",
    first: int = 1,
) -> list[Tensor]:
    """The states of one text. first: the first layer that what enters is added to."""
    weights = model.state_dict()
    words = [spelled(weights, word) for word in characters]
    found = [torch.stack([torch.cat([word, word]) for word in words])]
    ways = [words, words[::-1]]
    for layer in range(2):
        left = [read(weights, layer, way, ways[way], cell_clip, output_clip, gates) for way in (0, 1)]
        if layer >= first:
            left = [[new + old for new, old in zip(*pair, strict=True)] for pair in zip(left, ways, strict=True)]
        ways = left
        pairs = zip(ways[0], ways[1][::-1], strict=True)
        found.append(torch.stack([torch.cat(pair) for pair in pairs]))
    return found


@torch.no_grad()
def test_every_state_is_its_working(text):
    model = tiny()
    states = model.encode(text)
    assert [tuple(state.shape) for state in states] == [(3, 8, 8)] * 3
    for number, length in enumerate(text.mask.sum(1).tolist()):
        expected = working(model, text.ids[number, :length])
        for state, wanted in zip(states, expected, strict=True):
            assert difference(state[number, :length], wanted) < 1e-5


@pytest.mark.parametrize(
    "mutation",
    [
        {"cell_clip": math.inf},
        {"output_clip": math.inf},
        {"first": 0},
        {"first": 2},
        {"gates": "igfo"},
        {"gates": "fiog"},
    ],
    ids=str,
)
@torch.no_grad()
def test_another_working_is_found_out(text, mutation):
    model = tiny()
    length = int(text.mask[0].sum())
    states = [state[0, :length] for state in model.encode(text)]
    expected = working(model, text.ids[0, :length], **mutation)
    assert difference(states[0], expected[0]) < 1e-5
    assert difference(states[2], expected[2]) > 1e-2


@pytest.mark.filterwarnings("ignore:LSTM with projections")
@torch.no_grad()
def test_wide_bounds_make_it_the_lstm_of_torch():
    layer = ClippedLstm(5, 7, 3, cell_clip=1e9, output_clip=1e9)
    tokens = torch.randn(2, 4, 6, 5, generator=torch.Generator().manual_seed(1))
    answer = layer(tokens)
    for way in (0, 1):
        theirs = torch.nn.LSTM(5, 7, proj_size=3, batch_first=True)
        i, f, o, g = layer.inputs[way].T.chunk(4)
        theirs.weight_ih_l0.copy_(torch.cat([i, f, g, o]))
        i, f, o, g = layer.recurrent[way].T.chunk(4)
        theirs.weight_hh_l0.copy_(torch.cat([i, f, g, o]))
        i, f, o, g = layer.bias[way, 0].chunk(4)
        theirs.bias_ih_l0.copy_(torch.cat([i, f, g, o]))
        theirs.bias_hh_l0.zero_()
        theirs.weight_hr_l0.copy_(layer.output[way].T)
        assert difference(answer[way], theirs(tokens[way])[0]) < 1e-5


# What reads what


@torch.no_grad()
def test_a_text_does_not_depend_on_its_batch_or_on_what_stands_at_the_padding(text):
    model = tiny()
    whole = model.encode(text)
    other = model.encode(text._replace(ids=torch.where(text.mask[..., None], text.ids, 99)))
    for number, length in enumerate(text.mask.sum(1).tolist()):
        alone = model.encode(Text(text.ids[number : number + 1, :length]))
        for state, same, single in zip(whole, other, alone, strict=True):
            assert difference(state[number, :length], single[0]) < 1e-5
            assert difference(same[number, :length], single[0]) < 1e-5


@torch.no_grad()
def test_texts_in_a_row_are_the_padded_ones(text):
    model = tiny()
    row = Text(text.ids[text.mask][None], packed=Packed.of(text.mask.sum(1)))
    for padded, joined in zip(model.encode(text), model.encode(row), strict=True):
        assert difference(joined[0], padded[text.mask]) < 1e-5
    with pytest.raises(UserError, match="expected padded texts"):
        model.states(row)


@torch.no_grad()
def test_directions_are_never_mixed(text):
    model = tiny(0.4, cell_clip=9.0, output_clip=9.0)  # at their bounds, different states are alike
    ids = text.ids[2:]
    before = model.encode(Text(ids))
    changed = ids.clone()
    changed[0, 4] = ids[0, 2]
    after = model.encode(Text(changed))
    for old, new in zip(before[1:], after[1:], strict=True):
        moved = (old - new).abs()[0] > 1e-5  # words that are spelled beside others differ in the last bit
        forwards, backwards = moved[:, :4].any(-1), moved[:, 4:].any(-1)
        assert forwards.tolist() == [False] * 4 + [True] * 4
        assert backwards.tolist() == [True] * 5 + [False] * 3


@torch.no_grad()
def test_states_are_those_of_the_words_alone(text):
    model = tiny()
    for state, inner in zip(model.encode(text), model.states(text), strict=True):
        assert torch.equal(inner, state[:, 1:-1])
        assert inner.shape == (3, 6, 8)  # the longest sentence has six words


@torch.no_grad()
def test_a_word_spelled_once_is_the_same(text):
    model = tiny()
    assert difference(model.embedding.once(text.ids), model.embedding(text.ids)) < 1e-5


# Heads and mixtures


@torch.no_grad()
def test_the_mixture_is_its_formula():
    mix = ScalarMix(3)
    states = list(torch.randn(3, 2, 4, 5, generator=torch.Generator().manual_seed(1)))
    assert difference(mix(states), (states[0] + states[1] + states[2]) / 3) < 1e-6
    mix.weights.copy_(torch.tensor([1.0, -2.0, 0.5]))
    mix.scale.fill_(1.7)
    shares = [math.exp(number) for number in (1.0, -2.0, 0.5)]
    expected = 1.7 * sum(share / sum(shares) * state for share, state in zip(shares, states, strict=True))
    assert difference(mix(states), expected) < 1e-6


@pytest.mark.parametrize(
    ("fields", "shapes"),
    [
        ({"head": "tokens"}, [(3, 8, 8)]),
        ({"head": "tags", "classes": 5}, [(3, 8, 5)]),
        ({"head": "classes", "classes": 5}, [(3, 5)]),
        ({"head": "words", "vocabulary": 11}, [(3, 8, 11), (3, 8, 11)]),
    ],
    ids=lambda value: str(value.get("head")) if isinstance(value, dict) else "",
)
def test_heads(text, fields, shapes):
    model = tiny(**fields)
    answer = model(text)
    answers = answer if isinstance(answer, tuple) else (answer,)
    assert [tuple(part.shape) for part in answers] == shapes
    sum(part[:2].square().sum() for part in answers).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.any(), name


def test_frozen_states_under_a_tagger(text):
    model = tiny().requires_grad_(False)
    mix, linear = ScalarMix(3), torch.nn.Linear(8, 5)
    linear(mix(model.states(text))).square().sum().backward()
    assert mix.weights.grad.any()
    assert linear.weight.grad.any()
    assert all(parameter.grad is None for parameter in model.parameters())


@pytest.mark.parametrize(("head", "field"), [("words", "vocabulary"), ("tags", "classes"), ("classes", "classes")])
def test_a_head_needs_its_number(head, field):
    with pytest.raises(UserError, match=f"head '{head}' needs field '{field}': expected e.g. {field}=2"):
        elmo.build(replace(TINY, head=head))


def test_words_too_short_for_a_filter_are_refused():
    with pytest.raises(UserError, match="with 3 characters or more"):
        tiny()(torch.zeros(1, 4, 2, dtype=torch.int64))
    with pytest.raises(UserError, match="a filter is wider than a word"):
        elmo.build(replace(TINY, characters=2))


# Counts


@pytest.mark.parametrize("name", PUBLISHED)
def test_counts_are_those_of_the_table(name):
    variant = elmo.FAMILY.variants[name]
    with torch.device("meta"):
        model, text = elmo.build(variant.config).eval(), variant.config.example(8)
    bare = [*model.embedding.parameters(), *model.encoder.parameters()]
    assert sum(parameter.numel() for parameter in bare) == PUBLISHED[name]
    assert sum(parameter.numel() for parameter in model.parameters()) == variant.parameters
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        model(text)
    assert 128 // 8 * counter.get_total_flops() == 2 * variant.macs  # every word costs the same
    lines = lines_of(model, text)
    assert 128 // 8 * sum(line.macs.value for line in lines if line.macs) == variant.macs
    assert sum(line.parameters.value for line in lines if line.parameters) == variant.parameters


def test_the_working_of_a_language_model_adds_up():
    with torch.device("meta"):
        model, text = elmo.build(replace(TINY, head="words", vocabulary=13)).eval(), TINY.example(7)
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        model(text)
    lines = lines_of(model, text)
    assert 2 * sum(line.macs.value for line in lines if line.macs) == counter.get_total_flops()
    expected = sum(parameter.numel() for parameter in model.parameters())
    assert sum(line.parameters.value for line in lines if line.parameters) == expected


@torch.no_grad()
def test_compiles_without_a_break(text):
    model = tiny()
    torch.compiler.reset()
    compiled = torch.compile(model, fullgraph=True, backend="eager")
    short = Text(text.ids[:, :3], mask=text.mask[:, :3])
    assert difference(compiled(short), model(short)) < 1e-5


def test_half_precision_keeps_the_cells_whole(text):
    """Matrix products may be narrow; what is summed over a long text is not."""
    model = tiny(cell_clip=3.0, output_clip=3.0)
    with torch.autocast("cpu", torch.bfloat16):
        state = model.encode(text)[-1]
    state.sum().backward()
    assert difference(state[text.mask].float(), model.encode(text)[-1][text.mask]) < 0.1
    assert model.encoder.layers[0].recurrent.grad.isfinite().all()
