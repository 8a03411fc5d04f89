"""Words as characters: the layout of the published models, and nothing lost by leaving fillings out."""

import pytest
import torch

from patchword.core.errors import UserError
from patchword.data.text.batching.batches import IGNORE
from patchword.data.text.tokenizers.characters import CharacterReader, SpelledBatch, WordList
from patchword.layers import CharacterEmbedding
from support.helpers import difference

SENTENCES = [["the", "naïve", "cat"], [], ["", "日本語" * 30, "a"]]


def slowly(word: str, limit: int = 50) -> list[int]:
    """bytes between two marks, filled up, one above what the authors number"""
    raw = list(word.encode())[: limit - 2]
    return [number + 1 for number in [258, *raw, 259, *[260] * (limit - 2 - len(raw))]]


def test_words_are_the_bytes_between_their_marks():
    text = CharacterReader(spare=50)(SENTENCES)
    assert text.ids.shape == (3, 5, 50)
    assert text.mask.sum(1).tolist() == [5, 2, 5]
    begin, end = ([number + 1 for number in [258, mark, 259, *[260] * 47]] for mark in (256, 257))
    for row, sentence in zip(text.ids.tolist(), SENTENCES, strict=True):
        expected = [begin, *(slowly(word) for word in sentence), end]
        assert row == expected + [[0] * 50] * (5 - len(expected))


def test_sentences_of_one_length_need_no_mask():
    assert CharacterReader()([["a", "b"], ["c", "d"]]).mask is None
    assert CharacterReader()([]).ids.shape[0] == 0


@pytest.mark.parametrize("sentences", ["the cat", ["the cat"]])
def test_a_sentence_is_a_list_of_words(sentences):
    with pytest.raises(UserError, match="a sentence is a list of words"):
        CharacterReader()(sentences)


def test_a_word_needs_room():
    with pytest.raises(UserError, match="expected 3 or more, got 2"):
        CharacterReader(limit=2)


@torch.no_grad()
def test_fillings_that_say_nothing_new_are_left_out():
    embedding = CharacterEmbedding(262, 4, [(1, 3), (2, 3), (7, 5)], 6)
    torch.nn.init.normal_(embedding.characters.weight, generator=torch.Generator().manual_seed(1))
    words = [["cat", "sat"], ["longer", "a"]]
    whole, cut = CharacterReader(spare=50)(words).ids, CharacterReader(spare=7)(words).ids
    assert (whole.shape[-1], cut.shape[-1]) == (50, 15)
    assert difference(embedding(cut), embedding(whole)) < 1e-6
    embedding.characters.weight[261] = 9.0  # the filling matters most, and too few of it are found out
    embedding.filters[2].weight.abs_()
    assert difference(embedding(cut), embedding(whole)) < 1e-6
    assert difference(embedding(CharacterReader(spare=2)(words).ids), embedding(whole)) > 1e-2


def test_the_vocabulary_has_the_frequent_words_first():
    words = WordList.of([["b", "a", "c"], ["b", "<S>", "a"], ["b", "d"]], most=3)
    assert words.words == ("</S>", "<S>", "<UNK>", "b", "a", "c")
    assert words.numbers([["a", "d"], []]).padded(IGNORE).tolist() == [[1, 4, 2, 0], [1, 0, IGNORE, IGNORE]]


def test_pieces_of_a_batch_are_its_texts():
    words = WordList.of(SENTENCES)
    batch = SpelledBatch.of(SENTENCES, CharacterReader(), words)
    assert batch.weight == 2 * (4 + 1 + 4)
    pieces = batch.split(2)
    assert [len(piece) for piece in pieces] == [2, 1]
    assert sum(piece.weight for piece in pieces) == batch.weight
    assert torch.equal(torch.cat([piece.text.ids for piece in pieces]), batch.text.ids)
    assert torch.equal(torch.cat([piece.flat_targets for piece in pieces]), batch.flat_targets)
    assert torch.equal(torch.cat([piece.text.mask for piece in pieces]), batch.text.mask)
