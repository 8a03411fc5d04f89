"""BERT against Hugging Face's transformers, on random large weights, with padding and segments."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

import patchword
from patchword.core.errors import UserError
from patchword.core.text import Text
from support.helpers import TINY_TEXT, assert_sharp, difference, one_row, randomise, swap_heads, texts, tiny_text
from support.parity import TEXT_SIZES, first_drift, opened_whole

transformers = pytest.importorskip("transformers")

# Our head, their class, and which of their answers are ours.
HEADS = {
    "pooled": (transformers.BertModel, lambda answer: [answer.pooler_output]),
    "pretraining": (
        transformers.BertForPreTraining,
        lambda answer: [answer.prediction_logits, answer.seq_relationship_logits],
    ),
    "words": (transformers.BertForMaskedLM, lambda answer: [answer.logits]),
    "next": (transformers.BertForNextSentencePrediction, lambda answer: [answer.logits]),
    "classes": (transformers.BertForSequenceClassification, lambda answer: [answer.logits]),
    "tags": (transformers.BertForTokenClassification, lambda answer: [answer.logits]),
    "span": (
        transformers.BertForQuestionAnswering,
        lambda answer: [torch.stack([answer.start_logits, answer.end_logits], -1)],
    ),
}
BATCH = texts(17, 9, 24, 2)


@pytest.fixture(params=HEADS)
def head(request):
    return request.param


def their_own(head: str, seed: int = 0, **options):
    labels = 3 if head in ("classes", "tags") else 2
    config = transformers.BertConfig(**{**TEXT_SIZES, "num_labels": labels, **options})
    return randomise(HEADS[head][0](config), seed).eval()


def theirs_from(folder: Path, head: str):
    return opened_whole(HEADS[head][0], folder)


@torch.no_grad()
def our_states(model, text: Text = BATCH) -> dict[str, Tensor]:
    """What enters the first block, what leaves each block, and the head's answers, by their names."""
    embedding, *blocks = model.states(text)
    answer = model(text)
    found = {"embedding": embedding} | {f"block {index}": tokens for index, tokens in enumerate(blocks)}
    answers = answer if isinstance(answer, tuple) else (answer,)
    return found | dict(zip(("answer", "second answer")[: len(answers)], answers, strict=True))


@torch.no_grad()
def their_states(model, head: str, text: Text = BATCH) -> list[Tensor]:
    answer = model(text.ids, text.mask.long(), text.segments, output_hidden_states=True)
    return [*answer.hidden_states, *HEADS[head][1](answer)]


# Both ways


@pytest.mark.parametrize(
    "options",
    [{}, {"hidden_act": "gelu_new", "layer_norm_eps": 0.1}, {"hidden_act": "relu", "type_vocab_size": 3}],
    ids=str,
)
def test_theirs_loads_here(head, options, tmp_path):
    theirs = their_own(head, **options)
    theirs.save_pretrained(tmp_path)
    model = patchword.load(tmp_path)
    assert model.card.config["head"] == head
    assert_sharp(model, BATCH)
    assert first_drift(our_states(model), their_states(theirs, head)) is None


def test_ours_loads_in_transformers(head, tmp_path):
    model = tiny_text(head=head, classes=3)
    assert_sharp(model, BATCH)
    theirs = theirs_from(patchword.save(model, tmp_path, layout="huggingface"), head)
    assert not (tmp_path / "preprocessor_config.json").exists()  # there are no pixels
    assert first_drift(our_states(model), their_states(theirs, head)) is None
    assert first_drift(our_states(patchword.load(tmp_path)), their_states(theirs, head)) is None


def test_the_names_of_a_living_model_of_theirs_are_known(head, tmp_path):
    """Its tied matrix is there twice, and the number of heads nowhere."""
    theirs = their_own(head)
    save_file({name: tensor.clone() for name, tensor in theirs.state_dict().items()}, tmp_path / "living.safetensors")
    model = patchword.load(tmp_path / "living.safetensors", heads=TINY_TEXT["heads"])
    assert first_drift(our_states(model), their_states(theirs, head)) is None


@torch.no_grad()
def test_texts_in_one_row_are_theirs_as_well(tmp_path):
    theirs = their_own("words")
    theirs.save_pretrained(tmp_path)
    found = patchword.load(tmp_path)(one_row(BATCH))
    assert difference(found[0], their_states(theirs, "words")[-1][BATCH.mask]) < 1e-5


@torch.no_grad()
def test_an_encoder_without_a_pooler_makes_sentence_vectors(tmp_path):
    theirs = randomise(transformers.BertModel(transformers.BertConfig(**TEXT_SIZES), add_pooling_layer=False)).eval()
    theirs.save_pretrained(tmp_path)
    model = patchword.load(tmp_path)
    assert (model.card.config["head"], model.card.config["pool"]) == ("vector", "mean")
    tokens = theirs(BATCH.ids, BATCH.mask.long(), BATCH.segments).last_hidden_state
    assert difference(model(BATCH), by_hand(tokens, "mean", normalize=True)) < 1e-5
    again = transformers.BertModel.from_pretrained(
        patchword.save(model, tmp_path / "again", layout="huggingface"), add_pooling_layer=False
    ).eval()
    assert difference(again(BATCH.ids, BATCH.mask.long(), BATCH.segments).last_hidden_state, tokens) < 1e-5


def test_labels_go_both_ways(tmp_path):
    labels = {0: "bad", 1: "good", 2: "neither"}
    their_own("classes", id2label=labels, label2id={"bad": 0, "good": 1, "neither": 2}).save_pretrained(tmp_path)
    model = patchword.load(tmp_path)
    assert model.card.labels == ("bad", "good", "neither")
    assert theirs_from(patchword.save(model, tmp_path / "back", "huggingface"), "classes").config.id2label == labels


@pytest.mark.parametrize("options", [{"is_decoder": True}, {"hidden_act": "tanh"}], ids=str)
def test_what_bert_does_not_do_is_refused(options, tmp_path):
    their_own("pooled", **options).save_pretrained(tmp_path)
    with pytest.raises(UserError, match="this BERT differs from the paper's"):
        patchword.load(tmp_path)


# Other names


def rename(folder: Path, change: Callable[[dict[str, Tensor]], dict[str, Tensor]]) -> None:
    """Another person's weight file for the model of a folder."""
    file = folder / "model.safetensors"
    save_file({name: tensor.contiguous() for name, tensor in change(load_file(file)).items()}, file)


def early(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """As PyTorch files called them at first."""
    words = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
    found = {"bert.embeddings.position_ids": torch.arange(TINY_TEXT["max_length"])[None]}
    for name, tensor in tensors.items():
        end = ".".join(name.split(".")[-2:])
        found[name.removesuffix(end) + words.get(end, end)] = tensor
    return found


def tensorflow(tensors: dict[str, Tensor]) -> dict[str, np.ndarray]:
    """As the authors' own program calls them, with what its optimizer keeps."""
    found: dict[str, np.ndarray] = {"global_step": np.array(7)}
    last = {"LayerNorm.weight": "LayerNorm/gamma", "LayerNorm.bias": "LayerNorm/beta", "dense.bias": "dense/bias"}
    for name, tensor in tensors.items():
        start, end = name.rsplit(".", 2)[0], ".".join(name.split(".")[-2:])
        values = tensor.numpy()
        if name.startswith(("classifier.", "cls.seq_relationship.", "qa_outputs.")) or name == "cls.predictions.bias":
            owner = {"classifier": "", "qa_outputs": "cls/squad/"}.get(start, f"{name.rpartition('.')[0]}/")
            theirs = owner.replace(".", "/") + ("output_weights" if name.endswith("weight") else "output_bias")
        elif end.endswith("_embeddings.weight"):
            theirs = f"{start}.{end.removesuffix('.weight')}"
        elif end in last:
            theirs = f"{start}.{last[end]}"
        elif end.endswith(".weight"):
            theirs, values = f"{name.removesuffix('.weight')}.kernel", values.T
        else:
            theirs = name
        theirs = theirs.replace("layer.", "layer_").replace(".", "/")
        found |= {theirs: values, f"{theirs}/adam_m": np.ones_like(values), f"{theirs}/adam_v": np.ones_like(values)}
    return found


@pytest.mark.parametrize("head", ["pretraining", "classes"])
def test_the_names_of_early_files_are_understood(head, tmp_path):
    theirs = their_own(head)
    theirs.save_pretrained(tmp_path)
    rename(tmp_path, early)
    assert "bert.embeddings.LayerNorm.gamma" in load_file(tmp_path / "model.safetensors")
    assert first_drift(our_states(patchword.load(tmp_path)), their_states(theirs, head)) is None


@pytest.mark.parametrize("prefix", ["", "bert."])
def test_a_table_of_positions_is_left_out(prefix, tmp_path):
    theirs = their_own("pooled")
    theirs.save_pretrained(tmp_path)
    numbers = {f"{prefix}embeddings.position_ids": torch.arange(TINY_TEXT["max_length"])[None]}
    rename(tmp_path, lambda found: {prefix + name: tensor for name, tensor in found.items()} | numbers)
    assert first_drift(our_states(patchword.load(tmp_path)), their_states(theirs, "pooled")) is None


@pytest.mark.parametrize("head", ["pretraining", "classes", "span"])
@pytest.mark.parametrize("place", ["a bare file", "a folder"])
def test_the_authors_names_are_understood(head, place, tmp_path):
    theirs = their_own(head)
    theirs.save_pretrained(tmp_path)
    tensors = tensorflow(load_file(tmp_path / "model.safetensors"))
    some = {"bert/encoder/layer_0/attention/self/query/kernel", "bert/embeddings/LayerNorm/gamma", "global_step"}
    assert some < tensors.keys()
    (tmp_path / "model.safetensors").unlink()
    if place == "a folder":
        np.savez(tmp_path / "model.npz", **tensors)
        model = patchword.load(tmp_path)
    else:
        np.savez(tmp_path / "bert_model.npz", **tensors)
        model = patchword.load(tmp_path / "bert_model.npz", heads=TINY_TEXT["heads"])
    assert first_drift(our_states(model), their_states(theirs, head)) is None


@pytest.mark.parametrize("head", ["words", "pretraining"])
def test_another_matrix_than_the_words_table_is_refused(head, tmp_path):
    theirs = their_own(head)
    theirs.save_pretrained(tmp_path)
    other = {"cls.predictions.decoder.weight": torch.randn(TINY_TEXT["vocabulary"], TINY_TEXT["width"])}
    rename(tmp_path, lambda tensors: tensors | other)
    with pytest.raises(UserError, match="the output matrix differs from the word embedding"):
        patchword.load(tmp_path)


def test_a_tensor_that_is_missing_and_one_too_many_are_named(tmp_path):
    their_own("tags").save_pretrained(tmp_path)

    def spoil(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        gone = "bert.encoder.layer.1.output.dense.bias"
        return {name: tensor for name, tensor in tensors.items() if name != gone} | {"bert.extra": torch.ones(2)}

    rename(tmp_path, spoil)
    with pytest.raises(UserError, match="2 tensors differ") as caught:
        patchword.load(tmp_path)
    assert "missing     encoder.blocks.1.feed_forward.sublayer.down.bias" in caught.value.hint
    assert "unexpected  bert.extra" in caught.value.hint


# Folders of sentence-transformers


def by_hand(tokens: Tensor, pooling: str, normalize: bool) -> Tensor:
    """One vector a text, text by text."""
    pairs = zip(tokens, BATCH.mask.sum(1).tolist(), strict=True)
    vectors = torch.stack([text[0] if pooling == "cls" else text[:count].mean(0) for text, count in pairs])
    return vectors / vectors.norm(dim=1, keepdim=True) if normalize else vectors


def sentence_folder(folder: Path, pooling: dict[str, object], normalize: bool = False, *more: str):
    """An encoder of theirs, in a folder as that library writes it."""
    theirs = their_own("pooled")
    theirs.save_pretrained(folder)
    kinds = ["Transformer", "Pooling", *(["Normalize"] if normalize else []), *more]
    modules = [
        {"idx": index, "name": str(index), "path": f"{index}_{kind}" if index else "", "type": f"some.models.{kind}"}
        for index, kind in enumerate(kinds)
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({"embedding_dimension": 32, **pooling}))
    return theirs


POOLINGS = [  # of older folders, then of newer ones
    ("mean", {"pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True, "pooling_mode_max_tokens": False}),
    ("cls", {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}),
    ("mean", {"pooling_mode": "mean", "include_prompt": True}),
    ("cls", {"pooling_mode": "cls", "include_prompt": True}),
]


@pytest.mark.parametrize(("pooling", "modules"), POOLINGS, ids=str)
@pytest.mark.parametrize("normalize", [False, True])
@torch.no_grad()
def test_a_sentence_folder_keeps_its_pooling(pooling, modules, normalize, tmp_path):
    theirs = sentence_folder(tmp_path, modules, normalize)
    model = patchword.load(tmp_path)
    tokens = theirs(BATCH.ids, BATCH.mask.long(), BATCH.segments).last_hidden_state
    assert difference(model(BATCH), by_hand(tokens, pooling, normalize)) < 1e-5
    assert difference(model(one_row(BATCH)), by_hand(tokens, pooling, normalize)) < 1e-5
    assert difference(model(BATCH), by_hand(tokens, "cls" if pooling == "mean" else "mean", normalize)) > 1e-2


@pytest.mark.parametrize(
    "modules",
    [
        {"pooling_mode_max_tokens": True},
        {"pooling_mode_mean_sqrt_len_tokens": True},
        {"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": True},
        {"pooling_mode": "lasttoken"},
        {"pooling_mode": ["mean", "cls"]},
        {},
    ],
    ids=str,
)
def test_another_pooling_is_refused(modules, tmp_path):
    sentence_folder(tmp_path, modules)
    with pytest.raises(UserError, match="unsupported pooling"):
        patchword.load(tmp_path)


def test_another_module_is_refused(tmp_path):
    sentence_folder(tmp_path, POOLINGS[0][1], True, "Dense")
    with pytest.raises(UserError, match=r"modules\.json lists unsupported modules.*Dense"):
        patchword.load(tmp_path)
    (tmp_path / "modules.json").write_text('{"0": "Transformer"}')
    with pytest.raises(UserError, match="not a list of modules"):
        patchword.load(tmp_path)


def test_a_classifier_saved_over_a_sentence_folder_is_a_classifier(tmp_path):
    sentence_folder(tmp_path, POOLINGS[0][1])
    patchword.save(tiny_text(head="classes", classes=3), tmp_path, layout="huggingface")
    assert patchword.load(tmp_path).card.config["head"] == "classes"


# Mistakes


@pytest.mark.parametrize("block", [0, 1])
def test_a_swapped_head_is_found_and_its_block_named(head, block, tmp_path):
    model = tiny_text(head=head, classes=3)
    expected = their_states(theirs_from(patchword.save(model, tmp_path, layout="huggingface"), head), head)
    swap_heads(model, block)
    assert first_drift(our_states(model), expected) == f"block {block}"


@pytest.mark.parametrize(
    ("place", "key"),
    [
        ("embedding", "embedding.segments.weight"),
        ("embedding", "embedding.norm.bias"),
        ("block 0", "encoder.blocks.0.attention.sublayer.projection.joint.weight"),
        ("block 1", "encoder.blocks.1.feed_forward.norm.weight"),
        ("answer", "head.words.transform.weight"),
        ("answer", "head.words.norm.bias"),
        ("answer", "head.words.output.bias"),
        ("second answer", "head.pool.linear.bias"),
        ("second answer", "head.linear.weight"),
    ],
)
def test_a_changed_weight_is_found_and_its_place_named(place, key, tmp_path):
    model = tiny_text(head="pretraining")
    folder = patchword.save(model, tmp_path, layout="huggingface")
    expected = their_states(theirs_from(folder, "pretraining"), "pretraining")
    with torch.no_grad():
        model.get_parameter(key).mul_(1.01)
    assert first_drift(our_states(model), expected) == place


@pytest.mark.parametrize("wrong", [{"segments": None}, {"mask": None}])
def test_segments_and_padding_matter(wrong, tmp_path):
    model = tiny_text(head="words")
    theirs = theirs_from(patchword.save(model, tmp_path, layout="huggingface"), "words")
    parts = dict(zip(("ids", "segments", "mask"), BATCH, strict=False)) | wrong
    assert first_drift(our_states(model, Text(**parts)), their_states(theirs, "words")) is not None
