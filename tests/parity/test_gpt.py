"""GPT and GPT-2 against Hugging Face's transformers, on random large weights, with padding."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

import patchword
from patchword.core.errors import UserError
from patchword.core.text import Text
from patchword.layers import Block, Causal, Full, Norm, Pattern
from patchword.objectives.generation.beam_search import beam_search
from patchword.objectives.generation.causal import CausalSteps
from patchword.objectives.generation.sampling import Greedy, generate
from support.helpers import TINY_TEXT, assert_sharp, difference, one_row, randomise, swap_heads, texts, tiny_text
from support.parity import first_drift

transformers = pytest.importorskip("transformers")

GPT, GPT2 = "gpt", "gpt2-small"
SIZES = {
    "vocab_size": TINY_TEXT["vocabulary"],
    "n_positions": TINY_TEXT["max_length"],
    "n_embd": TINY_TEXT["width"],
    "n_layer": TINY_TEXT["depth"],
    "n_head": TINY_TEXT["heads"],
    "bos_token_id": None,
    "eos_token_id": None,
    "pad_token_id": 0,
    "num_labels": 3,
}
HIDDEN = 4 * TINY_TEXT["width"]  # GPT knows no other


def scores(answer) -> list[Tensor]:
    return [answer.logits]


# Our model and head, their class, and which of their answers are ours.
HEADS = {
    (GPT, "words"): (transformers.OpenAIGPTLMHeadModel, scores),
    (GPT, "tokens"): (transformers.OpenAIGPTModel, lambda answer: [answer.last_hidden_state]),
    (GPT, "classes"): (transformers.OpenAIGPTForSequenceClassification, scores),
    (GPT2, "words"): (transformers.GPT2LMHeadModel, scores),
    (GPT2, "tokens"): (transformers.GPT2Model, lambda answer: [answer.last_hidden_state]),
    (GPT2, "classes"): (transformers.GPT2ForSequenceClassification, scores),
    (GPT2, "tags"): (transformers.GPT2ForTokenClassification, scores),
    (GPT2, "span"): (
        transformers.GPT2ForQuestionAnswering,
        lambda answer: [torch.stack([answer.start_logits, answer.end_logits], -1)],
    ),
}
padded = texts(17, 9, 24, 2)
BATCH = Text(padded.ids * padded.mask, padded.segments, padded.mask)  # they find the last token by the padding's id
CONFIGS = {GPT: transformers.OpenAIGPTConfig, GPT2: transformers.GPT2Config}


@pytest.fixture(params=HEADS, ids=" ".join)
def kind(request):
    return request.param


def their_own(kind: tuple[str, str], **options):
    labels = {"num_labels": 2} if kind[1] == "span" else {}
    return randomise(HEADS[kind][0](CONFIGS[kind[0]](**SIZES | labels | options))).eval()


def ours_of(kind: tuple[str, str], **options):
    return tiny_text(
        kind[0],
        head=kind[1],
        classes=3 if kind[1] in ("classes", "tags") else 0,
        hidden=HIDDEN,
        **{"padding": 0, **options},
    )


def theirs_from(folder: Path, kind: tuple[str, str]):
    model, report = HEADS[kind][0].from_pretrained(folder, output_loading_info=True)
    assert not any(report[part] for part in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    assert model.config.pad_token_id == 0
    return model.eval()


@torch.no_grad()
def our_states(model, text: Text = BATCH) -> dict[str, Tensor]:
    embedding, *blocks = model.states(text)
    found = {"embedding": embedding} | {f"block {index}": tokens for index, tokens in enumerate(blocks)}
    return {name: real(tokens) for name, tokens in (found | {"answer": model(text)}).items()}


@torch.no_grad()
def their_states(model, kind: tuple[str, str], text: Text = BATCH) -> list[Tensor]:
    answer = model(text.ids, attention_mask=text.mask.long(), output_hidden_states=True)
    return [real(tokens) for tokens in (*answer.hidden_states, *HEADS[kind][1](answer))]


def real(tokens: Tensor) -> Tensor:
    return tokens[BATCH.mask] if tokens.ndim == 3 else tokens


# Both ways


@torch.no_grad()
def test_a_classifier_keeps_its_padding_id(tmp_path):
    """transformers refuses a batch of more than one text without it."""
    for kind in ((GPT, "classes"), (GPT2, "classes")):
        their_own(kind, pad_token_id=7).save_pretrained(tmp_path / "theirs")
        model = patchword.load(tmp_path / "theirs")
        assert model.card.config["padding"] == 7
        again = HEADS[kind][0].from_pretrained(patchword.save(model, tmp_path / "ours", layout="huggingface")).eval()
        ids = padded.ids.where(padded.ids != 7, 8).where(padded.mask, 7)
        answer = again(ids, attention_mask=padded.mask.long()).logits
        assert difference(model(Text(ids, mask=padded.mask)), answer) < 1e-5


def test_theirs_loads_here(kind, tmp_path):
    theirs = their_own(kind)
    theirs.save_pretrained(tmp_path)
    model = patchword.load(tmp_path)
    assert (model.card.model, model.card.config["head"]) == kind
    assert model.card.config["hidden"] == HIDDEN
    assert_sharp(model, BATCH)
    assert first_drift(our_states(model), their_states(theirs, kind)) is None


@pytest.mark.parametrize(
    "options",
    [
        {"activation_function": "relu", "layer_norm_epsilon": 0.1, "n_inner": 40},
        {"activation_function": "gelu", "resid_pdrop": 0.3},
    ],
    ids=str,
)
def test_other_settings_of_theirs_are_read(options, tmp_path):
    kind = (GPT2, "words")
    theirs = their_own(kind, **options)
    theirs.save_pretrained(tmp_path)
    model = patchword.load(tmp_path)
    assert first_drift(our_states(model), their_states(theirs, kind)) is None
    assert model.card.config["dropout"] == options.get("resid_pdrop", 0.1)


def test_ours_loads_in_transformers(kind, tmp_path):
    model = ours_of(kind)
    assert_sharp(model, BATCH)
    theirs = theirs_from(patchword.save(model, tmp_path, layout="huggingface"), kind)
    assert first_drift(our_states(model), their_states(theirs, kind)) is None
    again = patchword.load(tmp_path)
    assert again.card.config == model.card.config
    assert first_drift(our_states(again), their_states(theirs, kind)) is None


def test_the_names_of_a_living_model_of_theirs_are_known(kind, tmp_path):
    """Its tied matrix is there twice, and the number of heads nowhere; older ones held the order of tokens, too."""
    theirs = their_own(kind)
    tensors = {name: tensor.clone() for name, tensor in theirs.state_dict().items()}
    start = "" if kind[1] == "tokens" else "transformer."
    for block in range(2):
        tensors[f"{start}h.{block}.attn.bias"] = torch.ones(1, 1, 24, 24).tril()
        tensors[f"{start}h.{block}.attn.masked_bias"] = torch.tensor(-1e4)
    save_file(tensors, tmp_path / "living.safetensors")
    model = patchword.load(tmp_path / "living.safetensors", heads=TINY_TEXT["heads"], head=kind[1])
    assert first_drift(our_states(model), their_states(theirs, kind)) is None


@pytest.mark.parametrize("name", [GPT, GPT2])
def test_bare_names_are_a_model_of_words_unless_the_config_says_otherwise(name, tmp_path):
    """So are the published files of GPT-2."""
    theirs = their_own((name, "words"))
    theirs.save_pretrained(tmp_path)
    rename(tmp_path, lambda found: {key.removeprefix("transformer."): tensor for key, tensor in found.items()})
    model = patchword.load(tmp_path)
    assert model.card.config["head"] == "words"
    assert first_drift(our_states(model), their_states(theirs, (name, "words"))) is None


@torch.no_grad()
def test_texts_in_one_row_are_theirs_as_well(kind, tmp_path):
    theirs = their_own(kind)
    theirs.save_pretrained(tmp_path)
    found = patchword.load(tmp_path)(one_row(BATCH))
    assert difference(found[0] if found.ndim == 3 else found, their_states(theirs, kind)[-1]) < 1e-5


def test_labels_go_both_ways(tmp_path):
    kind, labels = (GPT2, "classes"), {0: "bad", 1: "good", 2: "neither"}
    their_own(kind, id2label=labels, label2id={"bad": 0, "good": 1, "neither": 2}).save_pretrained(tmp_path)
    model = patchword.load(tmp_path)
    assert model.card.labels == ("bad", "good", "neither")
    assert theirs_from(patchword.save(model, tmp_path / "back", "huggingface"), kind).config.id2label == labels


# Writing


@pytest.mark.parametrize("beams", [1, 4])
@pytest.mark.parametrize("name", [GPT, GPT2])
def test_what_is_written_is_what_they_write(name, beams, tmp_path):
    """Prompts of different length, greedy and by beams, with an end token."""
    prompts, end = [[5, 9, 33], [7], [1, 2, 3, 4, 5, 6], [60, 60]], 11
    theirs = their_own((name, "words"))
    with torch.no_grad():
        theirs.transformer.get_input_embeddings().weight.mul_(0.3)  # less sure of itself
    theirs.save_pretrained(tmp_path)
    longest = max(map(len, prompts))
    ids = torch.tensor([[0] * (longest - len(prompt)) + prompt for prompt in prompts])
    mask = torch.tensor([[0] * (longest - len(prompt)) + [1] * len(prompt) for prompt in prompts])
    printed = theirs.generate(
        ids,
        attention_mask=mask,
        max_new_tokens=10,
        num_beams=beams,
        do_sample=False,
        length_penalty=0.0,
        eos_token_id=end,
        pad_token_id=0,
    )
    steps = CausalSteps(patchword.load(tmp_path), prompts)
    if beams == 1:
        found = generate(steps, Greedy(), 10, [end])
    else:
        found = [text[0] for text in beam_search(steps, beams, 10, [end])]
    for text, row in zip(found, printed[:, longest:].tolist(), strict=True):
        expected = row[: row.index(end)] if end in row else row
        assert list(text.tokens) == expected


# What they or we do not have


def rename(folder: Path, change: Callable[[dict[str, Tensor]], dict[str, Tensor]]) -> None:
    file = folder / "model.safetensors"
    save_file({name: tensor.contiguous() for name, tensor in change(load_file(file)).items()}, file)


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ((GPT2, "words"), {"add_cross_attention": True}),
        ((GPT2, "words"), {"activation_function": "mish"}),
    ],
    ids=str,
)
def test_what_the_papers_do_not_do_is_refused(kind, options, tmp_path):
    their_own(kind, **options).save_pretrained(tmp_path)
    with pytest.raises(UserError, match="differs from the paper's"):
        patchword.load(tmp_path)


@pytest.mark.parametrize("name", [GPT, GPT2])
def test_another_matrix_than_the_words_table_is_refused(name, tmp_path):
    their_own((name, "words")).save_pretrained(tmp_path)
    other = {"lm_head.weight": torch.randn(TINY_TEXT["vocabulary"], TINY_TEXT["width"])}
    rename(tmp_path, lambda tensors: tensors | other)
    with pytest.raises(UserError, match="the output matrix differs from the word embedding"):
        patchword.load(tmp_path)


def test_what_they_have_no_class_for_is_said(tmp_path):
    for model in (tiny_text(GPT2, head="vector"), tiny_text(GPT2, head="classes", classes=3, pool="mean")):
        with pytest.raises(UserError, match="huggingface has no model like 'gpt2-small'"):
            patchword.save(model, tmp_path, layout="huggingface")
    with pytest.raises(UserError, match="no such GPT: expected a feed-forward of width 128"):
        patchword.save(tiny_text(GPT), tmp_path, layout="huggingface")


# Mistakes


@pytest.mark.parametrize("block", [0, 1])
def test_a_swapped_head_is_found_and_its_block_named(kind, block, tmp_path):
    model = ours_of(kind)
    expected = their_states(theirs_from(patchword.save(model, tmp_path, layout="huggingface"), kind), kind)
    swap_heads(model, block)
    assert first_drift(our_states(model), expected) == f"block {block}"


@pytest.mark.parametrize("name", [GPT, GPT2])
@pytest.mark.parametrize(
    ("place", "key"),
    [
        ("embedding", "embedding.positions.weight"),
        ("block 0", "encoder.blocks.0.attention.sublayer.projection.joint.weight"),
        ("block 0", "encoder.blocks.0.feed_forward.norm.bias"),
        ("block 1", "encoder.blocks.1.feed_forward.sublayer.down.weight"),
    ],
)
def test_a_changed_weight_is_found_and_its_place_named(name, place, key, tmp_path):
    kind = (name, "words")
    model = ours_of(kind)
    expected = their_states(theirs_from(patchword.save(model, tmp_path, layout="huggingface"), kind), kind)
    with torch.no_grad():
        model.get_parameter(key).mul_(1.01)
    assert first_drift(our_states(model), expected) == place


def read_ahead(model) -> None:
    for pattern in (part for part in model.modules() if isinstance(part, Pattern)):
        assert isinstance(pattern.partition, Causal)
        pattern.partition = Full()


def move_norms(model) -> None:
    for residual in (part for block in model.modules() if isinstance(block, Block) for part in block.children()):
        residual.where = Norm.PRE if residual.where is Norm.POST else Norm.POST


def leave_the_last_norm_out(model) -> None:
    model.norm = torch.nn.Identity()


def exact_gelu(model) -> None:
    for gelu in (part for part in model.modules() if isinstance(part, torch.nn.GELU)):
        gelu.approximate = "none"


@pytest.mark.parametrize("name", [GPT, GPT2])
@pytest.mark.parametrize(
    ("mistake", "place"),
    [(read_ahead, "block 0"), (move_norms, "block 0"), (exact_gelu, "block 0"), (leave_the_last_norm_out, "block 1")],
)
def test_another_architecture_is_found(name, mistake, place, tmp_path):
    kind = (name, "words")
    model = ours_of(kind)
    expected = their_states(theirs_from(patchword.save(model, tmp_path, layout="huggingface"), kind), kind)
    mistake(model)
    has_last_norm = name == GPT2
    found = first_drift(our_states(model), expected)
    assert found == (place if has_last_norm or mistake is not leave_the_last_norm_out else None)


# How weights start


def test_the_ends_of_branches_start_smaller_in_gpt2():
    spreads = {}
    for name in (GPT, GPT2):
        model = patchword.create(name, width=256, depth=8, heads=4, hidden=1024, vocabulary=500)
        block = model.encoder.blocks[3]
        outputs = block.attention.sublayer.output.weight, block.feed_forward.sublayer.down.weight
        spreads[name] = [float(weight.detach().std()) for weight in outputs]
        assert float(block.feed_forward.sublayer.up.weight.detach().std()) == pytest.approx(0.02, rel=0.05)
        assert float(model.embedding.words.weight.detach().std()) == pytest.approx(0.02, rel=0.05)
        assert not block.attention.sublayer.output.bias.any()
    assert spreads[GPT] == pytest.approx([0.02, 0.02], rel=0.05)
    assert spreads[GPT2] == pytest.approx([0.02 / 4, 0.02 / 4], rel=0.05)
