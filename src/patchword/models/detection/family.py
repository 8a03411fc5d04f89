"""A detector by name."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from patchword.layers.dense.detector import Detector
from patchword.models.detection.config import DetectorConfig


@dataclass(frozen=True)
class DetectorFamily:
    """A detector by name: its paper, its default sizes and the function that builds it.

    parameters, macs: of the default sizes, as counted by `patchword.analysis.cost`, which tests verify.
    """

    title: str
    paper: str
    config: DetectorConfig
    build: Callable[[Any], Detector]
    parameters: int
    macs: int
