"""Pieces of bytes, unigrams and pieces over letters against transformers; their frames, words, files and errors."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from transformers import (
    AlbertTokenizer,
    AutoTokenizer,
    BigBirdTokenizer,
    GPT2Tokenizer,
    OpenAIGPTTokenizer,
    RobertaTokenizer,
    XLMRobertaTokenizer,
)

from patchword.core.errors import UserError
from patchword.data.text.batching.assembly import Limit, sentences, words
from patchword.data.text.batching.batches import IGNORE
from patchword.data.text.batching.masking import Masking
from patchword.data.text.batching.question_windows import windows
from patchword.data.text.formats.squad import Answer, Question
from patchword.data.text.tokenizers import encoding as pieces
from patchword.data.text.tokenizers.template import Frame
from patchword.data.text.tokenizers.tokenizer import Tokenizer
from patchword.data.text.tokenizers.vocabulary_config import VocabularyConfig

SENTENCES = [
    "The quick brown fox jumps over the lazy dog, and the dog sleeps. Walking, walked and walks: the walker walked on.",
    "Don't walk! Über Straßen läuft Émile Zoë. Unbelievable; believing is seeing, 1234567890 and (5 + 6) * 7 = 77.",
    "我喜欢看书。北京是中国的首都 Москва слезам не верит, شكرا جزيلا, हिन्दी भाषा, 한국어 日本語のテキスト",
]
HARD = [
    "",
    " ",
    " \t\n\r  ",
    "The dog walked.",
    " leading  and   trailing ",
    "Élève naïve à São Paulo, e\u0301le\u0300ve A\u030angstro\u0308m",
    "我喜欢 reading 看书and学习.中文mixed混合123 \uf900\U00020000",
    "emoji 👍🏽 and 👩‍🔬 and 🏳️‍🌈 and ❤️ and walk👍walk",
    "walk" * 60 + " " + "e\u0301" * 101 + " end",
    "nul\x00l bell\x07 next\x85line nbsp\u00a0thin\u2009ideographic\u3000line\u2028 zero\u200bwidth \ufeffbom",
    "two\nlines\r\nthree\n\n\n  indented\tby a tab \n",
    "İstanbul ISPARTA Straße ẞ ﬁne oﬃce ΟΔΟΣ ½ ² Ⅷ",
    "...!!!??? don't we'll U.S.A. “curly” ‘it’s’ — … `` '' 3.14159 1,000 $5 50%",
    "snow☃man ☃ \ufffd private\ue000use",
]
SPELLED = "The <mask> sat </s> on <s> the [MASK] mat <pad> [SEP] <|endoftext|> ▁x Ġx x</w> <unk>"


def learned(kind: str, vocabulary: int = 600):
    return VocabularyConfig(kind, vocabulary, "cased" if kind == "bytes" else None).from_texts([*SENTENCES, *HARD[:8]])


BYTES, UNIGRAM = learned("bytes"), learned("unigram", 300)


def numbered(entries) -> dict[str, int]:
    return {entry: number for number, entry in enumerate(entries)}


def scored(before: list[str], after: list[str]) -> list[tuple[str, float]]:
    pieces = list(zip(UNIGRAM.entries, UNIGRAM.scores, strict=True))[5:]
    return [*((name, 0.0) for name in before), *pieces, *((name, 0.0) for name in after)]


def letters() -> tuple[list[str], list[tuple[str, str]]]:
    merges = [("t", "h"), ("th", "e</w>"), ("d", "o"), ("do", "g</w>"), ("w", "a"), ("l", "k"), ("wa", "lk")]
    merges += [("e", "d</w>"), ("walk", "ed</w>")]
    single = "abcdefghijklmnopqrstuvwxyz.,!?'"
    return [*single, *(f"{letter}</w>" for letter in single), *(a + b for a, b in merges)], merges


def roberta(**settings):
    return RobertaTokenizer(numbered(BYTES.entries), list(BYTES.merges), split_special_tokens=True, **settings)


def gpt2():
    entries = [*BYTES.entries[5:], "<|endoftext|>"]
    return GPT2Tokenizer(numbered(entries), list(BYTES.merges), split_special_tokens=True)


def gpt():
    entries, merges = letters()
    return OpenAIGPTTokenizer(numbered(["<unk>", *entries]), merges, split_special_tokens=True)


THEIRS = {
    "roberta": roberta,
    "roberta with a space in front": lambda: roberta(add_prefix_space=True),
    "gpt2": gpt2,
    "gpt": gpt,
    "albert": lambda: AlbertTokenizer(
        scored(["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"], []), split_special_tokens=True
    ),
    "xlm-roberta": lambda: XLMRobertaTokenizer(
        scored(["<s>", "<pad>", "</s>", "<unk>"], ["<mask>"]), split_special_tokens=True
    ),
    "big bird": lambda: BigBirdTokenizer(
        scored(["<pad>", "</s>", "<s>", "<unk>"], ["[CLS]", "[SEP]", "[MASK]"]), split_special_tokens=True
    ),
}


@pytest.fixture(scope="module", params=THEIRS)
def both(request, tmp_path_factory):
    theirs = THEIRS[request.param]()
    folder = tmp_path_factory.mktemp("theirs")
    theirs.save_pretrained(folder)
    return theirs, Tokenizer.read(folder)


def without_space(text: str, start: int, end: int) -> tuple[int, int]:
    """Ours never point at the space in front of a word; of transformers' classes only some leave it out."""
    while start < end and text[start] == " ":
        start += 1
    return start, end


def framed(ours: Tokenizer) -> Frame:
    """GPT-2's class of transformers adds nothing; we put its end behind a text."""
    return ours.frame if ours.cls is not None else Frame()


# Equality with transformers


def test_pieces_and_places_equal_those_of_transformers(both):
    theirs, ours = both
    output = theirs(HARD, return_offsets_mapping=True)
    frame = framed(ours)
    for text, ids, places, found in zip(HARD, output.input_ids, output.offset_mapping, ours.encode(HARD), strict=True):
        assert frame.around(found.ids)[0].tolist() == ids
        inner = places[len(frame.before) : len(places) - len(frame.after)]
        expected = [without_space(text, *place) for place in inner]
        assert list(zip(found.starts.tolist(), found.ends.tolist(), strict=True)) == expected
    assert [found.tolist() for found in ours.ids_of(HARD)] == [found.ids.tolist() for found in ours.encode(HARD)]


def test_pairs_equal_those_of_transformers(both):
    theirs, ours = both
    bert_like = theirs.__class__ in (AlbertTokenizer, BigBirdTokenizer)
    encoded = ours.encode(HARD)
    for text, first in zip(HARD, encoded, strict=True):
        for pair, second in zip(HARD[1:], encoded[1:], strict=True):  # an empty text is no pair to them
            output = theirs(text, pair, return_token_type_ids=True)
            ids, segments = framed(ours).around(first.ids, second.ids)
            assert ids.tolist() == output.input_ids
            assert not bert_like or segments.tolist() == output.token_type_ids


def test_a_text_in_parts_gives_the_pieces_of_the_whole(both, monkeypatch):
    _, ours = both
    text = "\n".join([*HARD, *SENTENCES])
    whole = ours.encode([text])[0]
    monkeypatch.setattr(pieces.split_text, "__defaults__", (1,))
    parts = ours.encode([text])[0]
    assert len(pieces.split_text(text, pieces.WORD_BREAK)) > 20
    for name in ("ids", "starts", "ends", "words"):
        shown = slice(None) if name in ("ids", "words") else whole.ends > whole.starts  # a lone space has no place
        assert getattr(parts, name)[shown].tolist() == getattr(whole, name)[shown].tolist()


def test_what_is_saved_comes_back_here_and_in_transformers(both, tmp_path):
    theirs, ours = both
    ours.save(tmp_path)
    again = Tokenizer.read(tmp_path)
    assert (again.fingerprint(), again.frame, again.specials) == (ours.fingerprint(), ours.frame, ours.specials)
    other = AutoTokenizer.from_pretrained(tmp_path)
    assert other(HARD[3:8]).input_ids == theirs(HARD[3:8]).input_ids
    assert (other.mask_token_id, other.pad_token_id) == (ours.mask, ours.pad)
    has_pairs = isinstance(theirs, RobertaTokenizer | GPT2Tokenizer | OpenAIGPTTokenizer)
    assert (tmp_path / "merges.txt").exists() == (tmp_path / "vocab.json").exists() == has_pairs
    if has_pairs:
        (tmp_path / "tokenizer.json").unlink()
        again = Tokenizer.read(tmp_path)
        assert [found.ids.tolist() for found in again.encode(HARD)] == [
            found.ids.tolist() for found in ours.encode(HARD)
        ]
        assert (again.frame, again.specials) == (ours.frame, ours.specials)


# Special tokens and frames


def test_special_tokens_and_frames_by_family(both):
    theirs, ours = both
    frames = {
        RobertaTokenizer: Frame((0,), (2, 2), (2,)),
        XLMRobertaTokenizer: Frame((0,), (2, 2), (2,)),
        AlbertTokenizer: Frame((2,), (3,), (3,)),
        BigBirdTokenizer: Frame((theirs.cls_token_id,), (theirs.sep_token_id,), (theirs.sep_token_id,)),
        GPT2Tokenizer: Frame((), (theirs.eos_token_id,), (theirs.eos_token_id,)),
        OpenAIGPTTokenizer: Frame(),
    }
    assert ours.frame == frames[type(theirs)]
    assert (ours.pad, ours.mask, ours.cls, ours.sep) == (
        theirs.pad_token_id,
        theirs.mask_token_id,
        theirs.cls_token_id,
        theirs.sep_token_id,
    )
    assert ours.unknown == (None if isinstance(theirs, GPT2Tokenizer) else theirs.unk_token_id)
    assert ours.vocabulary == len(theirs)


def test_a_mask_in_a_text_is_one_token(both):
    _, ours = both
    if ours.mask is None:
        for ask in (lambda: ours.encode_masked(["x"]), lambda: Masking.of(ours)):
            with pytest.raises(UserError, match=r"has no \[MASK\]"):
                ask()
        return
    name = ours.tokens([ours.mask])[0]
    text = f"the {name} walked on"
    found = ours.encode_masked([text])[0]
    place = found.ids.tolist().index(ours.mask)
    assert text[found.starts[place] : found.ends[place]] == name
    assert found.ids.tolist()[:place] == ours.encode(["the"])[0].ids.tolist()
    assert found.ids.tolist()[place + 1 :] == ours.encode(["x walked on"])[0].ids.tolist()[-len(found) + place + 1 :]
    assert ours.mask not in ours.encode([text])[0].ids


def test_text_cannot_spell_a_special_token(both):
    _, ours = both
    special = set(ours.specials) - {ours.unknown}
    for found in (*ours.encode([SPELLED]), *ours.encode_words([SPELLED.split()])):
        assert not special & set(found.ids.tolist())
    assert not special & set(ours.ids_of([SPELLED])[0].tolist())


def test_frames_that_no_file_tells(tmp_path):
    entries = {"</s>": 1, "<pad>": 2, "<unk>": 3, "<special0>": 4, "<special1>": 5}
    xlm = {"<s>": 0, **entries, **{piece: number + 6 for number, piece in enumerate(letters()[0])}}
    (tmp_path / "vocab.json").write_text(json.dumps(xlm))
    lines = [f"{first} {second} 17\n" for first, second in letters()[1]]
    (tmp_path / "merges.txt").write_text("".join(lines))
    settings = {"cls_token": "</s>", "sep_token": "</s>", "bos_token": "<s>", "mask_token": "<special1>"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    found = Tokenizer.read(tmp_path)
    assert found.frame == Frame((0,), (1,), (1,))
    assert (found.cls, found.sep, found.pad, found.unknown, found.mask, found.end) == (1, 1, 2, 3, 5, 1)
    assert found.tokens(found.encode(["The Dog walked."])[0].ids) == ["the</w>", "dog</w>", "walked</w>", ".</w>"]
    settings |= {"do_lowercase_and_remove_accent": False}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    cased = Tokenizer.read(tmp_path)
    assert cased.tokens(cased.encode(["The dog"])[0].ids)[0] == "<unk>"
    (tmp_path / "tokenizer_config.json").unlink()
    assert Tokenizer.read(tmp_path).frame == Frame((0,), (1,), (1,))
    for path in tmp_path.iterdir():
        path.unlink()
    trained = Tokenizer.train_on(SENTENCES, 300, kind="bytes")
    trained.save(tmp_path)
    rules = json.loads((tmp_path / "tokenizer.json").read_text())
    (tmp_path / "tokenizer.json").write_text(json.dumps(rules | {"post_processor": None}))
    assert Tokenizer.read(tmp_path).frame == trained.frame == Frame((0,), (2, 2), (2,))


def test_a_pair_framed_unlike_a_text_is_refused(tmp_path):
    Tokenizer.train_on(SENTENCES, 300, kind="unigram").save(tmp_path)
    rules = json.loads((tmp_path / "tokenizer.json").read_text())
    rules["post_processor"]["pair"].pop(0)
    (tmp_path / "tokenizer.json").write_text(json.dumps(rules))
    with pytest.raises(UserError, match="adds special tokens to a pair of texts in an unknown way"):
        _ = Tokenizer.read(tmp_path).frame


# Words


def test_words_given_one_by_one_have_the_pieces_of_running_text(both):
    _, ours = both
    given = [["The", "dog", "walked", "quickly", "Émile", "dog"], [], ["dog"]]
    for sentence, found in zip(given, ours.encode_words(given), strict=True):
        running = ours.encode([" ".join(sentence)])[0]
        assert found.ids.tolist() == running.ids.tolist()
        assert sorted(set(found.words.tolist())) == list(range(len(sentence)))
        for number, word in enumerate(sentence):
            chosen = found.words == number
            assert (found.starts[chosen].min(), found.ends[chosen].max()) == (0, len(word))
    assert ours.encode_words([["\u200b", "", "x"]])[0].words[-1] == 2


def test_words_begin_where_a_space_is(both):
    theirs, ours = both
    text = "The dog walked unbelievably quickly and " + ("slept" if ours.frame == Frame() else "Émile 👍🏽 slept")
    found = ours.encode([text])[0]
    spaces = np.cumsum([letter == " " for letter in text])
    assert ours.words_of(found.ids).tolist() == spaces[found.starts].tolist()
    assert not ours.continues[list(set(ours.specials) - {ours.unknown})].any()
    if isinstance(theirs, OpenAIGPTTokenizer):
        assert not ours.continues.any()  # only ends are marked
        return
    mark = "Ġ" if isinstance(theirs, RobertaTokenizer | GPT2Tokenizer) else "▁"
    for piece, number in ((f"{mark}the", False), ("ing", True), ("e", True)):
        if ours.id_of(piece) is not None:
            assert ours.continues[ours.id_of(piece)] == number


def test_pieces_as_text_has_them(both):
    theirs, ours = both
    if not isinstance(theirs, OpenAIGPTTokenizer):
        text = "the dog walked, and walks."
        assert "".join(ours.written(ours.encode([text])[0].ids)).replace("▁", "") == text.replace(" ", "")
    assert ours.decode(ours.encode(["the dog walked"])[0].ids).strip() == "the dog walked"


# Assembly


def test_lengths_count_the_special_tokens_of_the_frame():
    tokenizer = Tokenizer.train_on(SENTENCES, 400, kind="bytes")
    text = SENTENCES[0]
    cut = sentences(tokenizer, "texts", [text], None, Limit(12))
    assert tokenizer.tokens(cut.ids.row(0).numpy())[:1] == ["<s>"]
    assert tokenizer.tokens(cut.ids.row(0).numpy())[-1:] == ["</s>"]
    pair = sentences(tokenizer, "pairs", [text], [text], Limit(12))
    row = pair.ids.row(0).tolist()
    assert (len(row), pair.shortened) == (12, 1)
    assert [place for place, number in enumerate(row) if number in (0, 2)] == [0, 5, 6, 11]
    assert pair.segments.row(0).tolist() == [0] * 7 + [1] * 5
    tagged, begun = words(tokenizer, "tags", [["The", "unbelievable", "dog"]], [[7, 8, 9]], 40)
    asked = [number for number in tagged.targets.values.tolist() if number != IGNORE]
    assert (asked, begun.values.tolist()[1]) == ([7, 8, 9], 0)
    plain = Tokenizer(VocabularyConfig("bytes", 400).library(learned("bytes", 400)))
    assert len(sentences(plain, "texts", [""], None, Limit(8)).ids.row(0)) == 2


def test_a_text_of_nothing_without_a_frame_has_one_token(tmp_path):
    gpt().save_pretrained(tmp_path)
    tokenizer = Tokenizer.read(tmp_path)
    assert sentences(tokenizer, "texts", ["\u200b", "dog"], None, Limit(8)).ids.lengths.tolist() == [1, 1]


@pytest.mark.parametrize("kind", ["bytes", "unigram"])
def test_an_answer_is_found_on_its_characters(kind):
    tokenizer = Tokenizer.train_on(SENTENCES, 400, kind=kind)
    context = "Émile 👍🏽 walked over the lazy dog, and Zoë slept."
    for answer in ("walked over", "the lazy dog", "Zoë", "Émile", "👍🏽"):
        start = context.index(answer)
        asked = Question("q", "who walked", context, (Answer(answer, start),), "article", impossible=False)
        found = windows(tokenizer, "questions", [asked], Limit(200, 16))
        first, last = found.examples.labels[0].tolist()
        assert context[found.starts.row(0)[first] : found.ends.row(0)[last]] == answer


# Training


@pytest.mark.parametrize("kind", ["bytes", "unigram"])
def test_the_same_text_gives_the_same_vocabulary(kind):
    wanted = VocabularyConfig(kind, 400)
    assert wanted.from_texts(SENTENCES * 3) == wanted.from_texts(iter(SENTENCES * 3))


def test_bytes_know_everything():
    tokenizer = Tokenizer.train_on(["abc"], 261, kind="bytes")
    assert tokenizer.tokens(range(5)) == ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    assert tokenizer.vocabulary == 261
    for text in HARD:
        found = tokenizer.encode([text])[0]
        assert tokenizer.decode(found.ids) == text
        assert tokenizer.unknown not in found.ids


def test_unigrams_of_rare_letters_are_unknown():
    found = VocabularyConfig("unigram", 12).from_texts(["ab " * 5000 + "☃ x☃y"])
    assert (found.unknown, found.characters, found.words) == (4, 10004, 3)
    assert found.entries[:5] == ("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]")
    tokenizer = Tokenizer.train_on(["ab " * 50], 12, kind="unigram")
    assert tokenizer.unknown in tokenizer.encode(["ab ☃"])[0].ids
    assert Tokenizer.train_on(["Ab " * 50], 12, "cased", kind="unigram").casing == "cased"


@pytest.mark.parametrize(
    ("kind", "settings", "message"),
    [
        ("bytes", {"vocabulary": 260}, "a vocabulary of 260 is too small: expected at least 261"),
        ("bytes", {"casing": "uncased"}, "byte-level vocabularies are cased"),
        ("unigram", {"least": 3}, "unigram pieces are chosen by probability"),
        ("unigram", {"vocabulary": 6}, "a vocabulary of 6 is too small for the 4 letters"),
    ],
)
def test_vocabularies_that_cannot_be_learned(kind, settings, message):
    with pytest.raises(UserError, match=message):
        Tokenizer.train_on(["abcd"], kind=kind, **settings)
    for texts in ([], ["  \n "]):
        with pytest.raises(UserError, match="no text to train a tokenizer on"):
            Tokenizer.train_on(texts, kind=kind)


# Files


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"spiece.model": "x"}, r"spiece\.model is a SentencePiece model.*save_pretrained"),
        ({"vocab.json": '{"a": 0}'}, r"vocab\.json has no merges: expected merges\.txt in the same folder"),
        ({"vocab.json": "[]", "merges.txt": ""}, r"vocab\.json is not a vocabulary"),
        ({"vocab.json": "{}", "merges.txt": ""}, r"vocab\.json has an empty vocabulary"),
        ({"vocab.json": '{"a": 0, "b": 0}', "merges.txt": ""}, "gives two entries the same id"),
        ({"vocab.json": '{"a": 0}', "merges.txt": "#version: 0.2\na\n"}, r"merges\.txt, line 2: not a pair of pieces"),
        ({"vocab.json": '{"a": 0}', "merges.txt": "a b\n"}, r"merges\.txt does not belong to .*vocab\.json"),
    ],
)
def test_files_that_cannot_be_read(tmp_path, files, message):
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    with pytest.raises(UserError) as caught:
        Tokenizer.read(tmp_path)
    assert re.search(message, str(caught.value), re.DOTALL)


# The verb


@pytest.mark.parametrize("kind", ["bytes", "unigram"])
def test_train_and_show(command, tmp_path, monkeypatch, kind):
    monkeypatch.chdir(tmp_path)
    Path("text.txt").write_text("The dog walked.\n" * 30, encoding="utf-8")
    code, output, complaint = command("tokenizer", "train", "text.txt", "--out", "made", "--kind", kind)
    assert (code, complaint) == (0, "")
    assert re.search(rf"entries, {'cased' if kind == 'bytes' else 'uncased'}", output)
    code, output, _ = command("tokenizer", "show", "made", "dog The dog", "--json")
    shown = json.loads(output)
    assert (shown[0]["start"], shown[-1]["end"]) == (0, 11)
    assert 8 in [piece["start"] for piece in shown]
    code, _, complaint = command("tokenizer", "train", "text.txt", "--out", "other", "--kind", "letters")
    assert (code, complaint.splitlines()[0]) == (
        2,
        "error: unknown --kind: expected wordpiece, bytes, unigram, news, got letters",
    )
    Path("text.txt").write_text("The cat slept.\n" * 30, encoding="utf-8")
    code, _, complaint = command("tokenizer", "train", "text.txt", "--out", "made", "--kind", kind)
    assert complaint.startswith("error: made already holds a tokenizer")
