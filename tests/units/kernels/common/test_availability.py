"""A kernel runs a self-test before its first use, in eager and in compiled models."""

import pytest
import torch
from torch._subclasses import FakeTensorMode
from torch.autograd import forward_ad
from torch.utils.checkpoint import checkpoint

from patchword.kernels.common import availability
from patchword.kernels.common.availability import SelfTest, is_usable, run_self_tests


@pytest.fixture
def trials(monkeypatch):
    """Only the self-tests of this test, on a machine with Triton."""
    found: list[SelfTest] = []
    monkeypatch.setattr(availability, "_SELF_TESTS", found)
    monkeypatch.setattr(availability, "is_installed", lambda: True)
    return found


def on_gpu():
    with FakeTensorMode():
        return torch.empty(3, device="cuda:0")


def test_it_is_tried_once(trials):
    asked = []
    trial = SelfTest("things", lambda device: asked.append(device) or True)
    assert is_usable(on_gpu(), trial)
    assert is_usable(on_gpu(), trial)
    assert asked == [torch.device("cuda", 0)]
    assert not is_usable(torch.empty(3), trial)


def test_what_fails_is_told_and_not_used(trials):
    trial = SelfTest("things", lambda device: False)
    with pytest.warns(UserWarning, match="the kernel for things is not used .* do not match the reference"):
        assert not is_usable(on_gpu(), trial)
    other = SelfTest("others", lambda device: 1 // 0)
    with pytest.warns(UserWarning, match="ZeroDivisionError"):
        assert not is_usable(on_gpu(), other)


def test_a_compiled_model_leaves_out_what_failed_before(trials, monkeypatch):
    bad, good = SelfTest("bad", lambda device: False), SelfTest("good", lambda device: True)
    elsewhere = SelfTest("elsewhere", lambda device: 1 // 0, on=lambda index: False)
    with pytest.warns(UserWarning, match="bad"):
        run_self_tests(torch.device("cuda", 0))
    assert not elsewhere.found
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    assert [is_usable(on_gpu(), trial) for trial in (bad, good, elsewhere)] == [False, True, True]


def learned(device):
    """A self-test that computes gradients, as those of kernels do."""
    weight = torch.ones(3, requires_grad=True)
    product = weight.double() @ torch.ones(3, dtype=torch.float64)
    return product.dtype == torch.float64 and bool(torch.autograd.grad(product, weight)[0].all())


def test_nothing_around_the_call_changes_the_trial(trials):
    """Autocast, disabled gradients, activation checkpointing."""
    trial = SelfTest("things", lambda device: learned(device) and not torch.is_autocast_enabled("cpu"))

    def block(tokens):
        assert is_usable(on_gpu(), trial)
        return tokens.sin()

    tokens = torch.ones(3, requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16):
        checkpoint(block, tokens, use_reentrant=False).sum().backward()
    assert trial.found == {0: True}
    trial.found.clear()
    with torch.inference_mode():
        assert is_usable(on_gpu(), trial)


def test_not_where_tangents_are_carried_along(trials):
    trial = SelfTest("things", lambda device: True)
    with forward_ad.dual_level():
        assert not is_usable(on_gpu(), trial)
    assert is_usable(on_gpu(), trial)


def test_on_a_cpu_nothing_is_tried(trials):
    trial = SelfTest("things", lambda device: 1 // 0)
    run_self_tests(torch.device("cpu"))
    assert not trial.found


@pytest.mark.parametrize(
    ("transform", "seen"),
    [
        (lambda f: lambda x: torch.func.jvp(f, (x,), (x,))[0], True),
        (lambda f: torch.func.grad(f), True),
        (lambda f: lambda x: torch.func.vmap(f)(x[None])[0], True),
        (lambda f: f, False),
    ],
    ids=["jvp", "grad", "vmap", "none"],
)
@pytest.mark.parametrize("compile", [False, True])
def test_transforms_of_torch_are_seen_by_a_compiler_too(transform, seen, compile):
    def scaled(number):
        return number.sum() * (2 if availability._is_transformed() else 3)

    run = transform(scaled)
    answer = (torch.compile(run, backend="eager", fullgraph=True) if compile else run)(torch.ones(1))
    assert float(answer.sum()) == (2 if seen else 3)


def test_a_tensor_with_ways_of_its_own_is_multiplied_in_its_own_way():
    own = torch.Tensor._make_subclass(type("Own", (torch.Tensor,), {}), torch.zeros(2, 2, dtype=torch.bfloat16))
    tokens = torch.zeros(1, 2, dtype=torch.bfloat16)
    assert availability.short_dtype(tokens, torch.zeros(2, 2, dtype=torch.bfloat16)) == torch.bfloat16
    assert availability.short_dtype(tokens, own) is None
