"""The walk of one token: its numbers are those of the model, and each step follows from the one before."""

import pytest
import torch

import patchword
from patchword.core.errors import UserError
from patchword.core.text import Text
from patchword.data.text.tokenizers.tokenizer import Tokenizer
from patchword.inspection.text_tokens import text_tokens
from patchword.inspection.token_walk import token_walk
from patchword.recipes.text.inference.reader import Reader
from support.helpers import tiny_text

TEXT = "The cat sat on the mats."


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.train_on(["The cats sat on the mat.", "Bats."] * 3, vocabulary=60)


def reader(name: str, tokenizer: Tokenizer, **config: object) -> Reader:
    model = tiny_text(name, vocabulary=tokenizer.vocabulary, max_length=40, head="tokens", **config)
    return patchword.pipeline(model, tokenizer=tokenizer, device="cpu").engine.reader


def near(found: torch.Tensor, expected: torch.Tensor) -> bool:
    return found.shape == expected.shape and bool((found - expected).abs().max() < 1e-5)


NAMES = ["bert-tiny", "gpt2-small", "gpt", "albert-base", "roberta-base", "distilbert-base", "grover-base"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("token", "layer"), [(0, 1), (3, 2)])
def test_each_step_follows_from_the_one_before(tokenizer, name, token, layer):
    opened = reader(name, tokenizer)
    walk = token_walk(opened, TEXT, token, layer)
    model, step = opened.model, walk.attention
    block = model.encoder.blocks[model.encoder.order[layer - 1]]
    attention = block.attention.sublayer

    assert near(sum(part for _, part in walk.embedding.parts), walk.embedding.total)
    assert near(model.embedding.widen(model.embedding.norm(walk.embedding.total)), walk.embedding.output)

    visible = step.scores.isfinite()
    scores = torch.einsum("hd,htd->ht", step.query, step.keys) * step.scale
    assert near(scores[visible], step.scores[visible])
    assert near(step.scores.softmax(-1), step.weights)
    assert near(torch.einsum("ht,htd->hd", step.weights, step.values), step.sums)
    assert near(attention.output(step.sums.flatten()), step.output)

    for part, residual in ((step, block.attention), (walk.feed_forward, block.feed_forward)):
        total = part.before + (part.output if part.norm != "x + norm(f(x))" else residual.norm(part.output))
        assert near(residual.norm(total) if part.norm == "norm(x + f(x))" else total, part.after)
    feed_forward = block.feed_forward.sublayer
    assert near(feed_forward.activation(feed_forward.up(walk.feed_forward.read)), walk.feed_forward.hidden)
    assert near(feed_forward.down(walk.feed_forward.hidden), walk.feed_forward.output)
    assert near(walk.attention.after, walk.feed_forward.before)


@pytest.mark.parametrize("name", ["bert-tiny", "gpt2-small", "albert-base"])
def test_the_numbers_are_those_of_the_model(tokenizer, name):
    opened = reader(name, tokenizer)
    ids, segments = tokenizer.frame.around(tokenizer.encode([TEXT])[0].ids)
    with torch.no_grad():
        states = opened.model.states(Text(torch.tensor(ids)[None].long(), torch.tensor(segments)[None].long()))
    last = token_walk(opened, TEXT, 2, -1)
    assert last.layer == opened.depth
    assert near(last.embedding.output, states[0][0, 2])
    assert near(opened.model.norm(last.feed_forward.after), states[-1][0, 2])
    assert near(last.norms[[0, -1]], torch.stack([states[0][0, 2].norm(), last.feed_forward.after.norm()]))
    assert len(last.norms) == 1 + 2 * opened.depth
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in opened.model.modules())


def test_a_causal_model_does_not_read_later_tokens(tokenizer):
    step = token_walk(reader("gpt2-small", tokenizer), TEXT, 2, 1).attention
    assert step.scores.isfinite().tolist() == [[place <= 2 for place in range(step.scores.shape[1])]] * len(step.scores)
    assert (step.weights[:, 3:] == 0).all()


@pytest.mark.parametrize(
    ("name", "config", "token", "layer", "message"),
    [
        ("mobilebert", {}, 0, 1, "cannot be followed"),
        ("bert-tiny", {"position": "shaw"}, 0, 1, "cannot be followed"),
        ("bert-tiny", {}, 99, 1, "no token 99"),
        ("bert-tiny", {}, -1, 1, "no token -1"),
        ("bert-tiny", {}, 0, 3, "no layer 3"),
    ],
)
def test_refusals(tokenizer, name, config, token, layer, message):
    with pytest.raises(UserError, match=message):
        token_walk(reader(name, tokenizer, **config), TEXT, token, layer)


def test_a_text_that_is_too_long_is_refused(tokenizer):
    with pytest.raises(UserError, match="too long"):
        token_walk(reader("bert-tiny", tokenizer), "cat " * 40)


def test_tokens_have_their_places(tokenizer):
    found = text_tokens(tokenizer, TEXT)
    assert [token.name for token in found if token.special] == ["[CLS]", "[SEP]"]
    assert [token.start for token in found if token.special] == [None, None]
    inside = [token for token in found if not token.special]
    assert all(TEXT[token.start : token.end].lower() == token.word.removeprefix("##") for token in inside)
    assert "".join(token.word.removeprefix("##") for token in inside) == TEXT.lower().replace(" ", "")
    assert [token.id for token in inside] == tokenizer.encode([TEXT])[0].ids.tolist()
    assert any(token.word.startswith("##") for token in inside)
    assert inside[-1].word == "."
