"""Losses with known curvature, for the tests of sharpness and loss landscapes."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from patchword.analysis.sharpness.loss import SampleLoss
from support.helpers import pixels


class Quadratic(nn.Module):
    """w' A w / 2 + b' w"""

    def __init__(self, values: Tensor, slope: Tensor | None = None, seed: int = 0) -> None:
        super().__init__()
        size = len(values)
        turn = torch.linalg.qr(torch.randn(size, size, generator=torch.Generator().manual_seed(seed)).double())[0]
        self.matrix, self.slope = turn * values.double() @ turn.T, slope
        self.turn = turn
        self.weight = nn.Parameter(torch.zeros(size, dtype=torch.float64))

    def forward(self) -> Tensor:
        value = self.weight @ self.matrix @ self.weight / 2
        return value if self.slope is None else value + self.slope.double() @ self.weight


def quadratic(values: list[float], slope: Tensor | None = None) -> SampleLoss:
    model = Quadratic(torch.tensor(values), slope)
    return SampleLoss(model, lambda _: [None], lambda _: (model(), torch.zeros(())))


def network(seed: int = 0) -> SampleLoss:
    """60 weights with a norm, a convolution and a kink, and 24 images."""
    torch.manual_seed(seed)
    model = nn.Sequential(
        nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.GELU(), nn.Flatten(), nn.Linear(8, 3), nn.ReLU(), nn.Linear(3, 3)
    ).double()
    inputs, labels = pixels(24, 1, 4, 4).double(), torch.arange(24) % 3
    model(inputs)  # statistics for the batch norm

    def part_of_loss(indices: Tensor) -> tuple[Tensor, Tensor]:
        scores = model(inputs[indices])
        loss = F.cross_entropy(scores, labels[indices], reduction="sum") / len(labels)
        return loss, (scores.argmax(1) == labels[indices]).sum() / len(labels)

    return SampleLoss(model, torch.arange(24).split, part_of_loss, size=24, count=24)
