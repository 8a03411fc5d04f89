"""Models of words as characters (ELMo) or as vectors of other models: one file for any batch and any length."""

import json
from dataclasses import replace

import pytest
import torch

import patchword
from patchword.data.text.tokenizers import characters as reading
from patchword.data.text.tokenizers.characters import CharacterReader
from patchword.layers.text.frozen_vectors import Frozen
from patchword.weights.export.export import export
from patchword.weights.export.inputs.choice import inputs_of
from support.helpers import difference, pixels, randomise

pytestmark = pytest.mark.usefixtures("quick_onnx")
SIZES = {"characters": 12, "character_width": 5, "filters": ((1, 4), (3, 8)), "width": 16, "cell": 24}
SENTENCES = [["a", "cat", "sat", "on", "it"], ["why"], ["the", "longest", "sentence", "of", "all", "ünïcödéd"]]


def elmo(**overrides: object):
    """The recurrent matrices are small: with large ones, rounding alone changes the outputs."""
    sizes = {**SIZES, "vocabulary": 31, "classes": 7, "dropout": 0.0, "head_dropout": 0.0, **overrides}
    model = randomise(patchword.create("elmo-small", **sizes)).eval()
    with torch.no_grad():
        for weights in model.encoder.parameters():
            weights.mul_(0.3)
    return model


def over_vectors(**overrides: object):
    sizes = {"sources": ((2, 6), (1, 5)), "width": 12, "classes": 7, "dropout": 0.0, **overrides}
    model = randomise(patchword.create("over-vectors", **sizes)).eval()
    model.card = replace(model.card, labels=tuple("abcdefg"))
    return model


def run(path, *inputs: torch.Tensor) -> torch.Tensor:
    """Run a file without any code of ours."""
    if path.suffix == ".pt2":
        return torch.export.load(path).module()(*inputs)
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    fed = {given.name: part.numpy() for given, part in zip(session.get_inputs(), inputs, strict=True)}
    return torch.from_numpy(session.run(["scores"], fed)[0])


def mask_of(text) -> torch.Tensor:
    return torch.ones(text.ids.shape[:2], dtype=torch.int64) if text.mask is None else text.mask.long()


@pytest.mark.parametrize(("head", "suffix"), [("words", "onnx"), ("classes", "pt2")])
@torch.no_grad()
def test_an_elmo_answers_the_same(head, suffix, tmp_path):
    model = elmo(head=head, depth=2 if suffix == "onnx" else 1)
    done = export(model, tmp_path / f"model.{suffix}")
    assert done.difference < 1e-5
    assert "or fewer, if every word ends in 3 or more of padding" in done.notes["characters"]
    for sentences in (SENTENCES, [["so"]], [[]]):
        text, short = (CharacterReader(12, spare)(sentences) for spare in (12, 3))
        expected = model(text)
        expected = torch.stack(expected, dim=1) if head == "words" else expected
        for one in (text, short):
            assert difference(run(done.path, one.ids, mask_of(one)), expected) < 1e-5
    assert short.ids.shape[2] < text.ids.shape[2] == 12


def test_the_notes_of_an_elmo_say_how_words_become_characters():
    """The numbers in the notes make the ids that the reader of the library makes."""
    notes = inputs_of(elmo().card).notes()
    begin, end, fill = reading.WORD_BEGIN, reading.WORD_END, reading.FILL
    assert f"A word: {begin}, the bytes of its UTF-8 form plus 1, {end}, then {fill} as padding" in notes["input"]
    assert f"begins with the word {begin}, {reading.SENTENCE_BEGIN}, {end}" in notes["words"]
    assert f"ends with the word {begin}, {reading.SENTENCE_END}, {end}" in notes["words"]
    assert notes["characters"].startswith("12 per word, so only the first 10 bytes of a longer word; or fewer, if")

    def spelled(symbols: list[int]) -> list[int]:
        return [begin, *symbols[:10], end, *[fill] * 12][:12]

    words = [[byte + 1 for byte in word.encode()] for word in SENTENCES[2]]
    by_hand = [spelled(one) for one in ([reading.SENTENCE_BEGIN], *words, [reading.SENTENCE_END])]
    text = CharacterReader(limit=12, spare=3)(SENTENCES)
    assert text.ids[2].tolist() == by_hand
    assert not text.ids[1, 3:].any()
    assert mask_of(text)[1].tolist() == [1, 1, 1, 0, 0, 0, 0, 0]


@pytest.mark.parametrize(
    ("overrides", "suffix"),
    [({"depth": 1}, "onnx"), ({"head": "classes"}, "pt2"), ({"depth": 0}, "pt2")],
    ids=["tags", "classes", "no context"],
)
@torch.no_grad()
def test_a_model_over_vectors_answers_the_same(overrides, suffix, tmp_path):
    model = over_vectors(**overrides)
    done = export(model, tmp_path / f"model.{suffix}")
    assert done.difference < 1e-5
    assert "Per word 2 layers of 6 channels, lowest first, then 5 channels; zeros" in done.notes["input"]
    assert json.loads(done.notes["labels"]) == list("abcdefg")
    for lengths in ((9, 4, 1), (1,), (30, 30)):
        mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
        vectors = pixels(len(lengths), max(lengths), 17)
        assert difference(run(done.path, vectors, mask.long()), model(Frozen(vectors, mask))) < 1e-5


def test_the_verb_says_what_the_files_read(command, tmp_path):
    for model, expected in (
        (
            elmo(head="tags", depth=1),
            ["characters, mask: int64 (2, words, characters), (2, words)", "float32 (2, words, 7)"],
        ),
        (over_vectors(), ["vectors, mask: float32 (2, words, 17), int64 (2, words)", "float32 (2, words, 7)"]),
    ):
        folder, words = patchword.save(model, tmp_path / model.card.model), ("--torch", tmp_path / "model.pt2")
        code, printed, complaint = command("export", folder, *words, "--batch-size", 2)
        assert (code, complaint) == (0, "")
        assert all(line in printed for line in (*expected, "checked  torch.export.load"))
        code, _, complaint = command("export", folder, *words, "--tokens", 5)
        assert (code, "for text models" in complaint) == (2, True)
