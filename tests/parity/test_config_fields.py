"""Fields of Hugging Face's configs that change the outputs: read as they mean it, or refused by name."""

from typing import Any

import pytest
import torch
import transformers

import patchword
from patchword.core.errors import UserError
from patchword.core.text import Text
from support.helpers import difference, randomise

SIZES = {
    **{"vocab_size": 41, "hidden_size": 12, "num_attention_heads": 3, "num_hidden_layers": 2, "intermediate_size": 17},
    "max_position_embeddings": 22,
}
XLM_SIZES = {"vocab_size": 41, "emb_dim": 12, "n_heads": 3, "n_layers": 2, "max_position_embeddings": 22}
GPT_SIZES = {"vocab_size": 41, "n_embd": 12, "n_head": 3, "n_layer": 2, "n_positions": 22}


def saved(tmp_path, kind: str, head: str, **options: Any) -> Any:
    """A tiny random model of theirs, saved."""
    sizes = {"XLM": XLM_SIZES, "GPT2": GPT_SIZES}.get(kind, SIZES)
    config = getattr(transformers, f"{kind}Config")(**{**sizes, **options})
    model = randomise(getattr(transformers, f"{kind}{head}")(config)).eval()
    model.save_pretrained(tmp_path)
    return model


def ids(without: int = -1) -> torch.Tensor:
    found = torch.randint(3, 41, (2, 9), generator=torch.Generator().manual_seed(0))
    return found.where(found != without, 2)


@torch.no_grad()
def compare(model: Any, tmp_path, padding: int = -1) -> float:
    return difference(patchword.load(tmp_path)(ids(padding)), model(ids(padding)).logits)


@pytest.mark.parametrize("padding", [0, 1, 5])
@pytest.mark.parametrize("kind", ["Roberta", "XLMRoberta", "Camembert"])
def test_positions_start_after_the_padding_id(tmp_path, kind, padding):
    model = saved(tmp_path / "theirs", kind, "ForTokenClassification", pad_token_id=padding, num_labels=4)
    assert compare(model, tmp_path / "theirs", padding) < 1e-5
    ours = patchword.load(tmp_path / "theirs")
    assert ours.card.config["max_length"] == 21 - padding
    patchword.save(ours, tmp_path / "back", layout="huggingface")
    again = transformers.RobertaForTokenClassification.from_pretrained(tmp_path / "back").eval()
    assert again.config.pad_token_id == padding
    with torch.no_grad():
        assert difference(again(ids(padding)).logits, model(ids(padding)).logits) < 1e-5


@pytest.mark.parametrize("kind", ["Roberta", "XLMRoberta"])
@torch.no_grad()
def test_padding_on_the_left_is_skipped(tmp_path, kind):
    model = saved(tmp_path, kind, "ForTokenClassification", pad_token_id=1, num_labels=4)
    mask = torch.arange(9) >= torch.tensor([[0], [4], [7]])
    text = Text(torch.randint(2, 41, mask.shape).where(mask, 1), mask=mask)
    expected = model(text.ids, attention_mask=mask.long()).logits[mask]
    ours = patchword.load(tmp_path)
    assert difference(ours(text)[mask], expected) < 1e-5
    from_the_edge = text._replace(positions=torch.arange(9).expand(mask.shape))
    assert difference(ours(from_the_edge)[mask], expected) > 1e-3


def test_a_roberta_without_padding_id_is_refused(tmp_path):
    saved(tmp_path, "Roberta", "ForMaskedLM")
    config = (tmp_path / "config.json").read_text()
    (tmp_path / "config.json").write_text(config.replace('"pad_token_id": 1', '"pad_token_id": null'))
    with pytest.raises(UserError, match="no padding id"):
        patchword.load(tmp_path)


@pytest.mark.parametrize("activation", ["gelu", "relu", "gelu_new"])
def test_the_words_of_roberta_have_gelu_whatever_the_blocks_have(tmp_path, activation):
    model = saved(tmp_path / "theirs", "Roberta", "ForMaskedLM", hidden_act=activation)
    assert compare(model, tmp_path / "theirs", 1) < 1e-5
    patchword.save(patchword.load(tmp_path / "theirs"), tmp_path / "back", layout="huggingface")
    again = transformers.RobertaForMaskedLM.from_pretrained(tmp_path / "back").eval()
    with torch.no_grad():
        assert difference(again(ids(1)).logits, model(ids(1)).logits) < 1e-5


@pytest.mark.parametrize("kind", ["Roberta", "XLMRoberta", "Camembert", "BigBird"])
def test_multiple_choice_under_the_names_of_tags_is_refused(tmp_path, kind):
    saved(tmp_path, kind, "ForMultipleChoice", **({"block_size": 4} if kind == "BigBird" else {}))
    with pytest.raises(UserError, match=f"unsupported head: .*got {kind}ForMultipleChoice"):
        patchword.load(tmp_path)


def test_multiple_choice_of_bert_is_a_class_head_with_one_output(tmp_path):
    model = saved(tmp_path, "Bert", "ForMultipleChoice")
    with torch.no_grad():
        assert difference(patchword.load(tmp_path)(ids()), model(ids()[:, None]).logits) < 1e-5


SUMMARIES = [
    {"summary_type": "mean"},
    {"summary_type": "last"},
    {"summary_activation": "tanh"},
    {"summary_use_proj": False},
]


@pytest.mark.parametrize("options", SUMMARIES, ids=lambda options: next(iter(options)))
def test_other_summaries_of_xlm_are_refused_for_classes_only(tmp_path, options):
    saved(tmp_path / "classes", "XLM", "ForSequenceClassification", **options)
    with pytest.raises(UserError, match=next(iter(options))):
        patchword.load(tmp_path / "classes")
    words = saved(tmp_path / "words", "XLM", "WithLMHeadModel", **options)
    assert compare(words, tmp_path / "words") < 1e-5


def test_the_usual_summary_of_xlm_is_read(tmp_path):
    assert compare(saved(tmp_path, "XLM", "ForSequenceClassification"), tmp_path) < 1e-5


def test_a_swin_whose_sides_shift_differently_is_refused(tmp_path):
    """transformers shifts no side if one is short; here each side decides for itself."""
    sizes = {"embed_dim": 8, "depths": [2, 2, 2, 2], "num_heads": [1, 2, 2, 2], "window_size": 2, "patch_size": 2}
    for name, size in (("square", (32, 32)), ("long", (64, 96)), ("short", (32, 64))):
        config = transformers.SwinConfig(image_size=size, **sizes)
        model = randomise(transformers.SwinForImageClassification(config)).eval()
        model.save_pretrained(tmp_path / name)
        if name == "short":
            with pytest.raises(UserError, match="shifts no window in stage 4"):
                patchword.load(tmp_path / name)
            continue
        images = torch.randn(1, 3, *size, generator=torch.Generator().manual_seed(0))
        with torch.no_grad():
            assert difference(patchword.load(tmp_path / name)(images), model(images).logits) < 1e-5


def test_xlm_without_given_languages_adds_none(tmp_path):
    model = saved(tmp_path, "XLM", "WithLMHeadModel", n_langs=3)
    assert compare(model, tmp_path) < 1e-5
    text = Text(ids(), languages=torch.zeros_like(ids()))
    with torch.no_grad():
        spoken = patchword.load(tmp_path)(text)
        assert difference(spoken, model(ids(), langs=torch.zeros_like(ids())).logits) < 1e-5
        assert difference(spoken, patchword.load(tmp_path)(ids())) > 1e-3


NAMES_OF_ACTIVATIONS = ["gelu_python", "gelu_fast", "gelu_accurate", "gelu_python_tanh", "silu", "swish"]


@pytest.mark.parametrize("activation", NAMES_OF_ACTIVATIONS)
@pytest.mark.parametrize(("kind", "field"), [("Bert", "hidden_act"), ("GPT2", "activation_function")])
def test_every_name_of_a_known_activation_is_read_and_written(tmp_path, kind, field, activation):
    head = "ForTokenClassification"
    model = saved(tmp_path / "theirs", kind, head, **{field: activation})
    assert compare(model, tmp_path / "theirs") < 1e-5
    patchword.save(patchword.load(tmp_path / "theirs"), tmp_path / "back", layout="huggingface")
    again = getattr(transformers, kind + head).from_pretrained(tmp_path / "back").eval()
    with torch.no_grad():
        assert difference(again(ids()).logits, model(ids()).logits) < 1e-5


def test_an_activation_that_is_not_known_is_refused(tmp_path):
    saved(tmp_path, "Bert", "ForTokenClassification", hidden_act="mish")
    with pytest.raises(UserError, match=r"hidden_act gelu or .*got mish"):
        patchword.load(tmp_path)


SCALES = [
    {"scale_attn_weights": False},
    {"scale_attn_by_inverse_layer_idx": True},
    {"scale_attn_weights": False, "scale_attn_by_inverse_layer_idx": True, "reorder_and_upcast_attn": True},
]


@pytest.mark.parametrize("options", SCALES, ids=lambda options: " ".join(options))
def test_gpt2_scales_its_scores_as_the_config_says(tmp_path, options):
    model = saved(tmp_path / "theirs", "GPT2", "LMHeadModel", **options, attn_implementation="eager")
    assert compare(model, tmp_path / "theirs") < 1e-5
    patchword.save(patchword.load(tmp_path / "theirs"), tmp_path / "back", layout="huggingface")
    again = transformers.GPT2LMHeadModel.from_pretrained(tmp_path / "back").eval()
    usual = patchword.load(tmp_path / "theirs", scaled=True, scaled_by_block=False)
    with torch.no_grad():
        assert difference(again(ids()).logits, model(ids()).logits) < 1e-5
        assert difference(usual(ids()), model(ids()).logits) > 1e-3


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("Ernie", {"use_task_id": True}),
        ("Ernie", {"use_task_id": True, "task_type_vocab_size": 16}),
        ("XLM", {"gelu_activation": False}),
        ("XLM", {"sinusoidal_embeddings": True}),
    ],
    ids=str,
)
def test_variants_in_the_config_of_a_family_are_read_and_written(tmp_path, kind, options):
    head = "ForTokenClassification"
    model = saved(tmp_path / "theirs", kind, head, **options)
    assert compare(model, tmp_path / "theirs") < 1e-5
    patchword.save(patchword.load(tmp_path / "theirs"), tmp_path / "back", layout="huggingface")
    again = getattr(transformers, kind + head).from_pretrained(tmp_path / "back").eval()
    with torch.no_grad():
        assert difference(again(ids()).logits, model(ids()).logits) < 1e-5


def test_the_task_of_an_ernie_changes_its_outputs(tmp_path):
    model = saved(tmp_path, "Ernie", "ForTokenClassification", use_task_id=True)
    ours = patchword.load(tmp_path)
    ours.embedding.gather.tasks.weight.data[0] = 0
    with torch.no_grad():
        assert difference(ours(ids()), model(ids()).logits) > 1e-3


def test_a_table_of_tasks_that_the_config_denies_is_refused(tmp_path):
    saved(tmp_path, "Ernie", "ForTokenClassification", use_task_id=True)
    config = (tmp_path / "config.json").read_text()
    (tmp_path / "config.json").write_text(config.replace('"use_task_id": true', '"use_task_id": false'))
    with pytest.raises(UserError, match="does not fit"):
        patchword.load(tmp_path)


@pytest.mark.parametrize(
    ("kind", "head"), [("Bert", "ForMaskedLM"), ("Albert", "ForMaskedLM"), ("GPT2", "LMHeadModel")]
)
def test_an_output_matrix_of_its_own_is_read_and_written(tmp_path, kind, head):
    model = saved(tmp_path / "theirs", kind, head, tie_word_embeddings=False)
    assert compare(model, tmp_path / "theirs") < 1e-5
    ours = patchword.load(tmp_path / "theirs")
    patchword.save(ours, tmp_path / "back", layout="huggingface")
    again = getattr(transformers, kind + head).from_pretrained(tmp_path / "back").eval()
    with torch.no_grad():
        assert difference(again(ids()).logits, model(ids()).logits) < 1e-5
        ours.head.words.output.linear.weight.copy_(
            ours.embedding.words.weight[:, : ours.head.words.output.linear.in_features]
        )
        assert difference(ours(ids()), model(ids()).logits) > 1e-3


def test_an_output_matrix_of_its_own_counts_and_is_left_out_of_other_heads(tmp_path):
    saved(tmp_path, "Bert", "ForMaskedLM", tie_word_embeddings=False)
    ours, tied = (
        patchword.create("bert-tiny", head="words", vocabulary=41, width=12, heads=3, tied=tied)
        for tied in (False, True)
    )
    more = sum(part.numel() for part in ours.parameters()) - sum(part.numel() for part in tied.parameters())
    assert more == 41 * 12
    assert patchword.load(tmp_path, head="classes", classes=4)(ids()).shape == (2, 4)


def test_two_matrices_of_a_mobilebert_are_refused(tmp_path):
    saved(tmp_path, "MobileBert", "ForMaskedLM", tie_word_embeddings=False, embedding_size=5, intra_bottleneck_size=6)
    with pytest.raises(UserError, match="tie_word_embeddings"):
        patchword.load(tmp_path)


@pytest.mark.parametrize(("groups", "blocks"), [(2, 1), (1, 2), (2, 3), (3, 2)])
@pytest.mark.parametrize("head", ["ForMaskedLM", "ForTokenClassification"])
def test_an_albert_with_groups_is_read_and_written(tmp_path, head, groups, blocks):
    options = {"num_hidden_groups": groups, "inner_group_num": blocks, "num_hidden_layers": 5}
    model = saved(tmp_path / "theirs", "Albert", head, **options)
    assert compare(model, tmp_path / "theirs") < 1e-5
    ours = patchword.load(tmp_path / "theirs")
    assert len(ours.encoder.blocks) == groups * blocks
    patchword.save(ours, tmp_path / "back", layout="huggingface")
    again = getattr(transformers, f"Albert{head}").from_pretrained(tmp_path / "back").eval()
    ours.encoder.order = ours.encoder.order[::-1]  # a mutation
    with torch.no_grad():
        assert difference(again(ids()).logits, model(ids()).logits) < 1e-5
        assert difference(ours(ids()), model(ids()).logits) > 1e-3
