"""The learning-rate finder (Smith, 2017, arXiv:1506.01186): a ramp of learning rates on weights that are not kept."""

import math
import operator
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from rich.console import Console

from patchword.core.errors import UserError
from patchword.data.progress import Progress, no_progress
from patchword.recipes.schema.recipe import Recipe
from patchword.tuning.trial_steps import TrialSteps, trial_task

STEPS = 100
LOWEST, HIGHEST = 1e-6, 1.0
_WIDTH = 0.03  # standard deviation of the smoothing, as a fraction of the steps
_RECENT = 5  # steps whose mean loss decides whether the ramp ends
_DIVERGED = 2.0  # times the distance from the first loss to the best one, above the first: the ramp ends
_LEAST_FALL = 0.02  # fraction of the first loss that it must fall, or nothing is suggested
_BELOW = 3.0  # the suggestion is at least this factor below the rate with the lowest loss


@dataclass(frozen=True)
class LearningRateRamp:
    """The loss at each learning rate of a ramp, before the step with that rate.

    rates, losses: of every step. smoothed: the losses under a Gaussian window, which does not shift them.
    suggestion: a peak learning rate, or None if the loss did not fall. reason: how it was chosen, or why there is none.
    """

    rates: tuple[float, ...]
    losses: tuple[float, ...]
    smoothed: tuple[float, ...]
    suggestion: float | None
    reason: str

    def to_json(self) -> dict[str, Any]:
        return {
            "suggestion": self.suggestion,
            "reason": self.reason,
            "learning_rates": list(self.rates),
            "losses": list(self.losses),
            "smoothed_losses": list(self.smoothed),
        }

    def __str__(self) -> str:
        return f"learning_rate={self.suggestion:.1e} ({self.reason})" if self.suggestion else self.reason


def find_lr(
    recipe: Recipe,
    console: Console,
    steps: int = STEPS,
    lowest: float = LOWEST,
    highest: float = HIGHEST,
    progress: Progress = no_progress,
) -> LearningRateRamp:
    """Take steps with an exponentially rising learning rate and suggest one for the recipe.

    The steps are those of the recipe, with its batches, optimizer and clipping, from its initial weights. The ramp ends
    early when the loss diverges. Nothing is written.
    """
    if not 0 < lowest < highest or steps < 10:
        raise UserError(
            "the ramp of learning rates",
            expected="0 < lowest < highest, and 10 or more steps",
            got=f"{lowest:g} to {highest:g} in {steps} steps",
        )
    trial = TrialSteps(trial_task(recipe, console))
    rates: list[float] = []
    losses: list[float] = []
    with closing(trial.batches()) as batches:  # type: ignore[type-var]  # a generator
        for number, batch in enumerate(batches):
            rate = lowest * (highest / lowest) ** (number / (steps - 1))
            loss = trial.step(batch, rate)
            if not math.isfinite(loss):
                break
            rates.append(rate)
            losses.append(loss)
            progress(number + 1, steps)
            if number + 1 == steps or _diverges(losses):
                break
    return ramp_of(rates, losses)


def ramp_of(rates: Sequence[float], losses: Sequence[float]) -> LearningRateRamp:
    """Return the ramp with its suggestion."""
    smoothed = smooth(losses)
    return LearningRateRamp(tuple(rates), tuple(losses), tuple(smoothed), *_suggestion(rates, smoothed))


def smooth(losses: Sequence[float]) -> list[float]:
    """Return the means of the losses under a Gaussian window, which is a small part of the ramp."""
    width = max(1.0, _WIDTH * len(losses))
    found = []
    for center in range(len(losses)):
        weights = [math.exp(-0.5 * ((index - center) / width) ** 2) for index in range(len(losses))]
        found.append(sum(map(operator.mul, weights, losses)) / sum(weights))
    return found


def _diverges(losses: Sequence[float]) -> bool:
    """Return True if the recent losses are far above the first ones, compared with how far the loss has fallen."""
    means = [sum(losses[end - _RECENT : end]) / _RECENT for end in range(_RECENT, len(losses) + 1)]
    if not means:
        return False
    fall = max(means[0] - min(means), 0.1 * abs(means[0]))
    return means[-1] > means[0] + _DIVERGED * fall


def _suggestion(rates: Sequence[float], smoothed: Sequence[float]) -> tuple[float | None, str]:
    """Return the rate at which the loss falls fastest, but at most a third of that with the lowest loss."""
    if len(rates) < 2 * _RECENT:
        return None, "no suggestion: the loss is non-finite or diverges within the first steps"
    lowest = min(range(len(rates)), key=lambda index: smoothed[index])
    if smoothed[0] - smoothed[lowest] < _LEAST_FALL * abs(smoothed[0]):
        return None, "no suggestion: the loss hardly fell; try more steps, or another range of learning rates"
    steepest = min(range(lowest), key=lambda index: smoothed[index + 1] - smoothed[index])
    limit = rates[lowest] / _BELOW
    if rates[steepest] <= limit:
        return _rounded(rates[steepest]), "where the smoothed loss falls fastest"
    return _rounded(limit), f"a third of {rates[lowest]:.1e}, where the smoothed loss is lowest"


def _rounded(rate: float) -> float:
    """Two digits: more would promise a precision that a ramp does not have."""
    return float(f"{rate:.1e}")
