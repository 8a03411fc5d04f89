"""Measures the time of a call and the peak memory."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

_LEAST = 3  # minimum number of calls
_WARM_UP = 0.2  # fraction of the time, at least one call: memory is allocated, kernels are chosen, clocks rise


@dataclass(frozen=True)
class Speed:
    """The measured speed of one model. batch: images or texts per call."""

    batch: int
    calls: int
    seconds: float  # per call, the median
    memory: int | None  # peak bytes; None where the system does not report it

    @property
    def rate(self) -> float:
        """Images or texts per second."""
        return self.batch / self.seconds


@torch.no_grad()
def timed(work: Callable[[], object], device: torch.device, seconds: float) -> list[float]:
    """Return the seconds of each call after a warm-up: at least three calls, more until `seconds` have passed."""
    began = time.perf_counter()
    while True:
        _one(work, device)
        if time.perf_counter() - began >= _WARM_UP * seconds:
            break
    taken: list[float] = []
    while len(taken) < _LEAST or sum(taken) < seconds:
        taken.append(_one(work, device))
    return taken


def product_rate(side: int = 512) -> float:
    """Return the multiply-accumulates per second of a matrix product on this CPU, an upper bound for most models."""
    matrix = torch.randn(side, side)
    return side**3 / min(timed(lambda: matrix @ matrix, torch.device("cpu"), 0.1))


def _one(work: Callable[[], object], device: torch.device) -> float:
    began = time.perf_counter()
    work()
    if device.type != "cpu":
        torch.accelerator.synchronize(device)  # calls return before the accelerator has finished
    return time.perf_counter() - began


def free_memory() -> int | None:
    """Return the available bytes of memory; None on systems other than Linux."""
    return _line(Path("/proc/meminfo"), "MemAvailable:")


def resident(peak: bool = False) -> int | None:
    """Return the bytes of memory that this process holds now, or its peak; None on systems other than Linux.

    ru_maxrss is not used: a new process inherits it from its parent.
    """
    return _line(Path("/proc/self/status"), "VmHWM:" if peak else "VmRSS:")


def _line(file: Path, name: str) -> int | None:
    """Return the bytes of a line such as `name 12 kB`."""
    if not file.is_file():
        return None
    fields = (line.split() for line in file.read_text().splitlines())
    return next((1024 * int(words[1]) for words in fields if words and words[0] == name), None)
