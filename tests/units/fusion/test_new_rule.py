"""A new kernel touches its own folder, a new fusion rule one line of RULES: toys are added through these alone."""

import pytest
import torch
from torch import nn
from torch._subclasses import FakeTensorMode

import patchword
from patchword.fusion.rules import RULES, fuse
from patchword.kernels.common import availability
from support.helpers import pixels
from support.source_code import SOURCE, files, imported, tree_of
from support.toys import toy_kernel
from support.toys.toy_kernel import Affine, kernel, ran, rule
from support.toys.worked_examples import documented_files


@pytest.fixture(autouse=True)
def self_test(monkeypatch):
    """The toy's self-test alone, on a machine with Triton; it runs on the CPU."""
    ran.clear()
    devices = []
    monkeypatch.setattr(availability, "_SELF_TESTS", [kernel.SELF_TEST])
    monkeypatch.setattr(availability, "is_installed", lambda: True)
    monkeypatch.setattr(kernel.SELF_TEST, "found", {})
    monkeypatch.setattr(
        kernel.SELF_TEST,
        "matches_reference",
        lambda device: devices.append(device) or toy_kernel.matches_reference(torch.device("cpu")),
    )
    return devices


def on_gpu():
    """Tensors without values that are on a GPU, whatever the machine."""
    with FakeTensorMode():
        return [torch.empty(shape, device="cuda:0") for shape in ((3, 8), (8,), (8,))]


def on_cpu():
    return [pixels(3, 8), pixels(8), pixels(8)]


# The kernel


def test_a_kernel_needs_no_line_outside_its_folder():
    """A self-test lists itself, and the common code knows no kernel."""
    assert documented_files("a kernel") == set()
    assert toy_kernel.listed is kernel.SELF_TEST
    shared = [SOURCE / "kernels" / "__init__.py", *files(SOURCE / "kernels" / "common")]
    names = [name for path in shared for name in imported(tree_of(path)) if name.startswith("patchword.kernels.")]
    assert [name for name in names if not name.startswith("patchword.kernels.common.")] == []


def test_the_kernel_runs_where_its_self_test_passes(self_test):
    assert kernel.scale_shift(*on_gpu()).shape == (3, 8)
    assert kernel.scale_shift(*on_gpu()).shape == (3, 8)
    assert self_test == [torch.device("cuda", 0)]  # once
    assert ran == ["kernel", "kernel's shape", "kernel's shape"]  # the first one in the self-test


@pytest.mark.parametrize("fault", [lambda device: False, lambda device: 1 // 0])
def test_the_reference_runs_where_the_self_test_fails(fault, monkeypatch):
    monkeypatch.setattr(kernel.SELF_TEST, "matches_reference", fault)
    with pytest.warns(UserWarning, match="the kernel for scale_shift is not used on this machine; the reference is"):
        kernel.scale_shift(*on_gpu())
    kernel.scale_shift(*on_gpu())
    assert ran == ["reference", "reference"]


def test_the_reference_runs_on_a_cpu_and_where_a_gradient_is_needed(self_test):
    x, scale, shift = on_cpu()
    assert torch.equal(kernel.scale_shift(x, scale, shift), x * scale + shift)
    x, scale, shift = on_gpu()
    assert not kernel.has_scale_shift_kernel(x, scale.requires_grad_(), shift)
    assert ran == ["reference"]
    assert self_test == []


def test_the_operation_is_one_that_the_compiler_calls():
    given = on_cpu()
    found = torch.compile(kernel._run, backend="eager", fullgraph=True)(*given)
    assert kernel._run is torch.ops.patchword.scale_shift
    torch.testing.assert_close(found, toy_kernel.scale_shift_reference(*given))


def test_compile_runs_the_self_test_before(self_test):
    availability.run_self_tests(torch.device("cuda", 0))
    assert self_test == [torch.device("cuda", 0)]
    assert kernel.SELF_TEST.found == {0: True}


# The fusion rule


@pytest.fixture
def registered(monkeypatch):
    """The one line that a new rule adds."""
    monkeypatch.setitem(RULES, "scale_shift", rule.ScaleShift.of)


@pytest.fixture
def model():
    return nn.Sequential(Affine(8), nn.Linear(8, 8), nn.Sequential(Affine(8))).eval()


def state(model):
    """Every module with its name and class, and the identity of all that it holds."""
    held = [(name, type(part), id(part), vars(part)) for name, part in model.named_modules()]
    return [(name, kind, key, {each: id(value) for each, value in parts.items()}) for name, kind, key, parts in held]


def fused_parts(model):
    return [name for name, part in model.named_modules() if isinstance(part, rule.ScaleShift)]


def test_the_documentation_names_this_file():
    assert documented_files("a fusion rule") == {"fusion/rules.py"}


def test_no_other_code_lists_the_rules():
    """The files of fused modules are imported inside fusion/ only."""
    public = ("patchword.fusion.rules", "patchword.fusion.compile")
    names = [
        (str(path.relative_to(SOURCE)), name)
        for path in files(SOURCE)
        if path.parent != SOURCE / "fusion"
        for name in imported(tree_of(path))
        if name.startswith("patchword.fusion.")
    ]
    assert [(path, name) for path, name in names if not name.startswith(public)] == []
    assert [name for _, name in names if name.endswith(".RULES")] == []


def test_without_the_line_nothing_is_fused(model):
    assert fuse(model) is model


def test_fuse_applies_the_new_rule_and_leaves_the_model_as_it_was(registered, model):
    before, tokens = state(model), pixels(3, 8)
    expected = model(tokens)
    fused = fuse(model)
    assert fused_parts(fused) == ["0", "2.0"]
    assert torch.equal(fused(tokens), expected)
    assert state(model) == before
    assert {id(part) for part in fused.parameters()} == {id(part) for part in model.parameters()}
    assert ran == []  # on a CPU the fused module runs the original


def test_the_fused_module_runs_the_kernel_where_it_can(registered, model, monkeypatch):
    tokens, fused = pixels(3, 8), fuse(model)
    monkeypatch.setattr(rule, "has_scale_shift_kernel", lambda *given: True)
    monkeypatch.setattr(kernel, "has_scale_shift_kernel", lambda *given: True)
    torch.testing.assert_close(fused(tokens), model(tokens))
    assert ran == ["kernel", "kernel"]


def test_modules_that_compute_another_function_are_not_replaced(registered, model):
    class Own(Affine):
        pass

    model[0].register_forward_hook(lambda *given: None)
    model[2][0] = Own(8)
    assert fuse(model) is model


def test_compile_applies_the_new_rule_for_inference_only(registered, model, monkeypatch):
    compiled = []
    monkeypatch.setattr(torch, "compile", lambda module, **options: compiled.append(module) or module)
    before, tokens = state(model), pixels(3, 8)
    assert torch.equal(patchword.compile(model)(tokens), model(tokens))
    assert fused_parts(compiled.pop()) == ["0", "2.0"]
    patchword.compile(model, training=True)
    assert all(module is model for module in compiled)
    assert state(model) == before
