"""A kernel runs a self-test before its first use, in eager and in compiled models."""

import pytest
import torch
from torch._subclasses import FakeTensorMode
from torch.autograd import forward_ad
from torch.utils.checkpoint import checkpoint

from patchword.kernels.common import availability
from patchword.kernels.common.availability import SelfTest, is_usable, run_self_tests


@pytest.fixture
def self_tests(monkeypatch):
    """Only the self-tests of this test, on a machine with Triton."""
    found: list[SelfTest] = []
    monkeypatch.setattr(availability, "_SELF_TESTS", found)
    monkeypatch.setattr(availability, "is_installed", lambda: True)
    return found


def on_gpu():
    with FakeTensorMode():
        return torch.empty(3, device="cuda:0")


def test_a_self_test_runs_once(self_tests):
    asked = []
    self_test = SelfTest("things", lambda device: asked.append(device) or True)
    assert is_usable(on_gpu(), self_test)
    assert is_usable(on_gpu(), self_test)
    assert asked == [torch.device("cuda", 0)]
    assert not is_usable(torch.empty(3), self_test)


def test_a_failed_kernel_is_reported_and_not_used(self_tests):
    self_test = SelfTest("things", lambda device: False)
    with pytest.warns(UserWarning, match="the kernel for things is not used .* do not match the reference"):
        assert not is_usable(on_gpu(), self_test)
    other = SelfTest("others", lambda device: 1 // 0)
    with pytest.warns(UserWarning, match="ZeroDivisionError"):
        assert not is_usable(on_gpu(), other)


def test_a_compiled_model_does_not_use_a_failed_kernel(self_tests, monkeypatch):
    bad, good = SelfTest("bad", lambda device: False), SelfTest("good", lambda device: True)
    elsewhere = SelfTest("elsewhere", lambda device: 1 // 0, on=lambda index: False)
    with pytest.warns(UserWarning, match="bad"):
        run_self_tests(torch.device("cuda", 0))
    assert not elsewhere.found
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    assert [is_usable(on_gpu(), self_test) for self_test in (bad, good, elsewhere)] == [False, True, True]


def learned(device):
    """A self-test that computes gradients, as those of kernels do."""
    weight = torch.ones(3, requires_grad=True)
    product = weight.double() @ torch.ones(3, dtype=torch.float64)
    return product.dtype == torch.float64 and bool(torch.autograd.grad(product, weight)[0].all())


def test_the_context_of_the_call_does_not_change_the_self_test(self_tests):
    """Autocast, disabled gradients, activation checkpointing."""
    self_test = SelfTest("things", lambda device: learned(device) and not torch.is_autocast_enabled("cpu"))

    def block(tokens):
        assert is_usable(on_gpu(), self_test)
        return tokens.sin()

    tokens = torch.ones(3, requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16):
        checkpoint(block, tokens, use_reentrant=False).sum().backward()
    assert self_test.found == {0: True}
    self_test.found.clear()
    with torch.inference_mode():
        assert is_usable(on_gpu(), self_test)


def test_it_is_not_used_with_forward_mode_autodiff(self_tests):
    self_test = SelfTest("things", lambda device: True)
    with forward_ad.dual_level():
        assert not is_usable(on_gpu(), self_test)
    assert is_usable(on_gpu(), self_test)


def test_no_self_test_runs_on_a_cpu(self_tests):
    self_test = SelfTest("things", lambda device: 1 // 0)
    run_self_tests(torch.device("cpu"))
    assert not self_test.found


def test_a_tensor_subclass_has_no_short_dtype():
    own = torch.Tensor._make_subclass(type("Own", (torch.Tensor,), {}), torch.zeros(2, 2, dtype=torch.bfloat16))
    tokens = torch.zeros(1, 2, dtype=torch.bfloat16)
    assert availability.short_dtype(tokens, torch.zeros(2, 2, dtype=torch.bfloat16)) == torch.bfloat16
    assert availability.short_dtype(tokens, own) is None
