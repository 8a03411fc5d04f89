"""Functions whose result is a constant of a compiled model, and transforms of torch."""

import sys
from subprocess import run

import pytest
import torch

from patchword.core.tracing import is_transformed, trace_constant


def test_it_is_the_mark_of_torch():
    def ours() -> int:
        return 1

    def theirs() -> int:
        return 1

    assert vars(trace_constant(ours)) == vars(torch.compiler.assume_constant_result(theirs)) != {}


def test_the_result_becomes_a_constant():
    calls = []

    @trace_constant
    def count() -> int:
        calls.append(1)
        return len(calls)

    compiled = torch.compile(lambda x: x * count(), backend="eager", fullgraph=True)
    assert [int(compiled(torch.ones(1))) for _ in range(3)] == [1, 1, 1]


def test_training_does_not_import_the_compiler_or_fsdp():
    """They take three seconds, of every command."""
    code = "import sys, patchword.recipes.train; print({'torch._dynamo', 'torch.distributed.fsdp'} & {*sys.modules})"
    assert run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout == "set()\n"


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
def test_transforms_of_torch_are_detected_under_the_compiler(transform, seen, compile):
    def scaled(number):
        return number.sum() * (2 if is_transformed() else 3)

    run = transform(scaled)
    answer = (torch.compile(run, backend="eager", fullgraph=True) if compile else run)(torch.ones(1))
    assert float(answer.sum()) == (2 if seen else 3)
