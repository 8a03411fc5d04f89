"""A benchmark: candidates take turns, so that a busy moment of the machine affects all of them."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

import torch

from patchword.core.errors import UserError

ROUNDS = 4
_WARM, _WARM_RECORDED = 2, 5  # passes before the first round: kernels are compiled, chosen and captured


@dataclass(frozen=True)
class Candidate:
    """step: does some work and returns how much, e.g. how many images. calls: steps of a whole pass over the inputs.
    macs: multiply-accumulates of a pass; 0 if they are not known. recorded: as CUDA graphs, which keep their memory."""

    name: str
    step: Callable[[], float]
    calls: int = 1
    macs: float = 0.0
    recorded: bool = False


@dataclass(frozen=True)
class Timing:
    """rate: work per second, the median of the rounds. seconds: per pass. memory: peak bytes of a step beyond what was
    allocated before, weights for example; None where it is not measured."""

    name: str
    rate: float
    seconds: float
    memory: int | None
    macs: float = 0.0

    @property
    def products(self) -> float:
        """multiplications and additions per second"""
        return 2 * self.macs / self.seconds


Log = Callable[[str], None]


def benchmark(candidates: Sequence[Candidate], device: torch.device, seconds: float, log: Log = print) -> list[Timing]:
    """Runs each candidate for about so many seconds in all, after a warm-up that is not counted."""
    if not candidates:
        raise UserError("there is no candidate to benchmark", hint="use the names of the tables of results")
    peaks, passes = [], []
    for candidate in candidates:
        log(f"warming up: {candidate.name}")
        _run(candidate, _WARM_RECORDED if candidate.recorded else _WARM, device)
        peaks.append(_peak(candidate, device))
        taken = _run(candidate, 1, device)[1]  # none of the first, which would leave each round a pass or two
        passes.append(max(1, round(seconds / ROUNDS / max(taken, 1e-6))))
    rounds: list[list[tuple[float, float]]] = [[] for _ in candidates]
    for number in range(ROUNDS):
        log(f"round {number + 1} of {ROUNDS}")
        for candidate, count, found in zip(candidates, passes, rounds, strict=True):
            found.append(_run(candidate, count, device))
    timings = []
    for candidate, count, peak, found in zip(candidates, passes, peaks, rounds, strict=True):
        rate, taken = median(work / spent for work, spent in found), median(spent for _, spent in found) / count
        timings.append(Timing(candidate.name, rate, taken, peak, candidate.macs))
    return timings


def _run(candidate: Candidate, passes: int, device: torch.device) -> tuple[float, float]:
    """the work that was done and the seconds it took"""
    wait(device)
    began, work = time.perf_counter(), 0.0
    for _ in range(passes * candidate.calls):
        work += candidate.step()
    wait(device)
    return work, time.perf_counter() - began


def _peak(candidate: Candidate, device: torch.device) -> int | None:
    if device.type != "cuda" or candidate.recorded:
        candidate.step()
        return None
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device)
    for _ in range(candidate.calls):
        candidate.step()
    return torch.cuda.max_memory_allocated(device) - before


def wait(device: torch.device) -> None:
    """Waits until an accelerator has finished all work."""
    if device.type != "cpu":
        torch.accelerator.synchronize(device)
