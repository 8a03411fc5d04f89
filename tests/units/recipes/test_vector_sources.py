"""Sources of vectors: what each answers for a word, against the same computed one sentence at a time."""

import numpy as np
import pytest
import torch

import patchword
from patchword.core.errors import UserError
from patchword.core.text import Text
from patchword.data.text.batching.batches import BatchFormat
from patchword.data.text.tokenizers.tokenizer import Tokenizer
from patchword.recipes.elmo.run import vectors as elmo_vectors
from patchword.recipes.vectors.sources import Random, Table, listed_sources, random_of
from patchword.recipes.vectors.sources_models import Bert, Spelled, Translation, open_source, open_sources
from patchword.recipes.vectors.vector_cache import VectorCache, check_size, fill
from patchword.recipes.vectors.words import WordVectors
from support.tiny_texts import vocabulary_of

CPU = torch.device("cpu")
SENTENCES = [["walking", "is", "good"], ["good"], ["is", "walking", "walking", "good", "is"]]
PIECES = ["walk", "##ing", "is", "good", "bad"]
TINY = {"depth": 2, "width": 16, "heads": 2, "hidden": 32}


@pytest.fixture
def bert(tmp_path):
    tokenizer = vocabulary_of(PIECES, tmp_path / "bert")
    model = patchword.create("bert-tiny", **TINY, vocabulary=tokenizer.vocabulary, max_length=32).eval()
    torch.nn.init.normal_(model.embedding.words.weight)
    patchword.save(model, tmp_path / "bert")
    return tmp_path / "bert"


@pytest.fixture
def translation(tmp_path):
    tokenizer = Tokenizer.train_on(["walking is good", "is it bad", "walking"] * 3, 300, kind="bytes")
    sizes = {"width": 16, "vocabulary": tokenizer.vocabulary, "max_length": 40}
    model = patchword.create("lstm-translation-small", **sizes).eval()
    tokenizer.save(tmp_path / "translation")
    patchword.save(model, tmp_path / "translation")
    return tmp_path / "translation"


@pytest.fixture
def elmo(tmp_path):
    sizes = {"width": 8, "cell": 16, "filters": ((1, 4), (2, 4)), "highways": 1}
    patchword.save(patchword.create("elmo-small", **sizes), tmp_path / "elmo")
    return tmp_path / "elmo"


def test_a_random_vector_belongs_to_its_word():
    first, again = (Random(8).vectors([["a", "b"], ["b"]]) for _ in range(2))
    assert first[0].shape == (1, 2, 8)
    assert torch.equal(first[0][:, 1], first[1][:, 0])
    assert not torch.equal(first[0][:, 0], first[0][:, 1])
    assert torch.equal(first[0], again[0])


@pytest.mark.parametrize("name", ["random:", "random:0", "random:wide"])
def test_a_width_of_random_vectors_that_is_none(name):
    assert random_of("random:7").width == 7
    assert random_of("randomised") is None
    with pytest.raises(UserError, match="the width of random vectors"):
        random_of(name)


def test_a_table_falls_back_to_small_letters_and_tells_what_it_lacks(tmp_path):
    WordVectors(("good", "is"), np.array([[1, 2], [3, 4]], np.float32)).save(tmp_path / "words.txt")
    source = open_source(str(tmp_path / "words.txt"), CPU)
    found = source.vectors([["Good", "worst"], ["is", "is"]])
    assert [one.tolist() for one in found] == [[[[1, 2], [0, 0]]], [[[3, 4], [3, 4]]]]
    assert isinstance(source, Table)
    assert source.describe() == "25.0% of the words are not in words.txt"


def test_sources_are_named_with_a_plus_between(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "c+d.txt").touch()
    assert listed_sources("a + runs/b") == ["a", "runs/b"]
    assert listed_sources("c+d.txt") == ["c+d.txt"]
    for wrong in ("", "a++b"):
        with pytest.raises(UserError, match="expected vectors=random"):
            listed_sources(wrong)


def test_the_states_of_a_word_are_the_mean_over_its_pieces(bert):
    source = open_source(str(bert), CPU)
    assert (source.layers, source.width) == (3, 16)
    found = source.vectors(SENTENCES)
    ids = {piece: 5 + number for number, piece in enumerate(PIECES)}
    alone = torch.tensor([[2, ids["walk"], ids["##ing"], ids["is"], ids["good"], 3]])
    with torch.no_grad():
        states = torch.stack(source.model.states(Text(alone, segments=torch.zeros_like(alone))))[:, 0]
    expected = torch.stack([states[:, 1:3].mean(1), states[:, 3], states[:, 4]], 1)
    torch.testing.assert_close(found[0], expected)
    assert [one.shape for one in found] == [(3, len(words), 16) for words in SENTENCES]
    assert not torch.allclose(found[0][1:, 2], found[1][1:, 0])  # the same word beside others
    assert not torch.allclose(found[2][0, 1], found[2][0, 2])  # places enter with the lowest layer


def test_a_long_sentence_is_read_on(bert):
    source = open_source(str(bert), CPU)
    model = patchword.create("bert-tiny", **{**source.model.card.config, "max_length": 6}).eval()
    short = Bert(model, source.tokenizer, "short", BatchFormat(0, False, CPU))
    (found,) = short.vectors([["is", "good", "walking", "bad", "walking", "is"]])
    first, second = short.vectors([["is", "good", "walking"], ["bad", "walking", "is"]])
    torch.testing.assert_close(found, torch.cat([first, second], 1))
    monster = ["is", "walk" + "ing" * 9, "bad"]  # of more pieces than are read at once
    assert short.vectors([monster])[0].isfinite().all()


def test_a_translators_encoder_gives_one_layer_by_the_mean_of_pieces(translation):
    source = open_source(str(translation), CPU)
    assert isinstance(source, Translation)
    assert (source.layers, source.width) == (1, 16)
    found = source.vectors(SENTENCES)
    (encoded,) = source.tokenizer.encode_words(SENTENCES[2:])
    ids = torch.tensor([[*encoded.ids.tolist(), source.tokenizer.end]])
    with torch.no_grad():
        states = source.model.encode(Text(ids)).tokens[0, :-1]
    words = torch.from_numpy(encoded.words)
    expected = torch.stack([states[words == number].mean(0) for number in range(5)])
    torch.testing.assert_close(found[2][0], expected)
    assert not torch.allclose(found[2][:, 1], found[2][:, 2])


def test_an_elmo_gives_its_three_states(elmo):
    source = open_source(str(elmo), CPU)
    assert isinstance(source, Spelled)
    assert (source.layers, source.width) == (3, 16)
    for one, other in zip(source.vectors(SENTENCES), elmo_vectors(source.model, SENTENCES), strict=True):
        assert one.shape[0] == 3
        torch.testing.assert_close(one, other)


def test_a_model_of_images_is_no_source(tmp_path):
    patchword.save(patchword.create("vit-exercise"), tmp_path / "vit")
    with pytest.raises(UserError, match="reads images: expected a model of texts"):
        open_source(str(tmp_path / "vit"), CPU)
    with pytest.raises(UserError, match="there is nothing at"):
        open_source(str(tmp_path / "nowhere"), CPU)


def test_a_bank_holds_all_layers_of_all_sources_in_the_order_of_the_words(bert):
    sources = open_sources(f"random:4+{bert}", CPU)
    output: list[int] = []
    bank = fill(sources, SENTENCES, CPU, output.append)
    assert bank.values.shape == (9, 4 + 3 * 16)
    assert sum(output) == 9
    expected = torch.cat(sources[1].vectors(SENTENCES[1:2]), 1).transpose(0, 1).flatten(1)
    torch.testing.assert_close(bank.values[3:4, 4:].float(), expected, atol=2e-3, rtol=2e-3)
    assert torch.equal(bank.values[3, :4], Random(4).vectors([["good"]])[0][0, 0].half())


def test_a_bank_is_asked_by_the_numbers_of_words():
    bank = VectorCache(torch.arange(6).half().view(3, 2), CPU)
    found = bank(Text(torch.tensor([[2, 0]]), mask=torch.tensor([[True, False]])))
    assert found.values.tolist() == [[[4, 5], [0, 1]]]
    assert found.mask.tolist() == [[True, False]]


def test_vectors_that_would_not_fit_are_refused_before_the_work():
    check_size([Random(512)], 2**20, 1.0)
    with pytest.raises(UserError, match=r"expected at most 1 GiB, got 1.0 GiB \(1,048,577 words, each 1 x 512"):
        check_size([Random(512)], 2**20 + 1, 1.0)
