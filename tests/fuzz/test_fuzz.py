"""A few seeded cases of the fuzzer per family; `make fuzz` runs it as long as one likes."""

import pytest
import torch

from support.fuzz.all_checks import all_checks
from support.fuzz.case import Outcome, run

pytest.importorskip("transformers")
CHECKS = all_checks()
SEEDS = (0, 1)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", CHECKS)
def test_a_random_model_is_right_or_refused_by_name(name, seed):
    """A failure is repeated by `make fuzz FAMILY=name SEED=seed CASES=1`."""
    outcome = run(name, CHECKS[name], seed)
    assert not outcome.failures, outcome.config
    assert outcome.errors or outcome.refusal


def test_a_seed_is_one_case():
    first, again = (run("bert", CHECKS["bert"], 5) for _ in range(2))
    assert first == again
    assert run("bert", CHECKS["bert"], 6).config != first.config


@pytest.mark.parametrize("name", ["bert", "vit", "gpt2-alone"])
def test_a_mistake_is_found(name, monkeypatch):
    """The formula of attention without its scale differs from the fused one."""
    from patchword.layers.attention.core import ScaledDotProduct

    monkeypatch.setattr(ScaledDotProduct, "compare", lambda self, query, key: query @ key.transpose(-2, -1) * 0.9)
    found = [run(name, CHECKS[name], seed) for seed in range(6)]
    assert any("reference attention" in line for outcome in found for line in outcome.failures)


@pytest.mark.parametrize(("name", "seed"), [("bigbird", 1043), ("xlm", 1039)])
def test_what_transformers_does_beside_the_model_is_no_difference(name, seed):
    """Big Bird takes the tokens up to an id 66 for a question, XLM computes its softmax in float32."""
    assert 0 < run(name, CHECKS[name], seed).worst < 1e-13


@pytest.mark.parametrize("wrong", [float("nan"), 1e-3])
def test_a_difference_is_a_failure(wrong):
    outcome = Outcome()
    outcome.compare("same", torch.ones(3), torch.ones(3))
    assert not outcome.failures
    outcome.compare("other", torch.tensor([1.0, 1.0, 1.0 + wrong]), torch.ones(3))
    assert [line.split(":")[0] for line in outcome.failures] == ["other"]
