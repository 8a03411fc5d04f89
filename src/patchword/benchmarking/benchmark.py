"""A benchmark: candidates are timed in interleaved rounds, so that other load on the machine affects all of them."""

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
    """A candidate of a benchmark.

    step: does some work and returns its amount, e.g. the number of images. calls: steps per pass over the inputs. macs:
    multiply-accumulates per pass; 0 if unknown. cuda_graphs: whether it runs as CUDA graphs; their memory is not
    measured.
    """

    name: str
    step: Callable[[], float]
    calls: int = 1
    macs: float = 0.0
    cuda_graphs: bool = False


@dataclass(frozen=True)
class Timing:
    """The measured speed of a candidate.

    rate: work per second, the median over the rounds. seconds: per pass. memory: peak bytes during a step, beyond what
    was allocated before it, such as the weights; None if not measured.
    """

    name: str
    rate: float
    seconds: float
    memory: int | None
    macs: float = 0.0

    @property
    def products(self) -> float:
        """Return the floating-point operations per second: two per multiply-accumulate."""
        return 2 * self.macs / self.seconds


Log = Callable[[str], None]


def benchmark(candidates: Sequence[Candidate], device: torch.device, seconds: float, log: Log = print) -> list[Timing]:
    """Time each candidate for about `seconds` in total, after a warm-up that does not count."""
    if not candidates:
        raise UserError("there is no candidate to benchmark", hint="use the names in the tables of results")
    peaks, passes = [], []
    for candidate in candidates:
        log(f"warming up: {candidate.name}")
        _run(candidate, _WARM_RECORDED if candidate.cuda_graphs else _WARM, device)
        peaks.append(_peak(candidate, device))
        taken = _run(candidate, 1, device)[1]  # not one of the first passes, which are slower
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
    """Run the candidate; return the work that was done and the seconds that it took."""
    wait(device)
    began, work = time.perf_counter(), 0.0
    for _ in range(passes * candidate.calls):
        work += candidate.step()
    wait(device)
    return work, time.perf_counter() - began


def _peak(candidate: Candidate, device: torch.device) -> int | None:
    if device.type != "cuda" or candidate.cuda_graphs:
        candidate.step()
        return None
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device)
    for _ in range(candidate.calls):
        candidate.step()
    return torch.cuda.max_memory_allocated(device) - before


def wait(device: torch.device) -> None:
    """Wait until the accelerator has finished all work."""
    if device.type != "cpu":
        torch.accelerator.synchronize(device)
