"""How long a call takes, and how much memory there was at the peak."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

_LEAST = 3  # calls, however long they take
_WARM_UP = 0.2  # of the time, and one call at the least: memory is fetched, kernels are chosen, clocks rise


@dataclass(frozen=True)
class Speed:
    """What was measured of one model. batch: images or texts of a call"""

    batch: int
    calls: int
    seconds: float  # of one call, the median
    memory: int | None  # bytes at the peak; None where the system does not tell

    @property
    def rate(self) -> float:
        """images or texts a second"""
        return self.batch / self.seconds


@torch.no_grad()
def timed(work: Callable[[], object], device: torch.device, seconds: float) -> list[float]:
    """The seconds of each call after a warm-up: at least three, then more until `seconds` have passed."""
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
    """Multiply-accumulates a second of a matrix product on this CPU, which no model exceeds by much."""
    matrix = torch.randn(side, side)
    return side**3 / min(timed(lambda: matrix @ matrix, torch.device("cpu"), 0.1))


def _one(work: Callable[[], object], device: torch.device) -> float:
    began = time.perf_counter()
    work()
    if device.type != "cpu":
        torch.accelerator.synchronize(device)  # an accelerator works on after the call has returned
    return time.perf_counter() - began


def free_memory() -> int | None:
    """Bytes that programs can still have; Linux tells, other systems may not."""
    return _line(Path("/proc/meminfo"), "MemAvailable:")


def resident(peak: bool = False) -> int | None:
    """Bytes of memory that this process holds now, or held at the most; Linux tells, other systems may not.

    ru_maxrss would not do: a new process inherits it from the one that started it.
    """
    return _line(Path("/proc/self/status"), "VmHWM:" if peak else "VmRSS:")


def _line(file: Path, name: str) -> int | None:
    """the bytes of a line such as `name 12 kB`"""
    if not file.is_file():
        return None
    fields = (line.split() for line in file.read_text().splitlines())
    return next((1024 * int(words[1]) for words in fields if words and words[0] == name), None)
