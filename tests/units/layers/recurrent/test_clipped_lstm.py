"""The quick recurrent layer is its plain twin: states, all gradients, and second derivatives, where bounds cut off."""

from collections import Counter

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from patchword.kernels.lstm import operation as lstm
from patchword.kernels.lstm.operation import Bounds, Weights, clipped_lstm, fused_lstm, lstm_reference
from patchword.layers import ClippedLstm
from support.helpers import difference

BOUNDS = Bounds(0.5, 0.3)
DOUBLE = torch.float64


def operands(
    words: int = 7, dtype: torch.dtype = DOUBLE, texts: int = 3, width: int = 4, cells: int = 5
) -> list[Tensor]:
    """Large enough that both bounds cut off some of the values, and not all."""
    generator = torch.Generator().manual_seed(0)
    gates, states = 4 * cells, cells - 2
    shapes = (2, words, texts, width), (2, width, gates), (2, states, gates), (2, 1, gates), (2, cells, states)
    return [torch.randn(shape, generator=generator, dtype=DOUBLE).to(dtype).requires_grad_() for shape in shapes]


def quick(tokens, *others):
    return fused_lstm(tokens, Weights(*others[:4]), *others[4:])


def plain(*given):
    return lstm_reference(*given)


def found(path, given, bounds=BOUNDS, whole=DOUBLE):
    """the states, and the gradients of all that enters"""
    states = path(*given, bounds, whole)
    upstream = torch.randn(states.shape, generator=torch.Generator().manual_seed(1), dtype=DOUBLE).to(states.dtype)
    return [states.detach(), *torch.autograd.grad(states, given, upstream)]


@pytest.mark.parametrize("words", [1, 2, 7])
def test_states_and_gradients_are_those_of_the_plain_loop(words):
    given = operands(words)
    for ours, expected in zip(found(quick, given), found(plain, given), strict=True):
        torch.testing.assert_close(ours, expected, rtol=1e-10, atol=1e-12)
    states = found(quick, given)[0]
    assert 0.1 < float((states.abs() == BOUNDS.output).double().mean()) < 0.9


def test_the_bounds_cut_gradients_off():
    """Wider ones give others: the test above would see it."""
    given = operands()
    for bounds in (Bounds(1e9, BOUNDS.output), Bounds(BOUNDS.cell, 1e9)):
        others = zip(found(quick, given, bounds), found(quick, given), strict=True)
        assert all(difference(other, ours) > 1e-3 for other, ours in others)


@pytest.mark.parametrize("field", ["cell_kept", "output_kept"])
def test_a_bound_forgotten_in_the_gradient_is_seen(monkeypatch, field):
    given, forwards = operands(), lstm._forwards

    def forgetful(*arguments):
        read = forwards(*arguments)
        return read._replace(**{field: torch.ones_like(getattr(read, field))})

    monkeypatch.setattr(lstm, "_forwards", forgetful)
    pairs = zip(found(quick, given)[1:], found(plain, given)[1:], strict=True)
    assert all(difference(ours, expected) > 1e-3 for ours, expected in pairs)


def test_at_the_bound_a_gradient_passes():
    """As torch's clamp has it: nothing is cut off where a value is the bound."""
    given = [torch.zeros_like(tensor) for tensor in operands(1)]
    given[3][..., 15:] = 20.0  # i, f and o are one half, g is one
    given[4][:, 0] = 0.25
    given = [tensor.requires_grad_() for tensor in given]
    state = float(found(quick, given, Bounds(0.5, 9.0))[0][0, 0, 0, 0])
    for bounds in (Bounds(0.5, 9.0), Bounds(9.0, state)):
        ours, expected = found(quick, given, bounds), found(plain, given, bounds)
        assert ours[4][..., 0].all()
        torch.testing.assert_close(ours, expected, rtol=1e-10, atol=1e-12)
    assert not found(quick, given, Bounds(0.499, 9.0))[4][..., 0].any()
    assert not found(quick, given, Bounds(9.0, 0.999 * state))[4][..., 0].any()


def test_first_and_second_derivatives_are_right():
    given = operands(3, texts=2, width=2, cells=4)
    states = quick(*given, BOUNDS, DOUBLE)
    assert 0.1 < float((states.abs() == BOUNDS.output).double().mean()) < 0.9
    assert torch.autograd.gradcheck(lambda *some: quick(*some, BOUNDS, DOUBLE), given)
    assert torch.autograd.gradgradcheck(lambda *some: quick(*some, BOUNDS, DOUBLE), given, atol=1e-4)


def test_only_what_is_wanted_has_a_gradient():
    given = operands()
    expected = found(plain, given)
    for number, tensor in enumerate(given):
        others = [some if some is tensor else some.detach() for some in given]
        states = quick(*others, BOUNDS, DOUBLE)
        upstream = torch.randn(states.shape, generator=torch.Generator().manual_seed(1), dtype=DOUBLE)
        (gradient,) = torch.autograd.grad(states, tensor, upstream)
        assert difference(gradient, expected[number + 1]) < 1e-12


def test_twice_backwards_is_twice_the_same():
    given = operands()
    states = quick(*given, BOUNDS, DOUBLE)
    first = torch.autograd.grad(states.sum(), given, retain_graph=True)
    assert all(torch.equal(*pair) for pair in zip(first, torch.autograd.grad(states.sum(), given), strict=True))


def test_narrow_products_keep_the_cells_whole():
    """States are the plain loop's to the bit; gradients differ by what narrow numbers round."""
    given = operands(dtype=torch.bfloat16)
    ours, expected = (found(path, given, whole=torch.float32) for path in (quick, plain))
    assert torch.equal(ours[0], expected[0])
    for gradient, wanted in zip(ours[1:], expected[1:], strict=True):
        assert gradient.dtype == torch.bfloat16
        assert difference(gradient.float(), wanted.float()) < 0.03 * wanted.float().abs().max()


# The layer


class Operations(TorchDispatchMode):
    """Counts what runs; views run nothing."""

    def __init__(self):
        super().__init__()
        self.seen = Counter()

    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        if not function.is_view:
            self.seen[str(function)] += 1
        return function(*arguments, **(options or {}))


def layer_and_tokens(words: int) -> tuple[ClippedLstm, Tensor]:
    torch.manual_seed(0)
    return ClippedLstm(4, 5, 3, cell_clip=0.5, output_clip=0.3), torch.randn(2, 3, words, 4)


def counted(words: int, narrow: bool) -> Operations:
    layer, tokens = layer_and_tokens(words)
    with Operations() as seen:
        with torch.autocast("cpu", torch.bfloat16, enabled=narrow):
            states = layer(tokens)
        states.sum().backward()
    return seen


@pytest.mark.parametrize(("narrow", "most"), [(False, 17), (True, 18)])
def test_a_step_is_few_operations(narrow, most):
    more = counted(9, narrow).seen
    more.subtract(counted(8, narrow).seen)
    assert more.total() <= most, more


def test_which_path_is_taken(monkeypatch):
    taken = []
    for name in ("fused_lstm", "lstm_reference"):
        path = getattr(lstm, name)
        monkeypatch.setattr(lstm, name, lambda *some, path=path, name=name: taken.append(name) or path(*some))
    layer, tokens = layer_and_tokens(4)
    layer(tokens)
    with torch.no_grad():
        layer(tokens)
    layer.requires_grad_(False)
    layer(tokens)
    layer(tokens.requires_grad_())
    torch.func.grad(lambda some: layer(some).sum())(tokens.detach())
    assert taken == ["fused_lstm", "lstm_reference", "lstm_reference", "fused_lstm", "lstm_reference"]


def test_autocast_decides_the_precision():
    layer, tokens = layer_and_tokens(4)
    with torch.autocast("cpu", torch.bfloat16):
        states = layer(tokens)
        layer.double()
        assert layer(tokens.double()).dtype == DOUBLE
    layer.float()
    assert states.dtype == torch.bfloat16
    assert layer(tokens).dtype == torch.float32
    assert difference(states.float(), layer(tokens)) < 0.02


def test_the_chooser_answers_alike():
    given = operands()
    with torch.no_grad():
        expected = clipped_lstm(given[0], Weights(*given[1:]), BOUNDS, DOUBLE)
    assert difference(clipped_lstm(given[0], Weights(*given[1:]), BOUNDS, DOUBLE).detach(), expected) < 1e-12
