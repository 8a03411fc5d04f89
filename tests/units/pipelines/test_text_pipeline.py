"""A pipeline of a text model: one method per head."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import patchword
from patchword.core.errors import UserError
from patchword.core.text import Text
from patchword.data.text.tokenizers.tokenizer import Tokenizer
from patchword.recipes.text.recipe import TextRecipe
from support.helpers import tiny_pair, tiny_text
from support.material import UNSEALED

TEXTS = ["The cat sat on the mat.", "Ada <i> lived in London, and the cat ran to the bank in town!"]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.train_on(TEXTS * 3, vocabulary=200)


@pytest.fixture
def opened(tokenizer):
    """A pipeline of a tiny model with this head."""

    def make(head: str, labels: tuple[str, ...] = (), name: str = "bert-tiny", **config: object) -> patchword.Pipeline:
        fields = {"vocabulary": tokenizer.vocabulary, "max_length": 40, "head": head, **config}
        model = tiny_text(name, **fields | ({"classes": len(labels)} if labels else {}))
        model.card = replace(model.card, labels=labels)
        return patchword.pipeline(model, tokenizer=tokenizer, device="cpu")

    return make


def scores(p, *texts: str) -> torch.Tensor:
    """What the model says to [CLS] text [SEP] text [SEP], put together by hand."""
    tokenizer = p.tokenizer
    parts = [[tokenizer.cls], *([*tokenizer.encode([text])[0].ids.tolist(), tokenizer.sep] for text in texts)]
    segments = [max(0, number - 1) for number, part in enumerate(parts) for _ in part]
    ids = torch.tensor([piece for part in parts for piece in part])[None]
    with torch.no_grad():
        return p.model(Text(ids, torch.tensor(segments)[None]))[0]


def test_classes_of_texts(opened):
    p = opened("classes", ("bad", "fair", "good"))
    found = p(TEXTS)
    for text, one in zip(TEXTS, found, strict=True):
        by_hand = scores(p, text).softmax(-1)
        assert one.input == text
        assert one.label == p.labels[int(by_hand.argmax())]
        assert one.probability == pytest.approx(float(by_hand.max()), abs=1e-5)
    assert len(p(TEXTS[0], top=2)[0].classes) == 2
    assert "Ada &lt;i&gt;" in found._repr_html_()
    assert TEXTS[0] in repr(found)


def test_pairs_are_a_tuple_or_the_argument(opened):
    p = opened("classes", ("no", "yes"))
    by_hand = float(scores(p, *TEXTS).softmax(-1).max())
    for found in (p((TEXTS[0], TEXTS[1])), p(TEXTS[0], pair=TEXTS[1]), p([(TEXTS[0], TEXTS[1])] * 2)):
        assert found[0].probability == pytest.approx(by_hand, abs=1e-5)
        assert found[0].pair == TEXTS[1]


def test_tags_with_their_spans_in_colour(opened):
    p = opened("tags", ("O", "B-person", "I-person"))
    (found,) = p.tag(TEXTS[1])
    assert "".join(word.word for word in found.words) == "".join(TEXTS[1].split())
    assert all(TEXTS[1][word.start : word.end] == word.word for word in found.words)
    assert all(TEXTS[1][span.start : span.end] == span.text for span in found.spans)
    page = found._repr_html_()
    assert "&lt;" in page
    assert "<i>" not in page
    tagged = [word for word in found.words if word.tag != "O"]
    assert page.count("background:hsla") == len(tagged) > 0
    assert p(TEXTS[1])[0].words == found.words


def test_answers_are_parts_of_the_context(opened):
    p = opened("span")
    found = p.answer("Who lived?", TEXTS[1], top=2)
    assert len(found.answers) == 2
    assert found.answer == found.answers[0].text != ""
    assert TEXTS[1][found.answers[0].start : found.answers[0].end] == found.answer
    assert found.probability == found.answers[0].probability
    assert p(TEXTS[1], question="Who lived?", top=2)[0].answers == found.answers
    assert "<mark>" in found._repr_html_()
    with pytest.raises(UserError, match="a question is missing"):
        p(TEXTS[1])


@UNSEALED
def test_numbers_and_labels(opened, tokenizer):
    assert opened("classes", classes=1)(TEXTS[0])[0].number == pytest.approx(
        float(scores(opened("classes", classes=1), TEXTS[0])[0]), abs=1e-5
    )
    p = opened("classes", ("a", "b", "c"))
    patchword.save(p.model, "run")
    tokenizer.save(Path("run"))
    Path("run/recipe.yaml").write_text(TextRecipe(task="labels", length=40).to_yaml(), encoding="utf-8")
    found = patchword.pipeline("run", device="cpu")(TEXTS[0])[0]
    chances = scores(p, TEXTS[0]).sigmoid()
    assert dict(found.classes) == pytest.approx(dict(zip("abc", chances.tolist(), strict=True)), abs=1e-5)
    assert set(found.labels) == {name for name, chance in zip("abc", chances, strict=True) if chance > 0.5}


@UNSEALED
def test_a_run_answers_as_the_verb_does(opened, tokenizer, command):
    p = opened("classes", ("bad", "good"))
    patchword.save(p.model, "run")
    tokenizer.save(Path("run"))
    Path("run/recipe.yaml").write_text(TextRecipe(length=40).to_yaml(), encoding="utf-8")
    found = patchword.pipeline("run", device="cpu")
    with pytest.raises(UserError, match="run reads single texts"):
        found(TEXTS[0], pair=TEXTS[1])
    code, output, _ = command("predict", "run", TEXTS[0], "--json", "--device", "cpu")
    assert code == 0
    assert f'"label": "{found(TEXTS[0])[0].label}", "probability": {found(TEXTS[0])[0].probability}' in output


def test_truncated_texts_are_a_warning_at_every_call(opened):
    p = opened("classes", ("bad", "good"))
    for _ in range(2):
        with pytest.warns(UserWarning, match="1 text is longer than 40 tokens and truncated") as caught:
            p(["cat " * 100, "cat"])
        assert caught[0].filename == __file__
    with pytest.warns(UserWarning, match="2 texts are longer"):
        p.embed(["cat " * 100] * 2)


# Vectors, masks, continuations, attention


def test_embeddings_are_the_mean_of_the_last_layer(opened):
    p = opened("words")
    ids = torch.tensor([[p.tokenizer.cls, *p.tokenizer.encode([TEXTS[0]])[0].ids.tolist(), p.tokenizer.sep]])
    with torch.no_grad():
        by_hand = p.model.encode(Text(ids))[0].mean(0).numpy()
    found = p.embed(TEXTS)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found[0], by_hand, atol=1e-5)
    assert p.embed(TEXTS[0]).shape == (1, found.shape[1])
    np.testing.assert_allclose(np.linalg.norm(p.embed(TEXTS, normalize=True), axis=1), 1, atol=1e-5)
    with pytest.raises(UserError, match=r"^layer: expected 0"):
        p.embed(TEXTS, layer=9)
    layers = p.embed_layers(TEXTS)
    assert len(layers) == p.layers + 1
    np.testing.assert_array_equal(layers[1], p.embed(TEXTS, layer=1))
    np.testing.assert_array_equal(layers[-1], found)


def test_masks_are_filled(opened):
    p = opened("words")
    found = p.fill("The [MASK] sat <b> on the [MASK].", top=2)
    assert len(found) == 2
    assert len(found[0].fillings) == 2
    assert found.filled == f"The {found[0].fillings[0].word} sat <b> on the {found[1].fillings[0].word}."
    assert "&lt;b&gt;" in found._repr_html_()
    assert found[0].fillings[0].sentence in repr(found)


def test_a_causal_model_continues_a_text(opened, tokenizer):
    p = opened("words", name="gpt2-small")
    first, again = (p.generate("The cat", tokens=5, seed=3, samples=2) for _ in range(2))
    assert [one.text for one in first] == [one.text for one in again]
    assert all(one.tokens <= 5 for one in first)
    with pytest.raises(UserError, match=r"cannot fill masks.*\n.*p.generate"):
        p.fill("The [MASK].")


def test_attention_between_tokens(opened):
    p = opened("classes", ("bad", "good"))
    found = p.attention(TEXTS[0])
    assert found.tokens[0] == "[CLS]"
    size = len(found.tokens)
    assert found.maps[0].shape[1:] == found.rollout.shape == (size, size)
    assert found.about == p(TEXTS[0])[0].label
    np.testing.assert_allclose(found.maps[0].sum(-1), 1, atol=1e-5)
    assert found._repr_html_().count("<img") == 2
    assert len(p.attention(TEXTS[0], pair=TEXTS[0]).tokens) > size


def test_a_translator_translates(tokenizer):
    model = tiny_pair(vocabulary=tokenizer.vocabulary, max_length=40)
    p = patchword.pipeline(model, tokenizer=tokenizer, device="cpu")
    found = p.translate(TEXTS, beams=2)
    assert len(found) == 2
    assert all(isinstance(one, str) for one in found)
    assert p.translate(TEXTS[0], beams=2) == found[:1]
    with pytest.raises(UserError, match=r"cannot embed.*\n.*p.translate, p.cost"):
        p.embed(TEXTS)


# Faults


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda p: p.fill("The [MASK]."), r"cannot fill masks: got 'bert-tiny' with the head 'classes'\n.*p\(text\)"),
        (lambda p: p.tag("a"), "cannot tag words"),
        (lambda p: p.answer("a", "b"), "cannot answer questions"),
        (lambda p: p.generate("a"), "cannot generate text"),
        (lambda p: p.transform, "expected p.tokenizer"),
        (lambda p: p(""), "the text is empty"),
        (lambda p: p(["a", " "]), "text 2: the text is empty"),
        (lambda p: p([]), "there are no texts"),
        (lambda p: p(Path("a.txt")), "got PosixPath"),
        (lambda p: p(["a", "b"], pair="c"), "belongs to one text"),
        (lambda p: p(("a", "b"), pair="c"), "more than two texts"),
        (lambda p: p(["a", ("b", "c")]), "reads"),
        (lambda p: p.embed([("a", "b")]), "single texts"),
        (lambda p: p.embed("a", pool="none"), "mean, first or pooler"),
        (lambda p: patchword.pipeline(p.model), "expected tokenizer="),
    ],
)
def test_what_a_text_model_cannot_do(opened, ask, message):
    with pytest.raises(UserError, match=message):
        ask(opened("classes", ("bad", "good")))


def test_a_tokenizer_of_another_model_is_refused(opened):
    with pytest.raises(UserError, match="does not belong to the model"):
        opened("words", vocabulary=500)
