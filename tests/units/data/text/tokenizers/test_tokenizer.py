"""WordPiece against a plain reference written here and against transformers; files, words, long texts, errors."""

import json
import re
import subprocess
import sys
import unicodedata
from pathlib import Path

import numpy as np
import pytest
import tokenizers
from transformers import AutoTokenizer, BertTokenizer, BertTokenizerFast

from patchword.core.errors import UserError
from patchword.data.text.tokenizers import encoding as pieces
from patchword.data.text.tokenizers import wordpiece
from patchword.data.text.tokenizers.tokenizer import Tokenizer

SENTENCES = [
    "The quick brown fox jumps over the lazy dog, and the dog sleeps.",
    "Walking, walked and walks: the walker walked on. Don't walk! Über Straßen läuft Émile Zoë.",
    "Unaffable sentences are unbelievable; believing is seeing, 1234567890 and 12.34 and (5 + 6) * 7 = 77.",
    "我喜欢看书。北京是中国的首都",
    "Πρόοδος και οδοί, Москва слезам не верит, شكرا جزيلا, שלום עולם, हिन्दी भाषा, 한국어 日本語のテキスト",
]
HARD = [
    "",
    " ",
    " \t\n\r  ",
    "Élève naïve à São Paulo, Ångström, Zoë",
    "e\u0301le\u0300ve nai\u0308ve A\u030angstro\u0308m",  # the same letters with combining marks
    "x\u0323\u0307y\u0307\u0323 \u0301lone mark",  # two marks, in either order, and one on a space
    "我喜欢 reading 看书and学习.中文mixed混合123",
    "日本語のテキスト 한국어 \uf900\U00020000",
    "emoji 👍🏽 and 👩‍🔬 and 🏳️‍🌈 and ❤️ and walk👍walk",
    "a" * 100 + " " + "a" * 101 + " " + "walk" * 60 + " end",
    "e\u0301" * 100 + " " + "e\u0301" * 101,
    "nul\x00l bell\x07 escape\x1b[0m delete\x7f next\x85line form\x0cfeed file\x1cmark",
    "tab\tnew\nline\r\nreturn\rnbsp\u00a0thin\u2009ideographic\u3000line\u2028paragraph\u2029end",
    "zero\u200bwidth non\u200cjoiner join\u200der soft\u00adhyphen \ufeffbom left\u200emark",
    "İstanbul ISPARTA ığdır İ I ı i",
    "Straße STRASSE ẞ ß",
    "ﬁne ﬂow oﬃce ǆ Ǆ ĳ",
    "ΟΔΟΣ ΠΡΌΟΔΟΣ",
    "...!!!???---___***&&&$$$^^^```~~~ a.b.c don't U.S.A. «quoted» “curly” ‘it’s’ — … ¿qué? 、。！",
    "€ £ + = < > | ~ ^ ` $ ¢ § ± ×",
    "3.14159 1,000,000 -5 1e-10 50% #1 ½ ² ٣٤ Ⅷ",
    "שָׁלוֹם עוֹלָם شُكْرًا جزيلا mixed אבג abc",
    "हिन्दी भाषा में",
    "\ufffd lost\ufffdletter",
    "The [MASK] sat [SEP] on [CLS] the [UNK] mat [PAD].[mask]",
    "##ing ## ##walk walk##ing",
    "snow☃man ☃",
    " leading and trailing ",
    "private\ue000use",
]
CASINGS = ("uncased", "cased")


def trained(casing: str) -> Tokenizer:
    """On everything but the snowman, so that something is unknown."""
    texts = [*SENTENCES, *(text.replace("☃", " ") for text in HARD)]
    return Tokenizer.train_on(texts, vocabulary=900, casing=casing, least=3)


@pytest.fixture(scope="module", params=CASINGS)
def tokenizer(request) -> Tokenizer:
    return trained(request.param)


def entries(tokenizer: Tokenizer) -> list[str]:
    return tokenizer.tokens(range(tokenizer.vocabulary))


# The reference: slow and plain


def is_chinese(letter: str) -> bool:
    blocks = ((0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F), (0x2B740, 0x2B81F))
    more = ((0x2B820, 0x2CEAF), (0xF900, 0xFAFF), (0x2F800, 0x2FA1F))
    return any(first <= ord(letter) <= last for first, last in (*blocks, *more))


def is_mark(letter: str) -> bool:
    plain = ord(letter) < 128 and letter.isprintable() and not letter.isalnum() and letter != " "
    return plain or unicodedata.category(letter).startswith("P")


def basic_words(text: str, uncased: bool) -> list[str]:
    cleaned = ""
    for letter in text:
        if letter in "\t\n\r":
            cleaned += " "
        elif letter != "\ufffd" and not unicodedata.category(letter).startswith("C"):
            cleaned += f" {letter} " if is_chinese(letter) else letter
    if uncased:  # letter by letter: str.lower() would write a Greek s at the end of a word in its other form
        lowered = "".join(letter.lower() for letter in cleaned)
        cleaned = "".join(c for c in unicodedata.normalize("NFD", lowered) if unicodedata.category(c) != "Mn")
    return "".join(f" {letter} " if is_mark(letter) else letter for letter in cleaned).split()


def greedy(word: str, vocabulary: set[str]) -> list[str]:
    found, start = [], 0
    while start < len(word):
        prefix = "##" if start else ""
        ends = (end for end in range(len(word), start, -1) if prefix + word[start:end] in vocabulary)
        end = next(ends, None)
        if end is None or len(word) > 100:
            return ["[UNK]"]
        found.append(prefix + word[start:end])
        start = end
    return found


def reference(text: str, vocabulary: set[str], uncased: bool) -> list[str]:
    return [piece for word in basic_words(text, uncased) for piece in greedy(word, vocabulary)]


@pytest.mark.parametrize("text", HARD, ids=lambda text: ascii(text[:20]))
def test_pieces_equal_the_plain_reference(tokenizer, text):
    expected = reference(text, set(entries(tokenizer)), tokenizer.casing == "uncased")
    assert tokenizer.tokens(tokenizer.encode([text])[0].ids) == expected


def test_the_hard_list_is_hard(tokenizer):
    found = [piece for text in HARD for piece in tokenizer.tokens(tokenizer.encode([text])[0].ids)]
    assert found.count("[UNK]") >= 5
    assert sum(piece.startswith("##") for piece in found) > 100
    assert any(len(piece) > 4 and not piece.startswith("[") for piece in found)


@pytest.mark.parametrize("kind", [BertTokenizer, BertTokenizerFast])
def test_pieces_equal_those_of_transformers(tokenizer, kind):
    vocabulary = {entry: number for number, entry in enumerate(entries(tokenizer))}
    theirs = kind(vocabulary, do_lower_case=tokenizer.casing == "uncased", split_special_tokens=True)
    assert [found.ids.tolist() for found in tokenizer.encode(HARD)] == theirs(HARD, add_special_tokens=False).input_ids


# What an encoding says


def test_offsets_point_at_what_the_piece_was_made_of(tokenizer):
    for text, found in zip(HARD, tokenizer.encode(HARD), strict=True):
        assert found.ids.dtype == found.starts.dtype == found.ends.dtype == found.words.dtype == np.int32
        assert (np.diff(found.starts) >= 0).all()
        assert (np.diff(found.ends) >= 0).all()
        for piece, start, end in zip(tokenizer.tokens(found.ids), found.starts, found.ends, strict=True):
            assert 0 <= start < end <= len(text)
            if piece != "[UNK]":
                made = "".join(basic_words(text[start:end], tokenizer.casing == "uncased"))
                part_of_a_syllable = "HANGUL" in unicodedata.name(text[start], "") and piece.removeprefix("##") in made
                assert piece in (made, f"##{made}") or part_of_a_syllable


def test_pieces_of_one_word_have_one_number(tokenizer):
    for found in tokenizer.encode(HARD):
        assert set(np.diff(found.words)) <= {0, 1}
        assert found.words[:1].tolist() in ([], [0])
        assert (found.words == tokenizer.words_of(found.ids)).all()
    assert tokenizer.encode(["walked walked"])[0].words.max() == 1


def test_ids_alone_are_the_same(tokenizer):
    for found, ids in zip(tokenizer.encode(HARD), tokenizer.ids_of(HARD), strict=True):
        assert ids.tolist() == found.ids.tolist()
    assert tokenizer.encode([]) == tokenizer.ids_of([]) == []


def test_half_a_character_is_passed_over(tokenizer):
    assert tokenizer.encode(["wal\ud800k"])[0].ids.tolist() == tokenizer.encode(["walk"])[0].ids.tolist()
    assert tokenizer.encode_words([["\udfff"]])[0].ids.tolist() == [tokenizer.unknown]


def test_text_cannot_spell_a_special_token(tokenizer):
    text = "The [MASK] sat[SEP]on [CLS] [UNK] [PAD]"
    assert not set(tokenizer.specials) - {tokenizer.unknown} & set(tokenizer.encode([text])[0].ids.tolist())
    assert not {tokenizer.sep, tokenizer.cls, tokenizer.pad} & set(
        tokenizer.encode_words([text.split()])[0].ids.tolist()
    )


def test_a_mask_is_kept_whole_when_asked_for(tokenizer):
    text = "the [MASK] [SEP] dog[MASK]."
    found = tokenizer.encode_masked([text])[0]
    places = np.flatnonzero(found.ids == tokenizer.mask)
    assert [text[found.starts[place] : found.ends[place]] for place in places] == ["[MASK]", "[MASK]"]
    assert not {tokenizer.sep, tokenizer.cls} & set(found.ids.tolist())
    without = tokenizer.encode(["the  [SEP] dog ."])[0].ids.tolist()
    assert [number for number in found.ids.tolist() if number != tokenizer.mask] == without
    assert tokenizer.mask not in tokenizer.encode([text])[0].ids  # and the other one is as it was


def test_numbers_and_names_of_special_tokens(tokenizer):
    assert entries(tokenizer)[:5] == ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    found = (tokenizer.pad, tokenizer.unknown, tokenizer.cls, tokenizer.sep, tokenizer.mask)
    assert found == tokenizer.specials == (0, 1, 2, 3, 4)
    assert tokenizer.require_mask() == tokenizer.id_of("[MASK]") == 4
    assert tokenizer.id_of("no such entry") is None


def test_pieces_that_continue_a_word(tokenizer):
    assert tokenizer.continues.shape == (tokenizer.vocabulary,)
    assert [entry.startswith("##") for entry in entries(tokenizer)] == tokenizer.continues.tolist()
    assert tokenizer.continues.any()


def test_text_comes_back_without_special_tokens(tokenizer):
    ids = [tokenizer.cls, *tokenizer.encode(["the dog walked, and walked."])[0].ids, tokenizer.sep, tokenizer.pad]
    assert tokenizer.decode(np.array(ids)) == "the dog walked, and walked."


# Words given one by one


def test_every_word_has_a_piece(tokenizer):
    sentence = ["Walking", "\x00", "don't", "", "\u200b", "我喜欢", "a b", "☃", "."]
    found = tokenizer.encode_words([sentence, [], ["\x07"]])
    for words, encoding in zip((sentence, [], ["\x07"]), found, strict=True):
        assert sorted(set(encoding.words.tolist())) == list(range(len(words)))
        assert (np.diff(encoding.words) >= 0).all()
        for number, word in enumerate(words):
            chosen = encoding.words == number
            ids = tokenizer.encode([word])[0].ids.tolist() or [tokenizer.unknown]
            assert encoding.ids[chosen].tolist() == ids
            assert (encoding.ends[chosen] <= len(word)).all()


# Long texts


@pytest.mark.parametrize("limit", [1, 2, 7, 50])
def test_a_text_in_parts_gives_the_pieces_of_the_whole(tokenizer, monkeypatch, limit):
    text = "\n".join([*SENTENCES, *HARD, *(first + second for first in HARD for second in SENTENCES)])
    whole, masked = tokenizer.encode([text])[0], tokenizer.encode_masked([text])[0]
    monkeypatch.setattr(pieces.split_text, "__defaults__", (limit,))
    monkeypatch.setattr(pieces, "_TOGETHER", 1000)
    assert len(pieces.split_text(text, pieces.BERT_BREAK)) > 20
    for before, after in ((whole, tokenizer.encode([text])[0]), (masked, tokenizer.encode_masked([text])[0])):
        for name in ("ids", "starts", "ends", "words"):
            assert getattr(before, name).tolist() == getattr(after, name).tolist()
    assert (tokenizer.ids_of([text])[0] == whole.ids).all()


def test_parts_are_the_text_and_cut_no_word():
    text = "one two, three four"
    parts = pieces.split_text(text, pieces.BERT_BREAK, limit=5)
    assert parts == [(0, "one two"), (7, ", three"), (14, " four")]
    assert pieces.split_text("x" * 50, pieces.BERT_BREAK, limit=5) == [(0, "x" * 50)]
    assert pieces.split_text("", pieces.BERT_BREAK) == [(0, "")]


def test_chinese_without_a_space_is_cut_too(tokenizer, monkeypatch):
    asked = []
    whole = tokenizer.encode(["我喜欢看书" * 20])[0]
    library, monkeyed = tokenizer._library, pieces.split_text
    monkeypatch.setattr(pieces, "split_text", lambda text, place: asked.append(monkeyed(text, place, 10)) or asked[-1])
    assert (pieces.encoded(library, ["我喜欢看书" * 20], tokenizer._break)[0].ids == whole.ids).all()
    assert len(asked[0]) == 10


# Training


def test_the_same_text_gives_the_same_vocabulary():
    texts = [*SENTENCES, *HARD]
    once = wordpiece.learn(texts, 600, "uncased", 1)
    assert wordpiece.learn(iter(texts), 600, "uncased", 1) == once
    assert len(once.entries) == len(set(once.entries)) == 600
    fetch = "from patchword.data.text.tokenizers.wordpiece import learn"
    script = f"{fetch}; print(ascii(learn({texts!a}, 600, 'uncased', 1).entries))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ascii(once.entries)  # another process, another seed for its hashes


def test_frequent_pieces_are_merged_first():
    learned = wordpiece.learn(["abab " * 100 + "cd " * 10 + "ef"], 100, "uncased", 2)
    letters = ["a", "b", "c", "d", "e", "f", "##a", "##b", "##d", "##f"]
    assert learned.entries == (*wordpiece.SPECIALS, *letters, "ab", "##ab", "abab", "cd")
    assert (learned.words, learned.characters, learned.unknown) == (3, 422, 0)


def test_a_piece_must_be_seen_often_enough():
    text = ["walking walking walking swimming"]
    assert "walking" in wordpiece.learn(text, 100, "uncased", 3).entries
    assert "swimming" not in wordpiece.learn(text, 100, "uncased", 3).entries
    assert "swimming" in wordpiece.learn(text, 100, "uncased", 1).entries


def test_rare_letters_have_no_entry():
    learned = wordpiece.learn(["ab " * 5000 + "☃ x☃y"], 30, "uncased")
    assert "ab" in learned.entries
    assert (learned.unknown, learned.characters) == (0, 10004)
    learned = wordpiece.learn(["ab " * 5000 + "☃ x☃y"], 12, "uncased")
    assert not {"☃", "x", "y"} & set(learned.entries)
    assert learned.unknown == 4


def test_training_counts_what_it_reads(tmp_path):
    plain, lines = tmp_path / "plain.txt", tmp_path / "lines.jsonl"
    plain.write_text("The dog walked.\n" * 20_000, encoding="utf-8")
    lines.write_text("".join(json.dumps({"text": text}) + "\n" for text in SENTENCES * 200), encoding="utf-8")
    output = []
    found = Tokenizer.train([plain, lines], 300, "cased", 1, progress=lambda done, total: output.append((done, total)))
    size = plain.stat().st_size + lines.stat().st_size
    assert output[-1] == (size, size)
    assert len(output) >= 2
    assert [done for done, _ in output] == sorted(done for done, _ in output)
    assert {"walked", "我", "喜"} <= set(entries(found))
    assert found.casing == "cased"


@pytest.mark.parametrize("texts", [[], [""], ["  \n "], ["\x00\x07"]])
def test_nothing_to_train_on(texts):
    with pytest.raises(UserError, match="no text to train a tokenizer on"):
        wordpiece.learn(texts, 100, "uncased")


def test_a_vocabulary_smaller_than_the_alphabet():
    with pytest.raises(UserError, match=r"of 10 is too small for the 4 letters of this text: expected at least 12"):
        wordpiece.learn(["abcd"], 10, "uncased")
    assert len(wordpiece.learn(["abcd"], 12, "uncased").entries) == 12


def test_broken_training_files_are_named(tmp_path):
    (tmp_path / "broken.txt").write_bytes(b"fine\nnot \xff fine\n")
    with pytest.raises(UserError, match=r"broken\.txt, line 2, byte 5 of the line: not UTF-8"):
        Tokenizer.train([tmp_path / "broken.txt"])
    (tmp_path / "no.jsonl").write_text('{"text": "fine"}\n{"body": "x"}\n', encoding="utf-8")
    with pytest.raises(UserError, match=r"no\.jsonl, line 2"):
        Tokenizer.train([tmp_path / "no.jsonl"])
    with pytest.raises(UserError, match="there is no file or folder"):
        Tokenizer.train([tmp_path / "absent.txt"])


# Files


def same(first: Tokenizer, second: Tokenizer) -> bool:
    pairs = zip(first.encode(HARD), second.encode(HARD), strict=True)
    equal = all((ours.ids == theirs.ids).all() for ours, theirs in pairs)
    return equal and first.fingerprint() == second.fingerprint() and first.specials == second.specials


def test_a_saved_tokenizer_comes_back(tokenizer, tmp_path):
    tokenizer.save(tmp_path / "new")
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == [
        "tokenizer.json",
        "tokenizer_config.json",
        "vocab.txt",
    ]
    assert same(Tokenizer.read(tmp_path / "new"), tokenizer)
    assert same(Tokenizer.read(tmp_path / "new" / "vocab.txt"), tokenizer)
    (tmp_path / "new" / "tokenizer.json").rename(tmp_path / "alone.json")
    assert same(Tokenizer.read(tmp_path / "alone.json"), tokenizer)
    assert same(Tokenizer.read(tmp_path / "new"), tokenizer)  # vocab.txt and the settings
    (tmp_path / "new" / "tokenizer_config.json").unlink()
    assert same(Tokenizer.read(tmp_path / "new"), tokenizer)  # judged by the capitals of its entries


def test_transformers_reads_what_we_save(tokenizer, tmp_path):
    tokenizer.save(tmp_path)
    theirs = AutoTokenizer.from_pretrained(tmp_path)
    text = "The Dog walked."
    ids = tokenizer.encode([text])[0].ids.tolist()
    assert theirs(text).input_ids == [tokenizer.cls, *ids, tokenizer.sep]
    assert theirs(text, text).token_type_ids == [0] * (len(ids) + 2) + [1] * (len(ids) + 1)
    assert theirs.mask_token_id == tokenizer.mask


def test_settings_of_a_folder_are_obeyed(tmp_path):
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "été", "ete", "中文", "中", "文", "Dog", "dog"]
    (tmp_path / "vocab.txt").write_text("\n".join(words), encoding="utf-8")

    def found(**settings: object) -> list[str]:
        (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
        tokenizer = Tokenizer.read(tmp_path)
        return tokenizer.tokens(tokenizer.encode(["Dog été 中文"])[0].ids)

    assert found() == ["Dog", "été", "中", "文"]  # a capital among the entries
    assert found(do_lower_case=True) == ["dog", "ete", "中", "文"]
    assert found(do_lower_case=True, strip_accents=False) == ["dog", "été", "中", "文"]
    assert found(do_lower_case=False, strip_accents=True) == ["Dog", "ete", "中", "文"]
    assert found(do_lower_case=False, tokenize_chinese_chars=False) == ["Dog", "été", "中文"]
    assert Tokenizer.read(tmp_path, casing="uncased").casing == "uncased"


def test_special_tokens_of_other_names(tmp_path):
    words = ["<pad>", "<unk>", "<start>", "<end>", "<hole>", "the", "dog"]
    (tmp_path / "vocab.txt").write_text("\n".join(words) + "\n", encoding="utf-8")
    names = {"cls_token": "<start>", "sep_token": {"content": "<end>"}, "mask_token": "<hole>"}
    names |= {"pad_token": "<pad>", "unk_token": "<unk>"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(names), encoding="utf-8")
    found = Tokenizer.read(tmp_path)
    assert (found.pad, found.unknown, found.cls, found.sep, found.mask) == (0, 1, 2, 3, 4)
    assert found.encode_masked(["the <hole> <end>"])[0].ids.tolist() == [5, 4, 1, 1, 1]


def test_truncation_and_padding_of_a_file_are_switched_off(tokenizer, tmp_path):
    tokenizer.save(tmp_path)
    library = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    library.enable_truncation(4)
    library.enable_padding(length=9)
    library.save(str(tmp_path / "tokenizer.json"))
    assert same(Tokenizer.read(tmp_path), tokenizer)


def test_a_file_that_does_not_mark_its_special_tokens(tokenizer, tmp_path):
    tokenizer.save(tmp_path)
    path = tmp_path / "tokenizer.json"
    settings = json.loads(path.read_text(encoding="utf-8"))
    for added in ([], [token | {"special": False} for token in settings["added_tokens"]]):
        path.write_text(json.dumps(settings | {"added_tokens": added}), encoding="utf-8")
        found = Tokenizer.read(path)
        assert found.encode(["[SEP]"])[0].ids.tolist() == tokenizer.encode(["[SEP]"])[0].ids.tolist()
        assert found.encode_masked(["[MASK]"])[0].ids.tolist() == [tokenizer.mask]


def test_a_byte_level_tokenizer_works(tmp_path, monkeypatch):
    library = tokenizers.ByteLevelBPETokenizer()
    library.train_from_iterator(
        SENTENCES, 400, show_progress=False, special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    )
    library.save(str(tmp_path / "tokenizer.json"))
    found, text = Tokenizer.read(tmp_path), "The quick  brown\nfox, \n and dogs </s> walk  on."
    assert (found.cls, found.pad, found.sep, found.unknown, found.mask, found.casing) == (0, 1, 2, 3, 4, "cased")
    whole = found.encode([text])[0]
    assert found.decode(whole.ids) == text
    assert not set(whole.ids.tolist()) & set(found.specials)
    monkeypatch.setattr(pieces.split_text, "__defaults__", (1,))
    parts = found.encode([text])[0]
    assert (parts.ids == whole.ids).all()
    assert (parts.starts == whole.starts).all()
    assert not found.continues[[found.cls, found.sep, found.pad, found.mask]].any()
    found.save(tmp_path / "again")
    assert not (tmp_path / "again" / "vocab.txt").exists()
    assert same(Tokenizer.read(tmp_path / "again"), found)


def test_a_fingerprint_changes_with_the_rules_and_the_entries(tmp_path):
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "dog", "cat"]
    prints = set()
    for casing in CASINGS:
        for listed in (words, words[:4] + words[:3:-1], [*words, "[MASK]"]):
            prints.add(Tokenizer(wordpiece.wordpiece(listed, casing)).fingerprint())
    prints.add(Tokenizer(wordpiece.wordpiece(words, "uncased", chinese=False)).fingerprint())
    assert len(prints) == 7


BASE = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "dog"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", r"vocab\.txt is empty: expected a vocabulary"),
        (b"[PAD]\n[UNK]\n[CLS]\n[SEP]\nd\xffg\n", r"vocab\.txt, line 5, byte 2: this is not UTF-8"),
        ("\n".join([*BASE, "cat", "dog"]).encode(), r"vocab\.txt, line 7: 'dog' is a duplicate of line 5"),
        ("\n".join([*BASE, "", "cat"]).encode(), r"vocab\.txt, line 6: no entry"),
        *(
            ("\n".join(entry for entry in BASE if entry != name).encode(), rf"vocab\.txt has no {re.escape(name)}")
            for name in BASE[:4]
        ),
    ],
)
def test_a_vocabulary_that_cannot_be_used(tmp_path, content, message):
    (tmp_path / "vocab.txt").write_bytes(content)
    with pytest.raises(UserError, match=message):
        Tokenizer.read(tmp_path / "vocab.txt")


@pytest.mark.parametrize("ending", ["", "\n", "\r\n"])
def test_line_ends_are_no_part_of_an_entry(tmp_path, ending):
    (tmp_path / "vocab.txt").write_text((ending or "\n").join(BASE) + ending, encoding="utf-8", newline="")
    found = Tokenizer.read(tmp_path)
    assert found.vocabulary == 5
    assert found.encode(["dog"])[0].ids.tolist() == [4]


def test_a_mask_is_asked_for_and_missing(tmp_path):
    (tmp_path / "vocab.txt").write_text("\n".join(BASE), encoding="utf-8")
    found = Tokenizer.read(tmp_path)
    assert found.mask is None
    for ask in (found.require_mask, lambda: found.encode_masked(["x"])):
        with pytest.raises(UserError, match=r"has no \[MASK\]"):
            ask()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("tokenizer.json", "{", r"tokenizer\.json is not a tokenizer"),
        ("tokenizer.json", '{"model": {"type": "Magic"}}', r"tokenizer\.json is not a tokenizer"),
        ("tokenizer_config.json", "{", r"cannot read .*tokenizer_config\.json"),
        ("tokenizer_config.json", "[1]", r"tokenizer_config\.json has no settings"),
    ],
)
def test_settings_that_cannot_be_read(tmp_path, name, content, message):
    (tmp_path / "vocab.txt").write_text("\n".join(BASE), encoding="utf-8")
    (tmp_path / name).write_text(content, encoding="utf-8")
    with pytest.raises(UserError, match=message):
        Tokenizer.read(tmp_path)


def test_an_empty_tokenizer(tmp_path):
    tokenizers.Tokenizer(tokenizers.models.WordPiece({}, unk_token="[UNK]")).save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(UserError, match="has an empty vocabulary"):
        Tokenizer.read(tmp_path)


def test_a_path_without_a_tokenizer(tmp_path):
    with pytest.raises(UserError, match=r"has no tokenizer: expected tokenizer\.json, vocab\.txt, or vocab\.json with"):
        Tokenizer.read(tmp_path)
    with pytest.raises(UserError, match="there is no file"):
        Tokenizer.read(tmp_path / "vocab.txt")


def test_a_file_has_its_own_casing(tokenizer, tmp_path):
    tokenizer.save(tmp_path)
    other = "cased" if tokenizer.casing == "uncased" else "uncased"
    with pytest.raises(UserError, match=f"has another casing: expected {other}, got {tokenizer.casing}"):
        Tokenizer.read(tmp_path, casing=other)


# The verbs


def test_train_and_show(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("text.txt").write_text("The [bold]Dog[/bold] walked.\n" * 3, encoding="utf-8")
    code, output, complaint = command("tokenizer", "train", "text.txt", "--out", "made", "--vocabulary", 80, "--cased")
    assert (code, complaint) == (0, "")
    assert re.search(r"vocabulary +\d+ entries, cased", output)
    assert "0.0000% of the characters are too rare" in output
    assert "The [ bold ] Dog [ / bold ] walked ." in output
    code, output, _ = command("tokenizer", "show", "made", "[bold] Dog ☃")
    assert code == 0
    assert re.search(r"│ Dog +│ \d+ +│ 7 +│ 10 │ Dog +│", output)
    assert re.search(r"│ \[UNK\] +│ 1 +│ 11 +│ 12 │ ☃", output)
    code, output, _ = command("tokenizer", "show", "made", "Dog", "--json")
    assert json.loads(output)[0] | {"id": 0} == {"piece": "Dog", "id": 0, "start": 0, "end": 3}


def test_train_refuses_before_it_works(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("text.txt").write_text("The dog walked.\n", encoding="utf-8")
    Path("empty.txt").write_text("\n", encoding="utf-8")
    Path("full").mkdir()
    Path("full/vocab.txt").write_text("x", encoding="utf-8")
    for words, message in (
        (("text.txt", "--out", "full"), "full already holds a tokenizer: got vocab.txt"),
        (("text.txt", "--out", "empty.txt/below"), "cannot write into empty.txt/below"),
        (("text.txt", "--out", "made", "--vocabulary", 9), "a vocabulary of 9 is too small"),
        (("absent.txt", "--out", "made"), "there is no file or folder absent.txt"),
        (("empty.txt", "--out", "made"), "no text to train a tokenizer on"),
    ):
        code, _, complaint = command("tokenizer", "train", *words)
        assert code == 2
        assert complaint.startswith(f"error: {message}")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty.txt", "full", "text.txt"]


def test_a_command_that_is_repeated_writes_nothing(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("text.txt").write_text("The dog walked.\n" * 3, encoding="utf-8")
    words = ("tokenizer", "train", "text.txt", "--out", "made", "--vocabulary")
    assert command(*words, 40)[0] == 0
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in Path("made").iterdir()}
    code, output, complaint = command(*words, 40)
    assert (code, complaint) == (0, "")
    assert "made has this tokenizer already; nothing was written" in output
    for more in ((20,), (40, "--cased")):
        assert "made already holds a tokenizer" in command(*words, *more)[2]
    Path("text.txt").write_text("A cat ran.\n" * 3, encoding="utf-8")
    assert "made already holds a tokenizer: got another tokenizer" in command(*words, 40)[2]
    assert {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in Path("made").iterdir()} == before


def test_a_table_is_not_a_tokenizer(tmp_path):
    (tmp_path / "a.csv").write_text("text,label\n")
    with pytest.raises(UserError, match=r"a\.csv is not a tokenizer: expected a folder, tokenizer\.json, vocab\.txt"):
        Tokenizer.read(tmp_path / "a.csv")
