"""Recurrent layers as scans compute what the layers compute, and a wrong one is found."""

import pytest
import torch
from torch import nn

from patchword.core.errors import UserError
from patchword.layers import ClippedLstm
from patchword.weights.export import recurrence
from patchword.weights.export.export import export
from patchword.weights.export.recurrence import ScannedClippedLstm, ScannedLstm, with_scans
from support.helpers import difference, pairs, pixels, randomise, tiny, tiny_pair


@pytest.mark.parametrize("depth", [1, 3])
@torch.no_grad()
def test_an_lstm_as_scans(depth):
    lstm = randomise(nn.LSTM(5, 7, depth, batch_first=True)).eval()
    state = pixels(depth, 4, 7, seed=3), pixels(depth, 4, 7, seed=4)
    for words, begun in ((9, None), (9, state), (1, state)):
        (expected, last), (found, end) = (run(pixels(4, words, 5), begun) for run in (lstm, ScannedLstm(lstm)))
        assert difference(found, expected) < 1e-5
        assert all(difference(one, other) < 1e-5 for one, other in zip(end, last, strict=True))


@torch.no_grad()
def test_a_clipped_lstm_as_a_scan():
    lstm = randomise(ClippedLstm(5, 24, 7, cell_clip=0.8, output_clip=0.5)).eval()
    tokens = pixels(2, 4, 9, 5)
    expected = lstm(tokens)
    assert (expected.abs() == 0.5).any()  # values are clipped
    assert difference(ScannedClippedLstm(lstm)(tokens), expected) < 1e-5
    assert difference(ScannedClippedLstm(lstm)(tokens[:, :, :1]), expected[:, :, :1]) < 1e-5


@pytest.mark.parametrize("attention", ["none", "dot", "multiplicative", "additive"])
@torch.no_grad()
def test_a_translator_with_scans_shares_its_weights_and_stays_as_it_was(attention):
    model, batch = tiny_pair("lstm-translation-small", attention=attention), pairs((17, 9, 24, 2), (5, 20, 11, 24))
    scanned = with_scans(model)
    kinds = {type(part) for part in scanned.modules()}
    assert ScannedLstm in kinds
    assert ScannedLstm not in {type(part) for part in model.modules()}
    assert {id(one) for one in scanned.parameters()} == {id(one) for one in model.parameters()}
    assert difference(scanned(batch), model(batch)) < 1e-5


def test_a_model_without_recurrence_is_returned_itself():
    model = tiny(depth=1)
    assert with_scans(model) is model


def test_another_lstm_is_refused_with_what_is_expected():
    with pytest.raises(UserError, match="this LSTM cannot be exported: expected one direction, batch_first, biases"):
        with_scans(nn.Sequential(nn.LSTM(5, 7, bidirectional=True)))


@pytest.mark.parametrize("suffix", ["onnx", "pt2"])
def test_a_wrong_step_is_found_and_its_file_not_kept(suffix, monkeypatch, tmp_path, quick_onnx):
    right = recurrence._lstm_step
    monkeypatch.setattr(recurrence, "_lstm_step", lambda hidden, cell, *others: right(hidden * 1.001, cell, *others))
    with pytest.raises(UserError, match="differ from the model's"):
        export(tiny_pair("lstm-translation-small", depth=1, width=12), tmp_path / f"model.{suffix}")
    assert not list(tmp_path.iterdir())
