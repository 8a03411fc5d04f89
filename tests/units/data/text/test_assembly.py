"""From encoded texts to what a model reads: cut, in windows, in pairs, word by word."""

from itertools import pairwise

import numpy as np
import pytest
import torch

from patchword.data.text.batching.assembly import Limit, add_special_tokens, sentences, truncated_lengths, words
from patchword.data.text.batching.batches import IGNORE
from support.tiny_texts import vocabulary_of

LETTERS = list("abcdefghijklmnopqrstuvwxyz")
CONTINUED = [f"##{letter}" for letter in LETTERS]


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    """Every letter is a piece, those behind the first of a word continue it."""
    return vocabulary_of([*LETTERS, *CONTINUED], tmp_path_factory.mktemp("letters"))


def spelled(tokenizer, examples, number: int) -> str:
    return " ".join(tokenizer.tokens(examples.ids.row(number).numpy()))


# Single texts


def test_a_text_stands_between_cls_and_sep(tokenizer):
    examples = sentences(tokenizer, "texts", ["a b", "c"], None, Limit(8))
    assert [spelled(tokenizer, examples, number) for number in range(2)] == ["[CLS] a b [SEP]", "[CLS] c [SEP]"]
    assert examples.segments.values.tolist() == [0] * 7
    assert examples.owner.tolist() == [0, 1]
    assert (examples.shortened, examples.windowed, examples.unknown) == (0, 0, 0.0)


def test_a_long_text_is_cut_and_counted(tokenizer):
    texts = ["a b c d e f", "a b c d e f g", "h " * 50]
    examples = sentences(tokenizer, "texts", texts, None, Limit(8))
    assert spelled(tokenizer, examples, 0) == spelled(tokenizer, examples, 1) == "[CLS] a b c d e f [SEP]"
    assert examples.ids.lengths.tolist() == [8, 8, 8]
    assert (examples.shortened, examples.windowed) == (2, 0)


@pytest.mark.parametrize(("stride", "count"), [(1, 30), (2, 9), (5, 26), (6, 20), (100, 31), (3, 6), (3, 7)])
def test_windows_cover_every_token_and_begin_a_stride_apart(tokenizer, stride, count):
    text = [LETTERS[number % 26] for number in range(count)]
    examples = sentences(tokenizer, "texts", [" ".join(text), "a"], None, Limit(8, stride))
    rows = [examples.ids.row(number)[1:-1].tolist() for number in range(len(examples) - 1)]
    step = min(stride, 6)
    covered: dict[int, int] = {}
    for number, row in enumerate(rows):
        assert len(row) <= 6
        covered |= {number * step + place: token for place, token in enumerate(row)}
    assert [covered[place] for place in range(count)] == [tokenizer.id_of(letter) for letter in text]
    assert all(len(row) == 6 for row in rows[:-1])
    assert max(covered) == count - 1
    needed = 1 if count <= 6 else 1 + -(-(count - 6) // step)
    assert len(rows) == needed
    assert examples.owner.tolist() == [0] * needed + [1]
    assert (examples.shortened, examples.windowed) == (0, int(count > 6))


def test_unknown_words_are_counted(tokenizer):
    examples = sentences(tokenizer, "texts", ["a ü 7"], None, Limit(8))
    assert examples.unknown == pytest.approx(1 / 5)  # 7 is unknown; ü becomes u


def test_a_text_of_nothing_the_tokenizer_knows_is_still_a_text(tokenizer):
    examples = sentences(tokenizer, "texts", ["\u200b"], None, Limit(8, 3))
    assert spelled(tokenizer, examples, 0) == "[CLS] [SEP]"


# Pairs


def test_a_pair_has_two_segments(tokenizer):
    examples = sentences(tokenizer, "pairs", ["a b"], ["c d e"], Limit(16))
    assert spelled(tokenizer, examples, 0) == "[CLS] a b [SEP] c d e [SEP]"
    assert examples.segments.values.tolist() == [0, 0, 0, 0, 1, 1, 1, 1]
    row, segments = add_special_tokens(tokenizer, np.zeros(0, np.int32), np.zeros(0, np.int32))
    assert (len(row), segments.tolist()) == (3, [0, 0, 1])


@pytest.mark.parametrize("first", [0, 1, 2, 5, 9, 30])
@pytest.mark.parametrize("second", [0, 1, 3, 5, 10, 31])
@pytest.mark.parametrize("room", [1, 5, 6, 11])
def test_the_longer_of_a_pair_gives_up_tokens_first(first, second, room):
    kept = truncated_lengths(np.array([first]), np.array([second]), room)
    a, b = first, second
    while a + b > room:  # one by one, from whichever is the longer; of two alike from the second
        a, b = (a - 1, b) if a > b else (a, b - 1)
    assert [side.tolist() for side in kept] == [[a], [b]]


def test_of_a_pair_the_ends_are_cut_off(tokenizer):
    examples = sentences(tokenizer, "pairs", ["a b c d e"], ["a b c d"], Limit(8))
    assert spelled(tokenizer, examples, 0) == "[CLS] a b c [SEP] a b [SEP]"


def test_cut_pairs_are_counted_and_never_windowed(tokenizer):
    examples = sentences(tokenizer, "pairs", ["a " * 9, "a"], ["b " * 9, "b"], Limit(11, stride=4))
    assert spelled(tokenizer, examples, 0) == "[CLS] a a a a [SEP] b b b b [SEP]"
    assert (len(examples), examples.shortened, examples.windowed) == (2, 1, 0)


# Words with tags


def test_a_tag_stands_at_the_first_piece_of_its_word(tokenizer):
    examples, begun = words(tokenizer, "tags", [["cat", "is", "a", "b"]], [[7, 8, 9, 7]], 16)
    assert spelled(tokenizer, examples, 0) == "[CLS] c ##a ##t i ##s a b [SEP]"
    none = IGNORE
    assert examples.targets.values.tolist() == [none, 7, none, none, 8, none, 9, 7, none]
    assert begun.values.tolist() == [none, 0, none, none, 1, none, 2, 3, none]
    assert (examples.windowed, examples.owner.tolist()) == (0, [0])


def test_a_word_without_a_known_piece_keeps_its_tag(tokenizer):
    examples, begun = words(tokenizer, "tags", [["a", "\u200b", "7", "b"]], [[1, 2, 3, 4]], 16)
    assert spelled(tokenizer, examples, 0) == "[CLS] a [UNK] [UNK] b [SEP]"
    assert examples.targets.values.tolist() == [IGNORE, 1, 2, 3, 4, IGNORE]
    assert begun.values.tolist() == [IGNORE, 0, 1, 2, 3, IGNORE]


def sentence_of(generator: np.random.Generator, count: int, longest: int) -> list[str]:
    return ["".join(generator.choice(LETTERS, generator.integers(1, longest + 1))) for _ in range(count)]


@pytest.mark.parametrize("longest", [1, 3, 9, 20])
def test_a_long_sentence_is_continued_and_every_word_is_tagged_once(tokenizer, longest):
    """Words of more than the eight tokens there is room for are cut, and are still tagged at their first piece."""
    generator = np.random.default_rng(longest)
    lines = [sentence_of(generator, count, longest) for count in (1, 3, 40, 12)]
    tags = [generator.integers(0, 5, len(line)).tolist() for line in lines]
    examples, begun = words(tokenizer, "tags", lines, tags, 10)
    assert int(examples.ids.lengths.max()) <= 10
    found = [[None] * len(line) for line in lines]
    pieces: list[list[int]] = [[] for _ in lines]
    for number, owner in enumerate(examples.owner.tolist()):
        pieces[owner] += examples.ids.row(number)[1:-1].tolist()
        for target, word in zip(examples.targets.row(number).tolist(), begun.row(number).tolist(), strict=True):
            assert (target == IGNORE) == (word == IGNORE)
            if word != IGNORE:
                assert found[owner][word] is None
                found[owner][word] = target
    assert found == tags
    spelt = [[piece for word in line for piece in [word[0], *(f"##{letter}" for letter in word[1:])]] for line in lines]
    assert pieces == [[tokenizer.id_of(piece) for piece in line] for line in spelt]
    parts = torch.bincount(examples.owner)
    assert examples.windowed == int((parts > 1).sum())


def test_a_continued_sentence_is_cut_between_words(tokenizer):
    examples, _ = words(tokenizer, "tags", [["abc", "de", "fgh", "ij"]], [[1, 2, 3, 4]], 8)
    assert [spelled(tokenizer, examples, number) for number in range(2)] == [
        "[CLS] a ##b ##c d ##e [SEP]",
        "[CLS] f ##g ##h i ##j [SEP]",
    ]


def test_a_part_of_a_sentence_is_as_long_as_there_is_room(tokenizer):
    examples, _ = words(tokenizer, "tags", [["abc", "def", "gh"]], [[1, 2, 3]], 8)
    assert examples.ids.lengths.tolist() == [8, 4]


def test_a_word_longer_than_the_limit_goes_on_without_a_second_tag(tokenizer):
    examples, begun = words(tokenizer, "tags", [["a", "bcdefghijklmnop", "q"]], [[1, 2, 3]], 8)
    rows = [spelled(tokenizer, examples, number) for number in range(len(examples))]
    assert rows[0] == "[CLS] a [SEP]"
    assert rows[1] == "[CLS] b ##c ##d ##e ##f ##g [SEP]"
    assert [target for target in examples.targets.values.tolist() if target != IGNORE] == [1, 2, 3]
    assert all(len(row.split()) <= 8 for row in rows)
    assert begun.row(2).tolist().count(IGNORE) == 8


def test_without_tags_the_words_are_still_numbered(tokenizer):
    _, begun = words(tokenizer, "tags", [["ab", "c"]], None, 8)
    assert begun.values.tolist() == [IGNORE, 0, IGNORE, 1, IGNORE]


def test_texts_keep_the_order_of_their_rows(tokenizer):
    examples = sentences(tokenizer, "texts", ["a " * 20, "b", "c " * 9], None, Limit(8, 4))
    assert all(a <= b for a, b in pairwise(examples.owner.tolist()))
