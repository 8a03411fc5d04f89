"""Recorded searches: the same result as without recording, the tree of candidates, next words, fixed beginnings."""

import pytest
import torch

from patchword.core.errors import UserError
from patchword.core.text import Pair, Text
from patchword.recipes.text.inference.input import TextInput
from patchword.recipes.translation.alignment import aligned
from patchword.recipes.translation.search import Search, translated
from patchword.recipes.translation.tracing import worth
from patchword.recipes.translation.translating import Translating
from support.tiny.translators import tiny_translator

SENTENCE = "ba ce di fo"


@pytest.fixture(scope="module", params=["transformer", "attention", "none"])
def translator(request, tmp_path_factory) -> Translating:
    return Translating.open(str(tiny_translator(tmp_path_factory.mktemp("run") / "run", request.param)), "cpu")


def source_of(translator: Translating, text: str = SENTENCE):
    return translator.sources([TextInput(text, place={})])


@pytest.mark.parametrize("search", [Search(1), Search(3, 0.0), Search(4, 0.6), Search(8, 2.0)])
def test_a_recorded_search_finds_the_same(translator, search):
    source = source_of(translator)
    found = translator.trace(source, search)
    assert found.tokens == translated(translator.model, translator.languages, source, search)[0]
    assert found.texts[0].score < 0
    order = [worth(text, search.penalty) for text in found.texts]
    assert order == sorted(order, reverse=True)
    assert len(found.texts) <= search.beams


def test_the_steps_lead_to_the_best_text(translator):
    end, found = translator.languages.end, translator.trace(source_of(translator), Search(3))
    beams, texts = [((), 0.0)], []
    for candidates, best in zip(found.steps, found.best, strict=False):
        fates = [one.fate for one in candidates]
        assert 0 < len(candidates) <= 6
        assert fates.count("kept") <= 3
        scores = [one.score for one in candidates]
        assert scores == sorted(scores, reverse=True)
        for one in candidates:
            assert one.score <= beams[one.beam][1]
        texts = [(*beams[one.beam][0], one.token) for one in candidates]
        path = texts[best]
        beams = [(text, one.score) for text, one in zip(texts, candidates, strict=True) if one.fate == "kept"]
    assert len(found.best) == len(found.texts[0].tokens) + found.texts[0].ended
    assert path == (*found.tokens, *([end] if found.texts[0].ended else []))
    assert found.steps[len(found.best) - 1][found.best[-1]].fate == "finished"
    assert found.steps[len(found.best) - 1][found.best[-1]].score == pytest.approx(found.texts[0].score)


def test_next_tokens_are_those_of_the_whole_model(translator):
    source = source_of(translator)
    tokens = translator.trace(source, Search(1)).tokens[:2]
    found = translator.next_tokens(source, tokens, 5)
    text = torch.as_tensor(source.values).long()[None]
    with torch.no_grad():
        pair = Pair(Text(text), Text(torch.tensor([[translator.languages.begin, *tokens]])))
        scores = translator.model(pair)[0, -1]
    scores[[number for number in translator.languages.target.specials if number != translator.languages.end]] = -1e9
    expected = scores.log_softmax(-1).topk(5)
    assert [token for token, _ in found] == expected.indices.tolist()
    assert [value for _, value in found] == pytest.approx(expected.values.tolist(), abs=1e-4)


def test_a_translation_goes_on_from_a_beginning(translator):
    source = source_of(translator)
    free = translator.trace(source, Search(3))
    assert translator.trace(source, Search(3), free.tokens[:2]).prefix == free.tokens[:2]
    usual = {*free.tokens[:1], translator.languages.end}
    other = next(token for token, _ in translator.next_tokens(source, (), 9) if token not in usual)
    changed = translator.trace(source, Search(2), (other,))
    assert changed.tokens[0] == other


@pytest.mark.parametrize("prefix", [(10**6,), (-1,), (1,) * 600])
def test_a_beginning_that_is_not_text_is_refused(translator, prefix):
    with pytest.raises(UserError, match="the start of the translation"):
        translator.trace(source_of(translator), Search(2), prefix)
    with pytest.raises(UserError, match="the start of the translation"):
        translator.next_tokens(source_of(translator), (translator.languages.end,))


def test_the_attention_of_every_layer_has_that_of_the_alignment(translator):
    source = source_of(translator)
    tokens = translator.trace(source, Search(2)).tokens
    whole = torch.as_tensor(source.values)
    if translator.model.card.config.get("attention") == "none":
        with pytest.raises(UserError, match="has no attention"):
            translator.attention(source, tokens)
        return
    expected = aligned(translator.model, translator.languages, whole, tokens)
    found = translator.attention(source, tokens)
    assert (found.read, found.written, found.best + 1) == (expected.read, expected.written, expected.layer)
    assert torch.equal(found.weights[found.best], expected.weights)
    assert torch.allclose(found.weights.sum(-1), torch.ones(found.weights.shape[:2]))
