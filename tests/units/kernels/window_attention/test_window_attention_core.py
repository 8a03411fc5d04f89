"""The attention core uses the window kernel where it can, with the same results: gradients, compiled, recorded."""

from copy import deepcopy

import pytest
import torch
from functorch.compile import make_boxed_func
from torch._dynamo.backends.common import aot_autograd

from patchword.core.grid import Grid
from patchword.core.scope import Scope
from patchword.kernels.window_attention import operation
from patchword.layers import (
    Attention,
    Interlaced,
    LinearProjection,
    LocalEnhancement,
    Pattern,
    Position,
    RelativeTable,
    SeparableProjection,
    Windows,
    record_attention,
    reference_attention,
)
from support.helpers import pixels, randomise
from support.kernel_tests import DEVICE, assert_as_exact
from support.window_kernel_tests import softmax_of_the_kernel


@pytest.fixture
def taken(monkeypatch):
    """Makes the core use the kernel on this device, and records the calls."""
    pytest.importorskip("triton")
    calls = []
    monkeypatch.setattr(operation, "has_window_kernel", lambda query, head: True)
    original = operation.window_attention_kernel
    monkeypatch.setattr(operation, "window_attention_kernel", lambda *given: calls.append(given) or original(*given))
    return calls


GRID = Grid(5, 4)
SCOPE = Scope(grid=GRID)


def layer(*patterns, **given):
    return randomise(Attention(32, 2, patterns=patterns, **given)).to(DEVICE)


def differentiated(attention, dtype=torch.float32):
    """Returns the output, and the gradients of the tokens and of all parameters."""
    tokens = pixels(1, GRID.tokens, 32).to(DEVICE, dtype).requires_grad_()
    answer = attention(tokens, SCOPE)
    return [answer, *torch.autograd.grad(answer.sin().sum(), [tokens, *attention.parameters()])]


def assert_as_reference(found, attention, run=differentiated):
    """`found` is about as exact as what the reference computes; run: (attention, dtype) -> tensors"""
    with reference_attention(attention):
        with softmax_of_the_kernel():
            reference = run(attention, torch.float32)
        exact = run(deepcopy(attention).double(), torch.float64)
        assert_as_exact(found, reference, exact, factor=2.0)


def swin():
    return layer(Pattern(Windows(3, 3, shift=1), RelativeTable(2, Grid(3, 3))))


def cswin():
    return layer(*(Pattern(cut, LocalEnhancement(16)) for cut in (Windows(None, 2), Windows(3, None))))


def pale():
    cuts = Interlaced(2, None), Interlaced(None, 2)
    return layer(*(Pattern(cut) for cut in cuts), projection=SeparableProjection(32)).eval()


@pytest.mark.parametrize("attention", [swin, cswin, pale])
def test_the_core_uses_the_kernel_and_computes_the_same(taken, attention):
    attention = attention()
    found = differentiated(attention)
    assert len(taken) == 1
    assert_as_reference(found, attention)
    assert len(taken) == 1


def test_a_table_of_another_window_is_resized(taken):
    attention = layer(Pattern(Windows(4, 3), RelativeTable(2, Grid(3, 3))))
    found = differentiated(attention)
    assert_as_reference(found, attention)
    assert len(taken) == 1


class Doubled(Position):
    def enhance(self, attended, value, inner):
        return 2 * attended


class Subclassed(Windows):
    pass


def test_unsupported_patterns_do_not_use_the_kernel(taken):
    tokens = pixels(1, GRID.tokens, 32).to(DEVICE)
    for pattern in (Pattern(), Pattern(Windows(3, 3), Doubled()), Pattern(Subclassed(3, 3))):
        layer(pattern)(tokens, SCOPE)
    attention = layer(Pattern(Windows(3, 3)), dropout=0.5)
    attention(tokens, SCOPE)
    mask = torch.ones(1, 1, 1, 9, dtype=torch.bool, device=DEVICE)
    attention.eval()(tokens, Scope(grid=GRID, mask=mask))
    with record_attention(attention) as maps:
        attention(tokens, SCOPE)
    assert len(maps) == 1
    assert not taken
    attention(tokens, SCOPE)
    assert len(taken) == 1


def test_it_is_not_chosen_on_a_cpu(monkeypatch):
    monkeypatch.setattr(operation.SELF_TEST, "found", {0: True, -1: True})
    query = torch.zeros(1, 20, 32)
    assert not operation.has_window_kernel(query, 16)


def test_second_derivatives(taken):
    """Second derivatives are those of the reference."""
    attention = swin()

    def second(attention, dtype):
        tokens = pixels(1, GRID.tokens, 32).to(DEVICE, dtype).requires_grad_()
        first = torch.autograd.grad(attention(tokens, SCOPE).sin().sum(), tokens, create_graph=True)[0]
        return torch.autograd.grad(first.square().sum(), [tokens, attention.patterns[0].position.table])

    found = second(attention, torch.float32)
    assert len(taken) == 1
    assert_as_reference(found, attention, second)


def test_a_table_that_is_used_twice_has_the_gradient_of_both(taken):
    attention = swin()
    with torch.no_grad():  # with the weights as they are, float32 keeps three digits of this gradient
        for weight in attention.parameters():
            weight.mul_(0.5)

    def learned(attention, dtype, create_graph=False):
        answer = attention(attention(pixels(1, GRID.tokens, 32).to(DEVICE, dtype), SCOPE), SCOPE)
        table = attention.patterns[0].position.table
        return torch.autograd.grad(answer.sin().sum(), table, create_graph=create_graph)

    assert_as_reference(learned(attention, torch.float32, create_graph=True), attention, learned)
    assert len(taken) == 2


def test_an_empty_batch(taken):
    attention = swin()
    answer = attention(pixels(0, GRID.tokens, 32).to(DEVICE), SCOPE)
    assert answer.shape == (0, GRID.tokens, 32)
    assert not torch.autograd.grad(answer.sum(), attention.patterns[0].position.table)[0].any()
    assert len(taken) == 1


def test_hooks_are_called(taken):
    """A hook of a convolution needs the reference; a hook of the core sees the output of the kernel."""
    tokens, seen = pixels(1, GRID.tokens, 32).to(DEVICE), []
    attention = cswin()
    attention.patterns[1].position.convolution.register_forward_hook(lambda *given: seen.append(given))
    attention(tokens, SCOPE)
    assert not taken
    attention = swin()
    attention.core.register_forward_hook(lambda *given: seen.append(given))
    attention(tokens, SCOPE)
    assert len(seen) == 2
    assert len(taken) == 1


def test_a_convolution_without_a_bias_uses_the_reference(taken):
    attention, tokens = cswin(), pixels(1, GRID.tokens, 32).to(DEVICE)
    for pattern in attention.patterns:
        pattern.position.convolution.bias = None
    assert attention(tokens, SCOPE).shape == tokens.shape
    assert not taken


def test_a_compiler_sees_one_operation(taken):
    seen, attention = [], swin()

    def keep(module, inputs):
        seen.extend(str(node.target) for node in module.graph.nodes if "patchword" in str(node.target))
        return module.forward

    compiled = torch.compile(attention, backend=keep, fullgraph=True)
    found = differentiated(compiled)
    assert_as_reference(found, attention)
    assert seen == ["patchword.window_attention.default"]


def test_a_compiled_model_runs_the_two_operations(taken):
    """Neither has an autograd rule, and the compiler does not trace the kernels."""
    seen, attention = [], swin()

    def keep(module, inputs):
        seen.append([str(node.target) for node in module.graph.nodes if "patchword" in str(node.target)])
        return make_boxed_func(module)

    compiled = torch.compile(attention, backend=aot_autograd(fw_compiler=keep), fullgraph=True)
    differentiated(compiled)
    assert seen == [["patchword.window_attention_forward.default"], ["patchword.window_attention_back.default"]]
    with torch.no_grad():
        compiled(pixels(1, GRID.tokens, 32).to(DEVICE), SCOPE)
    assert seen[2:] == [["patchword.window_attention_forward.default"]]


def attention_operations(attention, tokens):
    """Returns the attention operations in the compiled graph, and the output."""
    seen = []

    def keep(module, inputs):
        named = [str(node.target) for node in module.graph.nodes]
        seen.extend(name for name in named if "patchword" in name or "attention" in name)
        return module.forward

    answer = torch.compile(attention, backend=keep, fullgraph=True)(tokens, Scope())
    return seen, answer


def test_dense_attention_of_few_tokens_uses_the_kernel_when_compiled(taken):
    """The limit is higher if a gradient is needed."""
    attention = layer(Pattern(), projection=LinearProjection(32)).to(torch.float16)
    for count, needs_grad, expected in ((64, False, True), (65, False, False), (128, True, True), (129, True, False)):
        tokens = pixels(1, count, 32).to(DEVICE, torch.float16).requires_grad_(needs_grad)
        with torch.set_grad_enabled(needs_grad):
            seen, answer = attention_operations(attention, tokens)
            assert (seen == ["patchword.window_attention.default"]) == expected
            with reference_attention(attention):
                exact = deepcopy(attention).double()(tokens.double(), Scope())
                assert_as_exact([answer], [attention(tokens, Scope())], [exact])
        torch.compiler.reset()


def test_other_dense_attention_is_left_to_torch(taken):
    tokens = pixels(1, 20, 32).to(DEVICE)
    seen, _ = attention_operations(layer(Pattern()), tokens)  # float32
    mask = torch.ones(1, 1, 1, 20, dtype=torch.bool, device=DEVICE)
    narrow = layer(Pattern()).to(torch.float16)
    narrow(tokens.half(), Scope())  # not compiled
    torch.compile(narrow, backend="eager")(tokens.half(), Scope(mask=mask))
    assert "patchword.window_attention.default" not in seen
    assert not taken
