"""Big Bird against transformers: in evaluation with the deviation it has there, in training with the real plan."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

import patchword
from patchword.core.errors import UserError
from patchword.core.text import Text
from patchword.layers.attention.block_sparse import draw
from support.helpers import TINY_TEXT, assert_sharp, difference, one_row, randomise, swap_heads, texts
from support.parity import first_drift

transformers = pytest.importorskip("transformers")

HEADS = {
    "pooled": (transformers.BigBirdModel, lambda answer: [answer.pooler_output]),
    "pretraining": (
        transformers.BigBirdForPreTraining,
        lambda answer: [answer.prediction_logits, answer.seq_relationship_logits],
    ),
    "words": (transformers.BigBirdForMaskedLM, lambda answer: [answer.logits]),
    "classes": (transformers.BigBirdForSequenceClassification, lambda answer: [answer.logits]),
    "tags": (transformers.BigBirdForTokenClassification, lambda answer: [answer.logits]),
    "span": (
        transformers.BigBirdForQuestionAnswering,
        lambda answer: [torch.stack([answer.start_logits, answer.end_logits], -1)],
    ),
}
OURS = {**TINY_TEXT, "max_length": 80, "block": 4, "random_blocks": 2, "dropout": 0.0, "attention_dropout": 0.0}
SIZES = {
    "vocab_size": 61,
    "max_position_embeddings": 80,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "block_size": 4,
    "num_random_blocks": 2,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}
LONG, ODD, SHORT = texts(60, 41, 52, 7), texts(59, 30, 57, 2), texts(36, 17, 9, 2)
BATCHES = {"long": LONG, "odd": ODD, "short": SHORT}


@pytest.fixture(params=HEADS)
def head(request):
    return request.param


@pytest.fixture(params=BATCHES)
def batch(request):
    return BATCHES[request.param]


def their_own(head: str, seed: int = 0, **options):
    labels = 3 if head in ("classes", "tags") else 2
    config = transformers.BigBirdConfig(**{**SIZES, "num_labels": labels, **options})
    return randomise(HEADS[head][0](config), seed).eval()


def our_own(head: str, **options):
    return randomise(patchword.create("bigbird-base", **{**OURS, "head": head, "classes": 3, **options})).eval()


def theirs_from(folder: Path, head: str):
    model, report = HEADS[head][0].from_pretrained(folder, output_loading_info=True)
    assert not any(report[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    return model.eval()


def at_text(tokens: Tensor, text: Text) -> Tensor:
    """Without what stands at the padding, of which theirs has more."""
    return tokens[:, : text.ids.shape[1]] * text.mask[..., None] if tokens.ndim == 3 else tokens


@torch.no_grad()
def our_states(model, text: Text) -> dict[str, Tensor]:
    embedding, *blocks = (at_text(tokens, text) for tokens in model.states(text))
    answer = model(text)
    answers = [at_text(part, text) for part in (answer if isinstance(answer, tuple) else (answer,))]
    found = {"embedding": embedding} | {f"block {index}": tokens for index, tokens in enumerate(blocks)}
    return found | dict(zip(("answer", "second answer")[: len(answers)], answers, strict=True))


@torch.no_grad()
def their_states(model, head: str, text: Text) -> list[Tensor]:
    no_question = {"question_lengths": torch.zeros(len(text.ids), 1)} if head == "span" else {}
    mask = text.mask.float()
    answer = model(text.ids, mask, token_type_ids=text.segments, output_hidden_states=True, **no_question)
    return [at_text(part, text) for part in (*answer.hidden_states, *HEADS[head][1](answer))]


# Both ways


def test_theirs_in_evaluation_counts_the_first_block_more_often(head, batch, tmp_path):
    theirs = their_own(head)
    theirs.save_pretrained(tmp_path)
    model = patchword.load(tmp_path, random="huggingface")
    assert (model.card.config["head"], model.card.config["block"]) == (head, 4)
    assert_sharp(model, batch)
    expected = their_states(theirs, head, batch)
    assert first_drift(our_states(model, batch), expected) is None
    seeded = first_drift(our_states(patchword.load(tmp_path), batch), expected)
    assert seeded == (None if batch is SHORT else "block 0")


def test_theirs_in_training_draws_as_we_do(head, batch, tmp_path):
    theirs = their_own(head).train()
    theirs.save_pretrained(tmp_path)
    model = patchword.load(tmp_path)
    assert model.card.config["random"] == "seeded"
    assert first_drift(our_states(model, batch), their_states(theirs, head, batch)) is None
    assert first_drift(our_states(model.train(), batch), their_states(theirs, head, batch)) is None


def test_ours_loads_in_transformers(head, tmp_path):
    model = our_own(head)
    theirs = theirs_from(patchword.save(model, tmp_path, layout="huggingface"), head).train()
    assert first_drift(our_states(model, ODD), their_states(theirs, head, ODD)) is None
    assert first_drift(our_states(patchword.load(tmp_path), ODD), their_states(theirs, head, ODD)) is None


def test_the_names_of_a_living_model_of_theirs_are_known(head, tmp_path):
    """The pooler, which most heads never read, tells it from a BERT."""
    theirs = their_own(head)
    save_file({name: tensor.clone() for name, tensor in theirs.state_dict().items()}, tmp_path / "living.safetensors")
    model = patchword.load(tmp_path / "living.safetensors", heads=4, block=4, random_blocks=2, random="huggingface")
    assert (model.card.model, model.card.config["head"]) == ("bigbird-base", head)
    assert first_drift(our_states(model, ODD), their_states(theirs, head, ODD)) is None


def test_an_encoder_without_a_pooler_is_told_by_its_config(tmp_path):
    theirs = randomise(transformers.BigBirdModel(transformers.BigBirdConfig(**SIZES), add_pooling_layer=False)).train()
    theirs.save_pretrained(tmp_path)
    model = patchword.load(tmp_path)
    assert (model.card.model, model.card.config["head"], model.card.config["pool"]) == (
        "bigbird-base",
        "vector",
        "mean",
    )
    tokens = theirs(ODD.ids, ODD.mask.float(), token_type_ids=ODD.segments).last_hidden_state
    assert difference(model.encode(ODD)[ODD.mask], tokens[ODD.mask]) < 1e-5


@torch.no_grad()
def test_texts_in_one_row_are_theirs_as_well(tmp_path):
    theirs = their_own("words").train()
    theirs.save_pretrained(tmp_path)
    found = patchword.load(tmp_path)(one_row(ODD))
    assert difference(found[0], their_states(theirs, "words", ODD)[-1][ODD.mask]) < 1e-5


@pytest.mark.parametrize("length", [1024, 960])
def test_the_sizes_of_the_paper_are_theirs(length, tmp_path):
    """Blocks of 64, three drawn, a table of 4096 positions; 1024 tokens have the paper's plan, 960 another."""
    theirs = their_own("pooled", block_size=64, num_random_blocks=3, max_position_embeddings=4096).train()
    theirs.save_pretrained(tmp_path)
    text = texts(length, length - 100)
    assert first_drift(our_states(patchword.load(tmp_path), text), their_states(theirs, "pooled", text)) is None


# The plan


@pytest.mark.parametrize("length", [768, 1024, 2048, 3072, 4096])
@pytest.mark.parametrize("layer", [0, 5, 23])
def test_random_blocks_are_those_that_theirs_draws(length, layer, monkeypatch):
    """Seen where it gathers them, for twelve heads."""
    from transformers.models.big_bird.modeling_big_bird import BigBirdBlockSparseAttention as Theirs

    seen: list[Tensor] = []

    def gather(params: Tensor, indices: Tensor) -> Tensor:
        seen.append(indices)
        raise StopIteration

    monkeypatch.setattr(Theirs, "torch_gather_b2", staticmethod(gather))
    config = transformers.BigBirdConfig(hidden_size=12, num_attention_heads=12)
    blocks = length // 64
    mask = torch.ones(1, blocks, 64)
    with pytest.raises(StopIteration):
        Theirs(config, seed=layer).train()(
            torch.zeros(1, length, 12), None, mask.view(1, 1, -1, 1), mask.view(1, 1, 1, -1), mask, mask
        )
    assert np.array_equal(seen[0][0].numpy(), draw(layer, blocks, 12, 64, 3, 4096))


# Names


def test_a_bert_is_still_a_bert(tmp_path):
    sizes = {name: value for name, value in SIZES.items() if name not in ("block_size", "num_random_blocks")}
    for kind in (transformers.BertModel, transformers.BertForMaskedLM, transformers.BertForTokenClassification):
        theirs = kind(transformers.BertConfig(**sizes))
        theirs.save_pretrained(tmp_path)
        assert patchword.load(tmp_path).card.model.startswith("bert")
        (tmp_path / "config.json").unlink()
        assert patchword.load(tmp_path, heads=4).card.model.startswith("bert")


def test_an_unread_pooler_is_written_as_zeros_and_dropped(tmp_path):
    patchword.save(our_own("words"), tmp_path, layout="huggingface")
    assert not load_file(tmp_path / "model.safetensors")["bert.pooler.weight"].any()
    assert not any("pool" in name for name in patchword.load(tmp_path).state_dict())
    config = json.loads((tmp_path / "config.json").read_text())
    assert (config["block_size"], config["num_random_blocks"], config["hidden_act"]) == (4, 2, "gelu_new")


@pytest.mark.parametrize(
    "fields", [{"attention_type": "original_full"}, {"rescale_embeddings": True}, {"use_bias": False}]
)
def test_another_big_bird_is_refused(fields, tmp_path):
    their_own("pooled", **fields).save_pretrained(tmp_path)
    with pytest.raises(UserError, match=f"this Big Bird differs from the paper's: expected {next(iter(fields))}"):
        patchword.load(tmp_path)


def test_a_head_that_transformers_lacks_is_refused(tmp_path):
    with pytest.raises(UserError, match="huggingface has no model like 'bigbird-base'"):
        patchword.save(our_own("next"), tmp_path, layout="huggingface")


# Mistakes


@pytest.mark.parametrize("block", [0, 1])
def test_a_swapped_head_is_found_and_its_block_named(block, tmp_path):
    model = our_own("words")
    theirs = theirs_from(patchword.save(model, tmp_path, layout="huggingface"), "words").train()
    swap_heads(model, block)
    assert first_drift(our_states(model, ODD), their_states(theirs, "words", ODD)) == f"block {block}"


@pytest.mark.parametrize("block", [0, 1])
def test_another_plan_in_one_layer_is_found(block, tmp_path):
    model = our_own("pooled")
    theirs = theirs_from(patchword.save(model, tmp_path, layout="huggingface"), "pooled").train()
    model.encoder.blocks[block].attention.sublayer.patterns[0].partition.seed = 7
    assert first_drift(our_states(model, ODD), their_states(theirs, "pooled", ODD)) == f"block {block}"


@pytest.mark.parametrize(
    ("head", "key"),
    [
        ("span", "head.feed_forward.up.weight"),
        ("span", "head.norm.bias"),
        ("span", "head.linear.weight"),
        ("classes", "head.pool.linear.weight"),
        ("words", "head.words.transform.bias"),
    ],
)
def test_a_changed_weight_of_a_head_is_found(head, key, tmp_path):
    model = our_own(head)
    theirs = theirs_from(patchword.save(model, tmp_path, layout="huggingface"), head).train()
    with torch.no_grad():
        model.get_parameter(key).mul_(1.05)
    assert first_drift(our_states(model, ODD), their_states(theirs, head, ODD)) == "answer"


@pytest.mark.parametrize("wrong", [{"segments": None}, {"mask": torch.ones_like(ODD.mask)}], ids=["segments", "mask"])
@torch.no_grad()
def test_segments_and_padding_matter(wrong):
    model = our_own("words")
    assert difference(model(ODD._replace(**wrong))[ODD.mask], model(ODD)[ODD.mask]) > 1e-3
