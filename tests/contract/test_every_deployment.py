"""Every family compiles in one graph, and its files are right. `pytest -m slow -s` prints the differences."""

import pytest
import torch
from torch import nn

from patchword.core.errors import UserError
from patchword.models import REGISTRY
from support.deployment.cases import Case, cases
from support.deployment.outcome import HEAD, outcome_of
from support.helpers import pixels
from support.speed.quick_export import share_operators
from support.sweeps import sweep

pytest.importorskip("onnxruntime")
CASES = cases()
QUICK = ["gpt", "over-vectors"]  # with attention and with a recurrence; the other families are slow


@pytest.fixture(scope="module", autouse=True)
def _table(request):
    share_operators()
    if request.config.option.capture == "no":
        print(f"\n{HEAD}")


def test_every_family_has_a_case():
    families = {family.name for family in REGISTRY.families}
    assert families | {"bigbird-sparse"} == set(CASES)


@pytest.mark.parametrize("name", sweep(CASES, QUICK))
def test_it_compiles_in_one_graph_and_exports(name, tmp_path):
    outcome = outcome_of(name, CASES[name], tmp_path)
    print(outcome.line())
    assert not outcome.failures
    assert not outcome.refusal
    assert None not in (outcome.exported, outcome.program)


# What the sweep would report


class Toy(nn.Module):
    """Multiplies by a matrix, and does what it is made for while it is compiled."""

    def __init__(self, act) -> None:
        super().__init__()
        self.linear, self.act = nn.Linear(3, 3), act

    def forward(self, tokens):
        return self.act(self.linear(tokens))


def refuse(path):
    raise UserError("no file", expected="a model", hint="make one")


def fail(path):
    raise RuntimeError("raw")


def broken(tokens):
    torch._dynamo.graph_break()
    return tokens


def other(tokens):
    return tokens * 1.001 if torch.compiler.is_compiling() else tokens


@pytest.mark.parametrize(
    ("act", "write", "failure"),
    [
        (torch.tanh, refuse, ""),
        (broken, refuse, "graph break"),
        (other, refuse, "compiled outputs differ"),
        (lambda tokens: tokens / 0, refuse, "compiled outputs differ by nan"),
        (torch.tanh, fail, "RuntimeError: raw"),
    ],
)
def test_a_break_a_difference_and_a_raw_error_are_failures(act, write, failure, tmp_path):
    outcome = outcome_of("toy", lambda: Case(Toy(act), (pixels(2, 3),), write), tmp_path)
    assert bool(outcome.failures) == bool(failure)
    assert failure in "".join(outcome.failures)
    assert ("refused: no file" in outcome.line()) == (write is refuse)


def test_a_wrong_gradient_is_a_failure(tmp_path):
    class Scaled(torch.autograd.Function):
        """An identity with a gradient that is too large while it is compiled."""

        @staticmethod
        def forward(context, tokens, scale):
            context.scale = scale
            return tokens.clone()

        @staticmethod
        def backward(context, gradient):
            return gradient * context.scale, None

    def act(tokens):
        return Scaled.apply(tokens, 1.01 if torch.compiler.is_compiling() else 1.0)

    outcome = outcome_of("toy", lambda: Case(Toy(act), (pixels(2, 3),), refuse), tmp_path)
    assert [failure.split(" by ")[0] for failure in outcome.failures] == ["compiled gradients differ"]
