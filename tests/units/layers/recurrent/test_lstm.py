"""LSTMs that read and write, against torch's packed nn.LSTM and an attention written out by hand."""

import math

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from patchword.core.errors import UserError
from patchword.core.text import Pair, Text
from patchword.layers import BidirectionalLstm
from support.helpers import TINY_PAIR, difference, pairs, randomise, tiny_pair, tiny_sizes

NAME = "lstm-translation-small"
KINDS = ["none", "dot", "multiplicative", "additive"]
BATCH = pairs((17, 9, 24, 2), (5, 20, 11, 24))
WIDTH = TINY_PAIR["width"]


def torch_encoder(ours: BidirectionalLstm) -> nn.LSTM:
    """One bidirectional nn.LSTM with the weights of ours."""
    width = 2 * ours.forwards[0].hidden_size
    theirs = nn.LSTM(ours.forwards[0].input_size, width // 2, len(ours.forwards), batch_first=True, bidirectional=True)
    with torch.no_grad():
        for layer, both in enumerate(zip(ours.forwards, ours.backwards, strict=True)):
            for one, ending in zip(both, ("", "_reverse"), strict=True):
                for name, parameter in one.named_parameters():
                    getattr(theirs, name.replace("l0", f"l{layer}") + ending).copy_(parameter)
    return theirs


def packed(lstm: nn.LSTM, tokens: Tensor, lengths: Tensor) -> Tensor:
    rows = pack_padded_sequence(tokens, lengths, batch_first=True, enforce_sorted=False)
    return pad_packed_sequence(lstm(rows)[0], batch_first=True, total_length=tokens.shape[1])[0]


@pytest.mark.parametrize("depth", [1, 3])
@torch.no_grad()
def test_both_directions_equal_a_packed_lstm(depth):
    ours = randomise(BidirectionalLstm(12, 20, depth)).eval()
    tokens, lengths = torch.randn(4, 9, 12), torch.tensor([9, 1, 6, 4])
    mask = torch.arange(9) < lengths[:, None]
    expected = packed(torch_encoder(ours), tokens, lengths)
    assert difference(ours(tokens, mask)[mask], expected[mask]) < 1e-5
    assert difference(ours(tokens), torch_encoder(ours)(tokens)[0]) < 1e-5
    assert difference(ours(tokens)[mask], expected[mask]) > 1e-2  # as if padding were words


def test_an_odd_width_cannot_be_shared_by_two_directions():
    with pytest.raises(UserError, match="an LSTM per direction: expected an even width, got 7"):
        BidirectionalLstm(4, 7, 1)


def one_by_hand(model, source: Tensor, target: Tensor) -> tuple[Tensor, list[Tensor]]:
    """The scores of one pair without padding, step by step and word by word; and where it looked."""
    memory = torch_encoder(model.encoder)(model.source.words.weight[source][None])[0][0]
    half = WIDTH // 2
    ends = torch.cat([memory[-1, :half], memory[0, half:]])
    start = torch.tanh(model.bridge.linear(ends)).view(2, TINY_PAIR["depth"], 1, WIDTH)
    state = start[0].contiguous(), start[1].contiguous()
    scores, looked = [], []
    for word in target:
        _, state = model.decoder(model.writing.words.weight[word][None, None], state)
        hidden = state[0][-1, 0]
        if model.look is not None:
            attention = model.look.attention
            energies = torch.stack([energy(attention, hidden, word) for word in memory])
            weights = energies.exp() / energies.exp().sum()
            context = sum(weight * word for weight, word in zip(weights, memory, strict=True))
            both = torch.cat([attention.output.weight, model.look.state.weight], 1) @ torch.cat([context, hidden])
            hidden = torch.tanh(both + attention.output.bias)
            looked.append(weights)
        scores.append(model.writing.words.weight @ hidden + model.head.output.bias)
    return torch.stack(scores), looked


def energy(attention, state: Tensor, word: Tensor) -> Tensor:
    projection = attention.projection
    if hasattr(projection, "key"):
        mixed = projection.query.weight @ state + projection.query.bias + projection.key.weight @ word
        return attention.core.energy.weight[0] @ torch.tanh(mixed)
    return (projection.query.weight @ state if hasattr(projection, "query") else state) @ word


@pytest.fixture(params=KINDS)
def model(request):
    return tiny_pair(NAME, attention=request.param, dropout=0.0)


@torch.no_grad()
def test_scores_equal_those_made_step_by_step(model):
    whole = model(BATCH)
    for index, (read, written) in enumerate(zip((17, 9, 24, 2), (5, 20, 11, 24), strict=True)):
        expected, _ = one_by_hand(model, BATCH.source.ids[index, :read], BATCH.target.ids[index, :written])
        assert difference(whole[index, :written], expected) < 1e-5


@pytest.mark.parametrize("kind", KINDS[1:])
@torch.no_grad()
def test_where_it_looks_is_what_was_worked_out_by_hand(kind):
    from patchword.objectives.generation.translating import alignment

    model = tiny_pair(NAME, attention=kind, dropout=0.0)
    _, looked = one_by_hand(model, BATCH.source.ids[1, :9], BATCH.target.ids[1, :20])
    found = alignment(model, BATCH)
    assert found.shape == (1, 4, 24, 24)
    assert difference(found[0, 1, :20, :9], torch.stack(looked)) < 1e-5


@torch.no_grad()
def test_kinds_of_attention_differ():
    answers = []
    for kind in KINDS:
        model = tiny_pair(NAME, attention=kind, dropout=0.0)
        model.load_state_dict(tiny_pair(NAME, attention="dot", dropout=0.0).state_dict(), strict=False)
        answers.append(model(BATCH))
    for number, one in enumerate(answers):
        assert all(difference(one, other) > 1e-2 for other in answers[:number])


@torch.no_grad()
def test_without_attention_the_source_is_known_by_its_state_alone():
    model = tiny_pair(NAME, attention="none", dropout=0.0)
    memory = model.encode(BATCH.source)
    blank = memory._replace(tokens=torch.zeros_like(memory.tokens))
    assert torch.equal(model.decode(BATCH.target, blank), model.decode(BATCH.target, memory))
    other = memory._replace(state=(memory.state[0] + 1, memory.state[1]))
    assert difference(model.decode(BATCH.target, other), model.decode(BATCH.target, memory)) > 1e-2


def test_fresh_weights_forget_little():
    import patchword

    model = patchword.create(NAME, **tiny_sizes(NAME))
    for lstm in (model.decoder, model.encoder.backwards[0]):
        size = lstm.hidden_size
        assert (lstm.bias_ih_l0 + lstm.bias_hh_l0)[size : 2 * size].eq(1).all()
        assert not lstm.bias_ih_l0[:size].any()
        gate = lstm.weight_hh_l0[:size]
        assert difference(gate @ gate.T, torch.eye(size)) < 1e-5
    loss = nn.functional.cross_entropy(model.eval()(BATCH).flatten(0, 1), BATCH.target.ids.flatten())
    assert abs(float(loss.detach()) - math.log(47)) < 0.3


def test_a_batch_of_equal_lengths_needs_no_mask():
    model = tiny_pair(NAME, dropout=0.0)
    ids = BATCH.source.ids[:, :9]
    printed = Pair(Text(ids, mask=torch.ones_like(ids, dtype=torch.bool)), BATCH.target)
    assert difference(model(printed), model(Pair(Text(ids), BATCH.target))) < 1e-6
