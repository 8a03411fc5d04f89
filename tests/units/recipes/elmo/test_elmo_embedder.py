"""An ELMo as an embedder: `similar`, `embed` and a pipeline give the states of the model that is called directly."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from safetensors.numpy import load_file
from torch import Tensor

import patchword
from patchword.core.errors import UserError
from patchword.data.text.corpus.word_counts import word_splitter
from patchword.data.text.corpus.word_spans import located_words
from patchword.data.text.tokenizers.characters import CharacterReader
from patchword.recipes import find_recipe
from patchword.recipes.text.inference.opening import open_embedder
from support.helpers import randomise
from support.tiny_texts import refusal

RIVER, MONEY = "They sat on the bank of the river.", "He works in a bank, not in the Bank's."
SIZES = {"width": 8, "cell": 16, "filters": ((1, 4), (2, 4)), "highways": 1, "character_width": 6}


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def saved():
    """Writes the folder of a tiny ELMo; with a recipe, which says how it cuts, if it is a run."""

    def write(cut: str = "") -> Path:
        patchword.save(randomise(patchword.create("elmo-small", **SIZES)), "elmo")
        if cut:
            recipe = find_recipe("elmo-pretrain").with_settings([f"cut={cut}"])
            Path("elmo/recipe.yaml").write_text(recipe.to_yaml(), encoding="utf-8")
        return Path("elmo")

    return write


@pytest.fixture
def elmo(saved):
    return saved()


def states_of(folder: Path, words: list[str]) -> Tensor:
    """(layers, words, width) of one sentence, without batches or padded sentences"""
    with torch.no_grad():
        return torch.stack(patchword.load(folder).states(CharacterReader()([words])))[:, 0]


def means(folder: Path, layer: int, cut: str = "marks", length: int | None = None) -> np.ndarray:
    split = word_splitter(cut)
    return torch.stack([states_of(folder, split(text)[:length])[layer].mean(0) for text in (RIVER, MONEY)]).numpy()


# The places of words


@pytest.mark.parametrize(
    ("cut", "text", "expected"),
    [
        ("marks", "Ann's hat, gone", ["Ann's", "hat", ",", "gone"]),
        ("spaces", " a  b.\u00a0c ", ["a", "b.", "c"]),
        ("words", "ΣΑΣ: THE İ, i-Hat", ["ΣΑΣ", "THE", "İ", "i", "Hat"]),  # İ has two small letters
    ],
)
def test_located_words_are_those_of_the_cut(cut, text, expected):
    words, spans = located_words(text, cut)
    assert words == word_splitter(cut)(text)
    assert [text[start:end] for start, end in spans] == expected


# similar


def test_context_changes_the_lstm_layers_only(elmo):
    embedder = open_embedder(str(elmo), "cpu")
    river, money = (
        embedder.word_vectors(text, [place], range(3))[place]
        for text in (RIVER, MONEY)
        for place in [(text.index("bank"), text.index("bank") + 4)]
    )
    split = word_splitter("marks")
    torch.testing.assert_close(river, states_of(elmo, split(RIVER))[:, 4])
    torch.testing.assert_close(money, states_of(elmo, split(MONEY))[:, 4])
    torch.testing.assert_close(river[0], money[0])
    for layer in (1, 2):
        assert F.cosine_similarity(river[layer], money[layer], dim=0) < 0.99


def test_similar_compares_the_states_of_whole_words(command, elmo):
    sentences = [RIVER, "The bank, and the Bank; no bank's."]
    code, output, _ = command("similar", elmo, "bank", *sentences, "--layer", 1, "--layer", -1, "--json")
    found = json.loads(output)
    assert (code, list(found["layers"])) == (0, ["0", "1", "2"])
    assert [(use["text"], use["start"]) for use in found["uses"]] == [
        (RIVER, 16),
        (sentences[1], 4),
        (sentences[1], 18),
    ]
    states = [states_of(elmo, word_splitter("marks")(text)) for text in sentences]
    vectors = torch.stack([states[0][:, 4], states[1][:, 1], states[1][:, 5]], 1)
    unit = F.normalize(vectors, dim=-1)
    expected = (unit @ unit.transpose(1, 2)).numpy()
    assert np.abs(np.array(list(found["layers"].values())) - expected).max() < 1e-5


def test_similar_cuts_as_the_recipe_of_the_run(command, saved):
    run = saved("spaces")
    output = refusal(command, "similar", run, "bank", "a bank there", "The bank.")
    assert "expected the word 'bank', got the model reads it inside a longer word" in output
    code, output, _ = command("similar", run, "bank", "a bank there", "The bank is.", "--json", "--layer", 0)
    assert (code, json.loads(output)["layers"]["0"]) == (0, [[1, 1], [1, 1]])
    run = saved("words")
    code, output, _ = command("similar", run, "bank", "a bank there", "BANK", "--json", "--layer", 0)
    assert (code, json.loads(output)["layers"]["0"]) == (0, [[1, 1], [1, 1]])


# embed


@pytest.mark.parametrize(("words", "layer"), [((), 2), (("--layer", 0), 0), (("--layer", -2), 1)])
def test_embed_is_the_mean_of_the_words_of_a_layer(command, elmo, words, layer):
    Path("a.txt").write_text(f"{RIVER}\n{MONEY}\n", encoding="utf-8")
    code, output, _ = command("embed", elmo, "a.txt", "--out", "v.npy", *words)
    assert (code, output.strip()) == (0, f"2 x 16 in v.npy: mean of all words, layer {layer} of 2")
    assert np.abs(np.load("v.npy") - means(elmo, layer)).max() < 1e-5


def test_embed_cuts_as_the_recipe_of_the_run(command, saved):
    run = saved("words")
    code, _, _ = command("embed", run, RIVER, MONEY, "--out", "v.npy", "--normalize")
    expected = means(run, 2, "words")
    assert code == 0
    assert np.abs(np.load("v.npy") - expected / np.linalg.norm(expected, axis=1, keepdims=True)).max() < 1e-5
    _, output, _ = command("embed", run, "...", "a", "--json")  # a text without a word
    first, second = (json.loads(line)["vector"] for line in output.splitlines())
    assert (set(first), 0.0 in second) == ({0.0}, False)


def test_embed_gives_each_word_its_vector(command, elmo):
    words = ("embed", elmo, RIVER, MONEY, "--pool", "none", "--layer", 1, "--length", 9)
    code, output, complaint = command(*words, "--out", "v.safetensors")
    assert (code, output.split(": ")[1].strip()) == (0, "one vector per word, layer 1 of 2, at most 9 words")
    assert "1 text is longer than 9 words and truncated" in complaint
    found, split = load_file("v.safetensors"), word_splitter("marks")
    assert found["offsets"].tolist() == [0, 9, 18]
    expected = torch.cat([states_of(elmo, split(text)[:9])[1] for text in (RIVER, MONEY)]).numpy()
    assert np.abs(found["vectors"] - expected).max() < 1e-5
    _, output, _ = command(*words, "--json")
    assert json.loads(output.splitlines()[1])["tokens"] == split(MONEY)[:9]


def test_what_an_elmo_refuses(command, elmo):
    for words, message in (
        (("--layer", 3), "expected 0 (the embeddings) to 2"),
        (("--pool", "pooler"), "has no [CLS] and no pooler: expected --pool mean"),
        (("--length", 0), "expected 1 word or more"),
    ):
        assert message in refusal(command, "embed", elmo, RIVER, "--json", *words)


# A pipeline


def test_a_pipeline_embeds(elmo):
    p = patchword.pipeline(elmo, device="cpu")
    assert np.abs(p.embed([RIVER, MONEY], layer=1) - means(elmo, 1)).max() < 1e-5
    with pytest.warns(UserWarning, match="1 text is longer than 9 words and truncated"):
        assert np.abs(p.embed([RIVER, MONEY], length=9) - means(elmo, 2, length=9)).max() < 1e-5
    assert p.embed(RIVER).shape == (1, 16)  # without a warning, which pytest takes for an error
    assert p.cost(12).macs > 0
    assert repr(p).endswith("p.embed, p.cost)")


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda p: p("a"), r"cannot predict: got 'elmo-small' with the head 'tokens'\nit can do: p.embed, p.cost"),
        (lambda p: p.attention("a"), "cannot show attention"),
        (lambda p: p.tokenizer, r"reads the characters of words: expected p.embed\(texts\)"),
        (lambda p: p.transform, r"expected p.embed\(texts\)"),
        (lambda p: p.embed("a", pool="first"), "expected pool mean"),
        (lambda p: patchword.pipeline(p.model, tokenizer="folder"), "expected no tokenizer"),
    ],
)
def test_what_a_pipeline_of_an_elmo_cannot_do(elmo, ask, message):
    with pytest.raises(UserError, match=message):
        ask(patchword.pipeline(elmo, device="cpu"))
