"""The result of a benchmark, as a table and as a JSON file."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from patchword.benchmarking.benchmark import Timing
from patchword.benchmarking.hardware_limits import HardwareLimits
from patchword.core.device import machine
from patchword.core.files import write_json


@dataclass(frozen=True)
class Result:
    """The result of a benchmark.

    unit: what is counted, e.g. "images". ours: the name of the timing that the others are compared with.
    difference: between our outputs and each peer's, and between each candidate's outputs in float32 and in the timed
    precision; checked before anything is timed. setting: what was run.
    """

    title: str
    unit: str
    timings: Sequence[Timing]
    ours: str
    device: torch.device
    limits: HardwareLimits
    difference: Mapping[str, float]
    setting: Mapping[str, Any] = field(default_factory=dict)

    @property
    def ratios(self) -> dict[str, float]:
        """Return our speed divided by the speed of each peer; empty if ours was not measured."""
        mine = [one.rate for one in self.timings if one.name == self.ours]
        return {one.name: rate / one.rate for rate in mine for one in self.timings if one.name != self.ours}

    def lines(self) -> list[tuple[str, ...]]:
        """Return the table rows: name, rate, our speed / its speed, fraction of the matmul rate, memory per step."""
        return [
            (
                one.name,
                f"{one.rate:,.0f} {self.unit}/s" if one.rate >= 100 else f"{one.rate:,.2f} {self.unit}/s",
                f"{self.ratios[one.name]:.2f}x" if one.name in self.ratios else "",
                f"{one.products / self.limits.products:.0%}" if one.macs else "",
                "" if one.memory is None else f"{one.memory / 1e9:.2f} GB",
            )
            for one in self.timings
        ]

    def notes(self) -> list[str]:
        limits = self.limits
        found = [
            f"limits measured here: {limits.products / 1e12:,.2f} TFLOP/s of matmuls, "
            f"{limits.copies / 1e9:,.0f} GB/s of copies"
        ]
        return [*found, *(f"{name}: outputs differ by {value:.1e}" for name, value in self.difference.items())]

    def to_json(self) -> dict[str, Any]:
        return {
            "title": self.title,
            "setting": dict(self.setting),
            f"{self.unit}_per_second": {one.name: round(one.rate, 2) for one in self.timings},
            "ratio": {name: round(value, 3) for name, value in self.ratios.items()},
            "share_of_matrix_rate": {
                one.name: round(one.products / self.limits.products, 3) for one in self.timings if one.macs
            },
            "memory_of_a_step": {one.name: one.memory for one in self.timings if one.memory is not None},
            "difference": {name: float(f"{value:.2g}") for name, value in self.difference.items()},
            "ceilings": {"products_per_second": self.limits.products, "bytes_per_second": self.limits.copies},
        }


def as_typed() -> str:
    """Return the command that started this process."""
    program = Path(sys.argv[0])
    if program.name == "__main__.py":
        first = f"python -m {program.parent.name}"
    else:
        first = f"python {program.as_posix()}" if program.suffix == ".py" else program.name
    return " ".join([first, *sys.argv[1:]])


def write_results(path: Path, results: Sequence[Result]) -> Path:
    """Write the results of a run to one file, with the machine, the versions and the command."""
    from importlib.metadata import PackageNotFoundError, version

    versions = {}
    for name in ("transformers", "timm", "triton", "numpy"):
        try:
            versions[name] = getattr(sys.modules.get(name), "__version__", None) or version(name)
        except PackageNotFoundError:
            continue
    described = {
        "command": as_typed(),
        "machine": {**machine(results[0].device), "versions": versions},
        "results": [result.to_json() for result in results],
    }
    write_json(path, described)
    return path
