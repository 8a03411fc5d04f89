"""MobileBERT against Hugging Face's transformers, on random large weights, with padding and segments.

transformers reads the padding's own vector behind the last word of a shorter text; so that the two can be compared,
that vector is zero here, as it is when training begins.
"""

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

import patchword
from patchword.core.errors import UserError
from patchword.core.text import Text
from support.helpers import TINY_TEXT, assert_sharp, difference, one_row, randomise, swap_heads, texts, tiny_text
from support.parity import TEXT_SIZES, first_drift, opened_whole

transformers = pytest.importorskip("transformers")

HEADS = {
    "pooled": (transformers.MobileBertModel, lambda answer: [answer.pooler_output]),
    "pretraining": (
        transformers.MobileBertForPreTraining,
        lambda answer: [answer.prediction_logits, answer.seq_relationship_logits],
    ),
    "words": (transformers.MobileBertForMaskedLM, lambda answer: [answer.logits]),
    "next": (transformers.MobileBertForNextSentencePrediction, lambda answer: [answer.logits]),
    "classes": (transformers.MobileBertForSequenceClassification, lambda answer: [answer.logits]),
    "tags": (transformers.MobileBertForTokenClassification, lambda answer: [answer.logits]),
    "span": (
        transformers.MobileBertForQuestionAnswering,
        lambda answer: [torch.stack([answer.start_logits, answer.end_logits], -1)],
    ),
}
SIZES = {
    **TEXT_SIZES,
    "embedding_size": 8,
    "intra_bottleneck_size": 8,
    "classifier_activation": False,
}
FULL = texts(17, 9, 24, 2)
BATCH = FULL._replace(ids=FULL.ids * FULL.mask)  # the padding is word 0


@pytest.fixture(params=HEADS)
def head(request):
    return request.param


@torch.no_grad()
def empty_padding(model, table: Tensor):
    table[0] = 0
    return model


def their_own(head: str, seed: int = 0, **options):
    labels = 3 if head in ("classes", "tags") else 2
    config = transformers.MobileBertConfig(**{**SIZES, "num_labels": labels, **options})
    model = randomise(HEADS[head][0](config), seed).eval()
    return empty_padding(model, model.get_input_embeddings().weight)


def our_own(head: str, **options):
    model = tiny_text("mobilebert", head=head, classes=3, **options)
    return empty_padding(model, model.embedding.words.weight)


def theirs_from(folder: Path, head: str):
    return opened_whole(HEADS[head][0], folder)


@torch.no_grad()
def our_states(model, text: Text = BATCH) -> dict[str, Tensor]:
    embedding, *blocks = (tokens * text.mask[..., None] for tokens in model.states(text))
    answer = model(text)
    answers = [at_text(part, text) for part in (answer if isinstance(answer, tuple) else (answer,))]
    found = {"embedding": embedding} | {f"block {index}": tokens for index, tokens in enumerate(blocks)}
    return found | dict(zip(("answer", "second answer")[: len(answers)], answers, strict=True))


@torch.no_grad()
def their_states(model, head: str, text: Text = BATCH) -> list[Tensor]:
    answer = model(text.ids, text.mask.long(), text.segments, output_hidden_states=True)
    found = [tokens * text.mask[..., None] for tokens in answer.hidden_states]
    return [*found, *(at_text(part, text) for part in HEADS[head][1](answer))]


def at_text(answer: Tensor, text: Text) -> Tensor:
    """Without what stands at the padding."""
    return answer * text.mask[..., None] if answer.ndim == 3 else answer


# Both ways


OPTIONS = [
    {},
    {"classifier_activation": True},
    {"hidden_act": "gelu", "num_feedforward_networks": 2, "layer_norm_eps": 0.1},
    {"embedding_size": 12, "intra_bottleneck_size": 16, "num_feedforward_networks": 1, "type_vocab_size": 3},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_theirs_loads_here(head, options, tmp_path):
    theirs = their_own(head, **options)
    theirs.save_pretrained(tmp_path)
    model = patchword.load(tmp_path)
    assert model.card.config["head"] == head
    assert_sharp(model, BATCH)
    assert first_drift(our_states(model), their_states(theirs, head)) is None


@pytest.mark.parametrize("options", [{}, {"pool": "pooler"}, {"bottleneck": 16, "embedding": 12, "feed_forwards": 2}])
def test_ours_loads_in_transformers(head, options, tmp_path):
    model = our_own(head, **options)
    theirs = theirs_from(patchword.save(model, tmp_path, layout="huggingface"), head)
    assert first_drift(our_states(model), their_states(theirs, head)) is None
    again = patchword.load(tmp_path)
    assert first_drift(our_states(again), their_states(theirs, head)) is None
    for field in ("bottleneck", "embedding", "feed_forwards", "head"):
        assert again.card.config[field] == model.card.config[field]


def test_the_names_of_a_living_model_of_theirs_are_known(head, tmp_path):
    theirs = their_own(head, classifier_activation=True)
    save_file({name: tensor.clone() for name, tensor in theirs.state_dict().items()}, tmp_path / "living.safetensors")
    model = patchword.load(tmp_path / "living.safetensors", heads=TINY_TEXT["heads"])
    if head == "tags":  # without a config, a pooler alone tells the class head from it
        model = patchword.load(tmp_path / "living.safetensors", heads=TINY_TEXT["heads"], head="tags")
    assert model.card.config["head"] == head


@torch.no_grad()
def test_texts_in_one_row_are_theirs_as_well(tmp_path):
    theirs = their_own("words")
    theirs.save_pretrained(tmp_path)
    found = patchword.load(tmp_path)(one_row(BATCH))
    assert difference(found[0], their_states(theirs, "words")[-1][BATCH.mask]) < 1e-5


def test_the_released_size_is_the_models(tmp_path):
    with torch.device("meta"):
        theirs = transformers.MobileBertModel(transformers.MobileBertConfig(classifier_activation=False))
        ours = patchword.create("mobilebert")
    count = sum(parameter.numel() for parameter in theirs.parameters())
    assert sum(parameter.numel() for parameter in ours.parameters()) == count == 24_581_888


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"trigram_input": False}, "trigram_input"),
        ({"use_bottleneck_attention": True}, "use_bottleneck_attention"),
        ({"normalization_type": "layer_norm"}, "normalization_type"),
        ({"key_query_shared_bottleneck": False}, "key_query_shared_bottleneck"),
    ],
)
def test_another_mobilebert_is_refused(fields, text, tmp_path):
    their_own("pooled", **fields).save_pretrained(tmp_path)
    with pytest.raises(UserError, match=f"this MobileBERT differs from the paper's: expected {text}"):
        patchword.load(tmp_path)


# Where we deviate


@torch.no_grad()
def test_padding_is_no_neighbour_here_but_is_there(tmp_path):
    """A text alone and the same text padded: one answer here, two there once the padding's vector is not zero."""
    theirs = their_own("pooled")
    theirs.get_input_embeddings().weight[0] = 1.0
    theirs.save_pretrained(tmp_path)
    ours = patchword.load(tmp_path, head="tokens")
    alone = Text(BATCH.ids[1:2, :9], BATCH.segments[1:2, :9], BATCH.mask[1:2, :9])
    assert difference(ours(BATCH)[1:2, :9], ours(alone)) < 1e-5
    padded, single = (
        theirs(text.ids, text.mask.long(), text.segments).last_hidden_state[-4:, :9] for text in (BATCH, alone)
    )
    assert difference(padded[1:2], single) > 1e-2
    assert difference(ours(alone), single) < 1e-5


# Mistakes


@pytest.mark.parametrize("block", [0, 1])
def test_a_swapped_head_is_found_and_its_block_named(head, block, tmp_path):
    model = our_own(head)
    expected = their_states(theirs_from(patchword.save(model, tmp_path, layout="huggingface"), head), head)
    swap_heads(model, block)
    assert first_drift(our_states(model), expected) == f"block {block}"


@pytest.mark.parametrize(
    ("place", "key"),
    [
        ("embedding", "embedding.gather.mix.weight"),
        ("embedding", "embedding.norm.weight"),
        ("block 0", "encoder.blocks.0.narrow_norm.bias"),
        ("block 0", "encoder.blocks.0.attention.sublayer.projection.shared.weight"),
        ("block 1", "encoder.blocks.1.attention.sublayer.projection.query_key.weight"),
        ("block 1", "encoder.blocks.1.attention.sublayer.projection.value.weight"),
        ("block 1", "encoder.blocks.1.feed_forward_3.sublayer.up.weight"),
        ("block 1", "encoder.blocks.1.feed_forward.norm.weight"),
        ("block 1", "encoder.blocks.1.widen.bias"),
        ("answer", "head.words.output.extra.weight"),
        ("answer", "head.words.output.bias"),
        ("second answer", "head.linear.weight"),
    ],
)
def test_a_changed_weight_is_found_and_its_place_named(place, key, tmp_path):
    model = our_own("pretraining")
    theirs = theirs_from(patchword.save(model, tmp_path, layout="huggingface"), "pretraining")
    expected = their_states(theirs, "pretraining")
    with torch.no_grad():
        model.get_parameter(key).mul_(1.05)
    assert first_drift(our_states(model), expected) == place


def test_the_order_of_the_neighbours_matters(tmp_path):
    model = our_own("pooled")
    expected = their_states(theirs_from(patchword.save(model, tmp_path, layout="huggingface"), "pooled"), "pooled")
    weight = model.embedding.gather.mix.weight
    with torch.no_grad():
        weight.copy_(weight.unflatten(1, (3, -1)).flip(1).flatten(1))
    assert first_drift(our_states(model), expected) == "embedding"
