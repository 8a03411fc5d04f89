"""Times an image model in its own process, so that its memory use and its failures do not affect others."""

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import median
from typing import Any, ClassVar, Protocol, Self

import torch

from patchword.analysis.speed import Speed, resident, timed
from patchword.core.grid import sides
from patchword.core.memory import is_out_of_memory
from patchword.fusion.compile import compile
from patchword.fusion.rules import fuse_on_gpu
from patchword.models import REGISTRY
from patchword.training.step import Precision, autocast

MEMORY = {
    "cuda": "memory: peak GPU memory of torch, weights and activations (torch.cuda.max_memory_allocated)",
    "cpu": "memory: growth of the model's own process from before the model was built to its peak; about 20 MiB of it "
    "belong to the libraries (blank on systems that do not report it; Linux does)",
}


class AnySetting(Protocol):
    """How models are timed. module: what the new process runs; `answered` is its main function."""

    module: ClassVar[str]
    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def device(self) -> str: ...

    @property
    def precision(self) -> str: ...

    @property
    def batch(self) -> int:
        """Return the largest batch size."""
        ...

    @property
    def seconds(self) -> float: ...

    def smaller(self) -> Self | None:
        """Return the same setting with a smaller batch; None if there is none."""
        ...

    def read(self, answer: dict[str, Any]) -> Any:
        """Return the result of `measure`, read from JSON."""
        ...

    def taken(self, found: Any) -> Sequence[float]:
        """Return the seconds per call, for each batch size."""
        ...

    def describe(self, found: Any) -> str:
        """Return the result as short text."""
        ...


@dataclass(frozen=True)
class Setting:
    """How image models are timed."""

    module: ClassVar[str] = "patchword.timing.images"
    device: str
    precision: Precision
    batch: int
    seconds: float  # to measure; a warm-up comes before
    compiled: bool = False

    def smaller(self) -> "Setting | None":
        return replace(self, batch=self.batch // 2) if self.batch > 1 else None

    def read(self, answer: dict[str, Any]) -> Speed:
        return Speed(**answer)

    def taken(self, found: Speed) -> list[float]:
        return [found.seconds]

    def describe(self, found: Speed) -> str:
        return f"{found.rate:,.1f} images/s"


class NotMeasuredError(RuntimeError):
    """A model could not be timed; the message gives the reason."""


def time_model(name: str, setting: AnySetting, log: Callable[[str], None]) -> Any:
    """Return the result of `measure` for a model, with a smaller batch if memory is too small."""
    while True:
        answer = _ask(name, setting)
        if "failure" not in answer:
            return setting.read(answer)
        smaller = setting.smaller() if answer["out_of_memory"] else None
        if smaller is None:
            raise NotMeasuredError(answer["failure"])
        log(f"{name}: out of memory with batch {setting.batch}, now with {smaller.batch}")
        setting = smaller


def _ask(name: str, setting: AnySetting) -> dict[str, Any]:
    """Run `measure` in a new process, which ignores Ctrl-C; it is stopped when this process is interrupted."""
    words = [sys.executable, "-P", "-m", setting.module, name, json.dumps(asdict(setting))]
    done = subprocess.run(words, capture_output=True, text=True, stdin=subprocess.DEVNULL, process_group=0)
    if done.returncode == -9:
        return {"failure": "the system killed it, probably because memory was full", "out_of_memory": True}
    try:
        answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        last = (done.stderr.strip().splitlines() or ["without a message"])[-1]
        return {"failure": f"its process ended with code {done.returncode}: {last}", "out_of_memory": False}
    return answer


def measure(name: str, setting: Setting) -> Speed:
    """Time inference in this process: without gradients, on random pixels, with random weights."""
    device = torch.device(setting.device)
    before = resident()
    model = REGISTRY.create(name).eval().to(device)
    taken = timed(_call(model, setting, device), device, setting.seconds)
    if device.type == "cuda":
        memory: int | None = torch.cuda.max_memory_allocated(device)
    else:
        after = resident(peak=True) if device.type == "cpu" else None
        memory = after - before if after is not None and before is not None else None
    return Speed(setting.batch, len(taken), median(taken), memory)


def _call(model: Any, setting: Setting, device: torch.device) -> Callable[[], object]:
    config = model.card.config
    images = torch.randn(setting.batch, config["channels"], *sides(config["image"]), device=device)
    run: Callable[..., object] = compile(model) if setting.compiled else fuse_on_gpu(model)

    def work() -> object:
        with autocast(setting.precision, device):
            return run(images)

    return work


def main() -> None:
    answered(lambda name, setting: measure(name, Setting(**setting)))


def answered(measure: Callable[[str, dict[str, Any]], Any]) -> None:
    """The main function of the new process; its last line of output is the result."""
    name, setting = sys.argv[1], json.loads(sys.argv[2])
    try:
        answer = asdict(measure(name, setting))
    except Exception as error:  # the parent process reports any error and continues
        first = (str(error).splitlines() or ["without a message"])[0]
        answer = {"failure": f"{type(error).__name__}: {first}", "out_of_memory": is_out_of_memory(error)}
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
