"""The fusion rules: what they replace, what they leave alone, and that the given model stays as it is."""

import pytest
import torch
from torch import nn

import patchword
from patchword.core.scope import Scope
from patchword.fusion import attention as fused_attention
from patchword.fusion import mlp as fused_mlp
from patchword.fusion.attention import FusedAttention
from patchword.fusion.convolution import DepthwiseResidual, FoldedConvNorm, SeparableQKV
from patchword.fusion.mlp import FusedMLP, LinearGelu, OutProjMLP
from patchword.fusion.patterns import are_inactive, can_be_inactive
from patchword.fusion.rules import RULES, fuse
from patchword.fusion.stem import ConvStemNorm
from patchword.layers import Attention, Block, FeedForward, LayerScale, Norm, Residual, pre_norm_block
from patchword.layers.drop_path import DropPath
from patchword.layers.dropout import Dropout
from patchword.models import REGISTRY
from support.helpers import difference, pixels, randomise

SMALL = {"image": 56, "width": 16, "classes": 5}
MODELS = {
    "swin-tiny": {"depths": (2, 1), "heads": (2, 4)},
    "cswin-tiny": {"depths": (1, 2), "heads": (2, 4), "stripes": (2, 7)},
    "pale-tiny": {"depths": (1, 2), "heads": (2, 4), "pales": (7, 7)},
}
FUSED = {
    "swin-tiny": {OutProjMLP, FusedAttention, FusedMLP, LinearGelu},
    "cswin-tiny": {ConvStemNorm, OutProjMLP, FusedAttention, FusedMLP, LinearGelu},
    "pale-tiny": {
        ConvStemNorm, OutProjMLP, FusedAttention, FusedMLP, LinearGelu, SeparableQKV, FoldedConvNorm, DepthwiseResidual,
    },
}  # fmt: skip


def made(name):
    return randomise(REGISTRY.create(name, **SMALL, **MODELS[name])).eval()


def tree(model):
    """every module with its name and class, and what a copy could have changed"""
    parts = [(name, type(part), id(part), dict(vars(part))) for name, part in model.named_modules()]
    return [(name, kind, key, {each: id(value) for each, value in seen.items()}) for name, kind, key, seen in parts]


@pytest.mark.parametrize("name", MODELS)
def test_which_modules_are_replaced(name):
    found = {type(part) for part in fuse(made(name)).modules() if type(part).__module__.startswith("patchword.fusion")}
    assert found == FUSED[name]


@pytest.mark.parametrize("name", MODELS)
def test_the_given_model_stays_as_it_is(name):
    model, images = made(name), pixels(2, 3, 56, 56)
    seen = []
    model.stages[0].encoder.blocks[0].register_forward_hook(lambda *given: seen.append(1))
    before, state, expected = tree(model), {key: id(part) for key, part in model.named_parameters()}, model(images)
    fused = fuse(model)
    assert fused is not model
    assert tree(model) == before
    assert {key: id(part) for key, part in model.named_parameters()} == state
    assert torch.equal(model(images), expected)
    assert difference(fused(images), expected) < 1e-6
    assert len(seen) == 3  # hooks of a block are called by the fused model, too


@pytest.mark.parametrize("name", MODELS)
def test_parameters_and_buffers_are_shared(name):
    model = made(name)
    fused, images = fuse(model), pixels(2, 3, 56, 56)
    assert {id(part) for part in fused.parameters()} == {id(part) for part in model.parameters()}
    assert {id(part) for part in fused.buffers()} == {id(part) for part in model.buffers()}
    model.load_state_dict({key: value + 0.01 for key, value in model.state_dict().items()})
    assert difference(fused(images), model(images)) < 1e-6


def test_a_shared_block_is_fused_once():
    block = Block(feed_forward=Residual(FeedForward(4, 8), nn.LayerNorm(4)))
    pair = fuse(nn.ModuleList([block, block]))
    assert pair[0] is pair[1]
    assert type(pair[0].feed_forward) is FusedMLP


def test_a_model_without_a_match_is_returned_itself():
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    assert fuse(model) is model


def test_compile_leaves_the_given_model_as_it_is(monkeypatch):
    """and compiles the fused one for inference, the given one for training"""
    compiled = []
    monkeypatch.setattr(torch, "compile", lambda model, **options: compiled.append(model) or model)
    model, images = made("swin-tiny"), pixels(2, 3, 56, 56)
    before, expected = tree(model), model(images)
    fast = patchword.compile(model)
    assert tree(model) == before
    assert fast is compiled[0]
    assert any(isinstance(part, OutProjMLP) for part in fast.modules())
    assert difference(fast(images), expected) < 1e-6
    assert {id(part) for part in fast.parameters()} == {id(part) for part in model.parameters()}
    compiled.clear()
    patchword.compile(model, training=True)
    assert all(each is model for each in compiled)


def test_a_compiled_model_computes_the_same():
    model, images = made("pale-tiny"), pixels(2, 3, 56, 56)
    with torch.no_grad():
        found = torch.compile(fuse(model), backend="eager", fullgraph=True)(images)
    assert difference(found, model(images)) < 1e-5


# What forbids a fusion


@pytest.fixture
def calls(monkeypatch):
    """Whatever the machine, there is a kernel for feed-forwards, which answers with sevens."""
    seen = []
    monkeypatch.setattr(fused_mlp, "has_fused_mlp_kernel", lambda *given: True)
    monkeypatch.setattr(fused_mlp, "fused_mlp", lambda tokens, *rest: seen.append(1) or tokens)
    return seen


def residual(where=Norm.PRE, **options):
    return Residual(FeedForward(8, 16), nn.LayerNorm(8), where, **options).eval()


@pytest.mark.parametrize("hooked", ["", "scale", "dropout", "drop_path", "norm", "sublayer", "sublayer.dropout"])
@pytest.mark.parametrize("kind", ["forward_hook", "forward_pre_hook", "full_backward_hook"])
def test_modules_with_hooks_are_not_fused(calls, hooked, kind):
    part, tokens = residual(), pixels(1, 2, 8)
    fuse(part)(tokens, Scope())
    assert len(calls) == 1
    getattr(part.get_submodule(hooked), f"register_{kind}")(lambda *given: None)
    assert torch.equal(fuse(part)(tokens, Scope()), part(tokens, Scope()))
    assert len(calls) == 1


def test_an_overridden_forward_is_not_fused(calls):
    part, tokens = residual(), pixels(1, 2, 8)
    part.sublayer.up.forward = lambda tokens: torch.zeros(1, 2, 16)
    assert torch.equal(fuse(part)(tokens, Scope()), part(tokens, Scope()))
    assert not calls


def test_global_hooks_forbid_fusion(calls):
    part, seen = residual(), []
    hook = nn.modules.module.register_module_forward_hook(lambda module, *_: seen.append(module))
    try:
        fuse(part)(pixels(1, 2, 8), Scope())
    finally:
        hook.remove()
    assert not calls
    assert part.sublayer.up in seen


@pytest.mark.parametrize("between", [nn.Dropout(0.5), nn.Dropout(0.5).eval(), nn.Identity(), nn.Tanh()], ids=str)
def test_another_module_may_be_between_and_drop_by_itself(calls, between):
    """as Monte Carlo dropout does: the model is in evaluation, its dropout is not"""
    part = residual()
    part.dropout = between
    fuse(part)(pixels(1, 2, 8), Scope())
    inactive = isinstance(between, nn.Identity) or (isinstance(between, nn.Dropout) and not between.training)
    assert len(calls) == inactive


def test_the_mode_may_change_after_fusing(calls):
    part = residual(drop_path=0.5)
    fused, tokens = fuse(part), pixels(1, 2, 8)
    part.train()
    fused(tokens, Scope())
    assert not calls
    part.eval()
    fused(tokens, Scope())
    assert len(calls) == 1


@pytest.mark.parametrize(
    ("part", "possible", "now"),
    [
        (Dropout(0.0), True, True),
        (Dropout(0.1), True, False),
        (Dropout(0.1).eval(), True, True),
        (nn.Dropout(0.1), True, False),
        (DropPath(0.1), True, False),
        (DropPath(0.1).eval(), True, True),
        (nn.Identity(), True, True),
        (nn.Tanh(), False, None),
        (LayerScale(4), False, None),
        (type("Own", (Dropout,), {})(0.0), False, None),
    ],
)
def test_which_modules_pass_everything_through(part, possible, now):
    assert can_be_inactive(part) == possible
    assert now is None or are_inactive(part) == now
    part.register_forward_hook(lambda *given: None)
    assert not can_be_inactive(part)


def block(where=Norm.PRE):
    part = pre_norm_block(8, Attention(8, 2), FeedForward(8, 16), eps=1e-5).eval()
    part.attention.where = where
    return part


HOOKED = [f"{part}{of}" for part in ("attention", "feed_forward") for of in ("", ".scale", ".dropout", ".drop_path")]


@pytest.mark.parametrize("hooked", [None, *HOOKED, "attention.sublayer.output"])
def test_attention_and_feed_forward_are_joined_unless_one_has_hooks(hooked):
    part = block()
    if hooked:
        part.get_submodule(hooked).register_forward_hook(lambda *given: None)
    assert any(isinstance(each, OutProjMLP) for each in fuse(part).modules()) == (hooked is None)


@pytest.mark.parametrize("where", [Norm.POST, Norm.BRANCH])
def test_residuals_with_other_norms_are_not_joined(where):
    found = {type(each) for each in fuse(block(where)).children()}
    assert found == {Residual, FusedMLP}


def test_each_block_is_joined_pair_by_pair():
    """A residual before them, and a second attention, run as they are."""
    parts = block()
    three = Block(first=residual(), attention=parts.attention, other=block().attention, feed_forward=parts.feed_forward)
    assert [name for name, _ in fuse(three).named_children()] == ["first", "attention", "other"]
    assert [type(each) for each in fuse(three).children()] == [FusedMLP, FusedAttention, OutProjMLP]


def test_attention_over_a_memory_runs_as_it_is(monkeypatch):
    monkeypatch.setattr(fused_attention, "has_linear_residual_kernel", lambda *given: pytest.fail("not asked"))
    part, tokens = block().attention, pixels(1, 2, 8)
    assert torch.equal(fuse(part)(tokens, Scope(memory=tokens)), part(tokens, Scope(memory=tokens)))


def test_the_table_names_every_kernel_for_inference():
    assert list(RULES) == [
        "conv_stem_norm", "conv_stem", "conv_residual", "folded_conv_norm", "separable_qkv",
        "depthwise_residual", "norm_linear", "linear_gelu", "fused_mlp", "out_proj_mlp",
    ]  # fmt: skip
