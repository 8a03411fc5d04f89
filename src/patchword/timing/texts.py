"""Times a text model in its own process, with torch or as int8 with ONNX Runtime."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

import torch

from patchword.analysis.published.text_comparison import Condition, TextSpeeds
from patchword.analysis.speed import Speed, timed
from patchword.core.text import Text
from patchword.fusion.compile import compile
from patchword.fusion.rules import fuse_on_gpu
from patchword.layers.model import Model
from patchword.models import REGISTRY
from patchword.timing.images import answered
from patchword.training.step import autocast


@dataclass(frozen=True)
class TextSetting:
    """How text models are timed: on texts of `tokens` tokens each, without padding."""

    module: ClassVar[str] = "patchword.timing.texts"
    device: str
    precision: str  # float32, bfloat16, or int8 on a CPU
    batches: tuple[int, ...]  # from the smallest
    tokens: int
    seconds: float  # to measure each batch; a warm-up comes before
    compiled: bool = False

    @property
    def batch(self) -> int:
        return self.batches[-1]

    def conditions(self) -> list[Condition]:
        return [Condition(self.device, self.precision, batch) for batch in self.batches]

    def smaller(self) -> "TextSetting | None":
        return replace(self, batches=self.batches[:-1]) if len(self.batches) > 1 else None

    def read(self, answer: dict[str, Any]) -> TextSpeeds:
        return TextSpeeds(tuple(Speed(**speed) for speed in answer["speeds"]), answer["size"])

    def taken(self, found: TextSpeeds) -> list[float]:
        return [speed.seconds for speed in found.speeds]

    def describe(self, found: TextSpeeds) -> str:
        each = [f"batch {speed.batch}: {speed.rate * self.tokens:,.0f} tokens/s" for speed in found.speeds]
        return f"{self.device} {self.precision}, {', '.join(each)}"


def measure(name: str, setting: TextSetting) -> TextSpeeds:
    """Time inference in this process: without gradients, on random tokens, with random weights."""
    model = REGISTRY.create(name).eval()
    if setting.precision == "int8":
        return _in_int8(model, setting)
    device = torch.device(setting.device)
    model.to(device)
    run: Callable[..., object] = compile(model) if setting.compiled else fuse_on_gpu(model)

    def call(ids: torch.Tensor) -> object:
        with autocast(setting.precision, device):
            return run(Text(ids))

    return TextSpeeds(_speeds(call, model, setting))


def _in_int8(model: Model, setting: TextSetting) -> TextSpeeds:
    """Time an int8 ONNX file. Its weights are random, so its output may differ from that of the model."""
    from patchword.weights.export.export import export
    from patchword.weights.export.formats import FORMATS

    with TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        size = export(model, path, int8=True, tolerance=float("inf")).size
        run = FORMATS[path.suffix].open(path)
        return TextSpeeds(_speeds(lambda ids: run(ids, 0 * ids, torch.ones_like(ids)), model, setting), size)


def _speeds(call: Callable[[torch.Tensor], object], model: Model, setting: TextSetting) -> tuple[Speed, ...]:
    device, vocabulary = torch.device(setting.device), model.card.config["vocabulary"]
    speeds = []
    for batch in setting.batches:
        ids = torch.randint(0, vocabulary, (batch, setting.tokens), device=device)
        taken = timed(partial(call, ids), device, setting.seconds)
        speeds.append(Speed(batch, len(taken), median(taken), None))
    return tuple(speeds)


def main() -> None:
    answered(lambda name, setting: measure(name, TextSetting(**setting)))


if __name__ == "__main__":
    main()
