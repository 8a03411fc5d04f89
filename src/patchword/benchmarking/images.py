"""Compare an image model with the same model of other libraries: inference or training steps."""

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from patchword.analysis.cost import count
from patchword.benchmarking.benchmark import Candidate, Log, benchmark
from patchword.benchmarking.hardware_limits import measure_limits
from patchword.benchmarking.peers import agreement, check_agreement, of_authors, of_timm, of_transformers
from patchword.benchmarking.result import Result
from patchword.core.grid import sides
from patchword.fusion.compile import compile
from patchword.layers.model import Model
from patchword.models import REGISTRY
from patchword.training.optimizer import adamw
from patchword.training.step import Precision, autocast

OURS = "patchword"
# between our outputs and a peer's in float32, and between outputs in 16 bits and in float32
MAX_DIFFERENCE, MAX_DIFFERENCE_16_BIT = 1e-3, 0.1


@dataclass(frozen=True)
class Setting:
    """How candidates are measured.

    eager: names of peers that are not compiled. among: names of the candidates to measure; empty is all.
    """

    device: torch.device
    precision: Precision
    seconds: float
    compiled: bool
    batch: int
    train: bool = False
    eager: frozenset[str] = field(default_factory=frozenset)
    among: frozenset[str] = field(default_factory=frozenset)

    def described(self) -> dict[str, Any]:
        kept = {"precision": self.precision, "batch": self.batch, "train": self.train, "compiled": self.compiled}
        return {**kept, "threads": torch.get_num_threads()} if self.device.type == "cpu" else kept

    def measures(self, name: str) -> bool:
        return not self.among or name in self.among

    def uses_cuda_graphs(self, name: str, dynamic: bool = False) -> bool:
        """Return True if the candidate runs as CUDA graphs; see patchword.compile."""
        return self.compiled and self.device.type == "cuda" and name.startswith(OURS) and (self.train or not dynamic)

    def ours(self, model: nn.Module, dynamic: bool = False) -> Callable[..., Any]:
        """Return our model, compiled by patchword.compile if the setting asks for it."""
        return compile(model, training=self.train, dynamic=dynamic or None) if self.compiled else model

    def peer(self, model: nn.Module, name: str) -> Callable[..., Any]:
        """Return a peer's model, compiled by torch.compile if the setting asks for it."""
        return torch.compile(model) if self.compiled and name not in self.eager else model

    def prepared(self, model: nn.Module, name: str) -> Callable[..., Any]:
        return self.ours(model) if name == OURS else self.peer(model, name)

    def in_precision(self, model: nn.Module) -> nn.Module:
        """Return a copy of the model for inference, in the precision of the setting."""
        found = copy.deepcopy(model).eval().to(self.device)
        return found.to(torch.bfloat16) if self.precision == "bfloat16" else found


def peers_of(
    ours: Model, timm: Path | None = None, authors: str = "", transformers: bool = True
) -> dict[str, nn.Module]:
    found: dict[str, nn.Module] = {}
    if timm is not None:
        found["timm"] = of_timm(ours, timm)
    if authors:
        found["authors"] = of_authors(ours, authors)
    if transformers:
        found["transformers"] = of_transformers(ours, "AutoModelForImageClassification")
    return found


def bench_images(
    name: str, setting: Setting, peers: Callable[[Model], dict[str, nn.Module]], log: Log = print, **fields: Any
) -> Result:
    """Benchmark a registry model against its peers.

    peers: builds the peers from our model, with its weights. fields: overridden fields of the model's config.
    """
    torch.manual_seed(0)
    with setting.device:  # random numbers are generated much faster there
        ours = REGISTRY.create(name, **fields).eval()
    nn.init.normal_(ours.get_parameter("head.linear.weight"), std=0.1)  # some heads are initialized to zero
    config = ours.card.config
    images = torch.randn(setting.batch, config["channels"], *sides(config["image"]), device=setting.device)
    models: dict[str, nn.Module] = {OURS: ours, **peers(ours)}
    with torch.no_grad():
        answers = {who: _scores(model.to(setting.device)(images[:2])) for who, model in models.items()}
    difference = {who: agreement(answers[OURS], answers[who]) for who in models if who != OURS}
    for who, value in difference.items():
        check_agreement(who, value)
    macs = count(ours.card).macs * setting.batch * (3 if setting.train else 1)
    labels = torch.randint(0, config["classes"], (setting.batch,), device=setting.device)
    measured_models = {who: model for who, model in models.items() if setting.measures(who)}
    steps: dict[str, Callable[[], float]] = {}
    for who, model in measured_models.items():
        if setting.train:
            steps[who] = _training(model, who, images, labels, setting)
            continue
        steps[who] = inference = InferenceStep(model, who, images, setting)
        if setting.compiled or setting.precision != "float32":
            log(f"comparing: {who}")
            measured = difference[f"{who} as benchmarked"] = agreement(inference.answers(2), answers[who])
            most = MAX_DIFFERENCE if setting.precision == "float32" else MAX_DIFFERENCE_16_BIT
            check_agreement("its answers as benchmarked", measured, most, f"{who} in float32")
    candidates = [
        Candidate(who, step, macs=macs, cuda_graphs=setting.uses_cuda_graphs(who)) for who, step in steps.items()
    ]
    timings = benchmark(candidates, setting.device, setting.seconds, log)
    limits = measure_limits(setting.device, setting.precision, min(0.5, setting.seconds))
    title = f"{name}, {'training' if setting.train else 'inference'}"
    shown = {"model": name, **fields, **setting.described()}
    return Result(title, "images", timings, OURS, setting.device, limits, difference, shown)


class InferenceStep:
    """One inference step, compiled and in the precision of the setting."""

    def __init__(self, model: nn.Module, name: str, images: Tensor, setting: Setting) -> None:
        narrow = setting.in_precision(model)
        self.run, self.inputs = setting.prepared(narrow, name), images.to(next(narrow.parameters()).dtype)

    def __call__(self) -> float:
        with torch.inference_mode():
            self.run(self.inputs)
        return len(self.inputs)

    def answers(self, count: int) -> Tensor:
        """Return the outputs for the first images, from the second run, which may already be a CUDA graph."""
        with torch.inference_mode():
            self.run(self.inputs)
            return _scores(self.run(self.inputs))[:count].float()


def _training(model: nn.Module, name: str, images: Tensor, labels: Tensor, setting: Setting) -> Callable[[], float]:
    run, optimizer = setting.prepared(model.train(), name), adamw(model, 1e-4, 0.05)

    def step() -> float:
        with autocast(setting.precision, setting.device):
            scores = _scores(run(images))
        F.cross_entropy(scores.float(), labels).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return len(images)

    return step


def _scores(answer: Any) -> Tensor:
    found: Tensor = answer.logits if hasattr(answer, "logits") else answer[0] if isinstance(answer, tuple) else answer
    return found
