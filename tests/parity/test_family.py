"""The family of BERT against Hugging Face's transformers: every head, both ways, with padding, and mistakes found."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor

import patchword
from patchword.core.errors import UserError
from patchword.core.text import Packed, Text
from support.helpers import TINY_TEXT, assert_sharp, difference, randomise, swap_heads, texts, tiny_text
from support.parity import first_drift

PAD = 1  # of RoBERTa, which tells padding from words by it
V, P, W, D, H, F = (TINY_TEXT[size] for size in ("vocabulary", "max_length", "width", "depth", "heads", "hidden"))
BERT_SIZES = {
    "vocab_size": V,
    "max_position_embeddings": P,
    "hidden_size": W,
    "num_hidden_layers": D,
    "num_attention_heads": H,
    "intermediate_size": F,
}
COMMON = {"classes": "ForSequenceClassification", "tags": "ForTokenClassification", "span": "ForQuestionAnswering"}
LOSSLESS = ("missing_keys", "unexpected_keys", "mismatched_keys")


@dataclass(frozen=True)
class Peer:
    """A family's classes and sizes there. tiny: fields of ours besides the usual ones."""

    ours: str
    stem: str
    heads: dict[str, str]
    sizes: dict[str, Any]
    tiny: dict[str, Any]
    segments: bool = True

    def config(self, **options: Any) -> Any:
        return getattr(transformers, f"{self.stem}Config")(**self.sizes, **options)

    def model(self, head: str) -> type:
        return getattr(transformers, f"{self.stem}{self.heads[head]}")


BARE = {"pooled": "Model", "words": "ForMaskedLM", **COMMON}
PEERS = {
    "roberta": Peer(
        "roberta-base",
        "Roberta",
        BARE,
        BERT_SIZES | {"max_position_embeddings": P + 2, "type_vocab_size": 1, "layer_norm_eps": 1e-5},
        {},
        segments=False,
    ),
    "albert": Peer(
        "albert-base",
        "Albert",
        BARE | {"pretraining": "ForPreTraining"},
        BERT_SIZES | {"embedding_size": 16},
        {"embedding": 16},
    ),
    "distilbert": Peer(
        "distilbert-base",
        "DistilBert",
        {"tokens": "Model", "words": "ForMaskedLM", **COMMON},
        {"vocab_size": V, "max_position_embeddings": P, "dim": W, "n_layers": D, "n_heads": H, "hidden_dim": F},
        {},
        segments=False,
    ),
    "tinybert": Peer("tinybert-4-312", "Bert", BARE | {"pretraining": "ForPreTraining"}, BERT_SIZES, {"vocabulary": V}),
    "ernie": Peer(
        "ernie-base",
        "Ernie",
        BARE | {"pretraining": "ForPreTraining", "next": "ForNextSentencePrediction"},
        BERT_SIZES | {"hidden_act": "relu", "layer_norm_eps": 1e-5},
        {},
    ),
    "xlm": Peer(
        "xlm-tlm-xnli15",
        "XLM",
        {"tokens": "Model", "words": "WithLMHeadModel", **COMMON, "span": "ForQuestionAnsweringSimple"},
        {"vocab_size": V, "max_position_embeddings": P, "emb_dim": W, "n_layers": D, "n_heads": H, "n_langs": 3},
        {"hidden": 4 * W, "languages": 3},
        segments=False,
    ),
}
CASES = [(family, head) for family, peer in PEERS.items() for head in peer.heads]


def batch(family: str) -> Text:
    """Padded texts of words that no family takes for padding; of XLM with their languages."""
    found = texts(17, 9, 24, 2)
    ids = (found.ids % (V - 6) + 6).where(found.mask, PAD)
    languages = (found.ids % 3) if family == "xlm" else None
    return Text(ids, found.segments if PEERS[family].segments else None, found.mask, languages=languages)


@torch.no_grad()
def our_states(model: Any, text: Text) -> dict[str, Tensor]:
    embedding, *blocks = model.states(text)
    found = {"embedding": embedding} | {f"block {index}": tokens for index, tokens in enumerate(blocks)}
    answer = model(text)
    answers = answer if isinstance(answer, tuple) else (answer,)
    found |= dict(zip(("answer", "second answer")[: len(answers)], answers, strict=True))
    return {name: _real(tokens, text) for name, tokens in found.items()}


@torch.no_grad()
def their_states(model: Any, family: str, head: str, text: Text) -> list[Tensor]:
    options = {"token_type_ids": text.segments} if text.segments is not None else {}
    if text.languages is not None:
        options["langs"] = text.languages
    answer = model(text.ids, attention_mask=text.mask.long(), output_hidden_states=True, **options)
    match head:
        case "pooled":
            answers = [answer.pooler_output]
        case "tokens":
            answers = [answer.last_hidden_state]
        case "pretraining":
            second = answer.sop_logits if family == "albert" else answer.seq_relationship_logits
            answers = [answer.prediction_logits, second]
        case "span":
            answers = [torch.stack([answer.start_logits, answer.end_logits], -1)]
        case _:
            answers = [answer.logits]
    return [_real(tokens, text) for tokens in (*answer.hidden_states, *answers)]


def _real(tokens: Tensor, text: Text) -> Tensor:
    """without what stands at the padding, where XLM puts zeros"""
    return tokens[text.mask] if tokens.ndim == 3 else tokens


def their_own(family: str, head: str, **options: Any) -> Any:
    peer = PEERS[family]
    classes = {"num_labels": 3} if head in ("classes", "tags") else {}
    return randomise(peer.model(head)(peer.config(**classes, **options))).eval()


def theirs_from(folder: Path, family: str, head: str) -> Any:
    """The folder in their hands: no tensor may be missing, left over or of another shape."""
    model, report = PEERS[family].model(head).from_pretrained(folder, output_loading_info=True)
    assert not any(report[kind] for kind in LOSSLESS), report
    return model.eval()


def our_own(family: str, head: str) -> Any:
    peer = PEERS[family]
    classes = {"classes": 3} if head in ("classes", "tags") else {}
    return tiny_text(peer.ours, head=head, **peer.tiny, **classes)


@pytest.mark.parametrize(("family", "head"), CASES, ids="-".join)
def test_theirs_loads_here(family, head, tmp_path):
    theirs, text = their_own(family, head), batch(family)
    theirs.save_pretrained(tmp_path)
    model = patchword.load(tmp_path)
    expected = "bert" if family == "tinybert" else family
    assert (model.card.model.split("-")[0], model.card.config["head"]) == (expected, head)
    assert_sharp(model, text)
    assert first_drift(our_states(model, text), their_states(theirs, family, head, text)) is None


@pytest.mark.parametrize(("family", "head"), CASES, ids="-".join)
def test_ours_loads_in_transformers(family, head, tmp_path):
    model, text = our_own(family, head), batch(family)
    theirs = theirs_from(patchword.save(model, tmp_path, layout="huggingface"), family, head)
    assert first_drift(our_states(model, text), their_states(theirs, family, head, text)) is None
    assert first_drift(our_states(patchword.load(tmp_path), text), their_states(theirs, family, head, text)) is None


@pytest.mark.parametrize("family", PEERS)
@torch.no_grad()
def test_texts_in_one_row_are_theirs_as_well(family, tmp_path):
    theirs, text = their_own(family, "words"), batch(family)
    theirs.save_pretrained(tmp_path)
    packed = Packed.of(text.mask.sum(1))
    parts = {
        name: getattr(text, name)[text.mask][None]
        for name in ("ids", "segments", "languages")
        if getattr(text, name) is not None
    }
    found = patchword.load(tmp_path)(Text(**parts, packed=packed))
    assert difference(found[0], their_states(theirs, family, "words", text)[-1]) < 1e-5


@pytest.mark.parametrize("family", [family for family in PEERS if family != "albert"])
@pytest.mark.parametrize("block", [0, 1])
def test_a_swapped_head_is_found_and_its_block_named(family, block, tmp_path):
    model, text = our_own(family, "words"), batch(family)
    theirs = theirs_from(patchword.save(model, tmp_path, layout="huggingface"), family, "words")
    swap_heads(model, block)
    assert first_drift(our_states(model, text), their_states(theirs, family, "words", text)) == f"block {block}"


def test_a_swapped_head_of_the_one_block_of_albert_is_found(tmp_path):
    model, text = our_own("albert", "words"), batch("albert")
    theirs = theirs_from(patchword.save(model, tmp_path, layout="huggingface"), "albert", "words")
    swap_heads(model, 0)
    assert first_drift(our_states(model, text), their_states(theirs, "albert", "words", text)) == "block 0"


def _positions_one_early(model: Any) -> None:
    model.embedding.first -= 1


def _no_languages(model: Any) -> None:
    model.embedding.languages = None


def _tanh(model: Any) -> None:
    model.head.pool.activation = torch.nn.Tanh()


def _gelu(model: Any) -> None:
    for block in model.encoder.blocks:
        block.feed_forward.sublayer.activation = torch.nn.GELU()


MUTATIONS: list[tuple[str, str, Callable[[Any], None], str]] = [
    ("roberta", "words", _positions_one_early, "embedding"),
    ("xlm", "words", _no_languages, "embedding"),
    ("distilbert", "classes", _tanh, "answer"),
    ("albert", "words", _gelu, "block 0"),
    ("ernie", "words", _gelu, "block 0"),
]


@pytest.mark.parametrize(("family", "head", "mutation", "place"), MUTATIONS)
def test_what_sets_a_family_apart_is_seen(family, head, mutation, place, tmp_path):
    model, text = our_own(family, head), batch(family)
    theirs = theirs_from(patchword.save(model, tmp_path, layout="huggingface"), family, head)
    mutation(model)
    assert first_drift(our_states(model, text), their_states(theirs, family, head, text)) == place


def test_bare_files_of_two_families_are_told_apart_by_what_their_config_says(tmp_path):
    for family in ("roberta", "ernie"):
        their_own(family, "pooled").save_pretrained(tmp_path / family)
        assert patchword.load(tmp_path / family).card.model == f"{family}-base"


@torch.no_grad()
def test_the_class_head_of_tinyberts_authors_has_a_relu():
    plain, theirs = (
        tiny_text("tinybert-4-312", head="classes", classes=3, pool=pool) for pool in ("pooler", "pooler-relu")
    )
    theirs.load_state_dict(plain.state_dict())
    pooled = plain.head.pool(plain.encode(batch("tinybert")), batch("tinybert"))
    by_hand = torch.nn.functional.linear(pooled.relu(), plain.head.linear.weight, plain.head.linear.bias)
    assert difference(theirs(batch("tinybert")), by_hand) < 1e-6
    assert difference(theirs(batch("tinybert")), plain(batch("tinybert"))) > 1e-2


def test_an_xlm_that_they_cannot_build_is_not_written(tmp_path):
    with pytest.raises(UserError, match=r"no such XLM: expected a feed-forward of width 128, .*got 64"):
        patchword.save(tiny_text("xlm-en"), tmp_path, layout="huggingface")
    assert not list(tmp_path.iterdir())
