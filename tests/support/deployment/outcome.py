"""What becomes of a case: compiled in one graph, and exported with checked outputs or refused by name."""

import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch._dynamo.exc import TorchDynamoException

from patchword.core.errors import UserError
from support.deployment.cases import Case

LIMIT = 1e-5  # of outputs: another order of summation differs by about 1e-6, a wrong operation by far more
GRADIENT_LIMIT = 1e-4  # the recurrent matrices of the random models are large, and so are sums over their steps
SUFFIXES = ".onnx", ".pt2"
HEAD = f"{'family':20} {'compiled':>9} {'gradients':>9} {'ONNX':>9} {'.pt2':>9}"


@dataclass(frozen=True)
class Outcome:
    """Largest relative differences from the eager model, and what went wrong; None: not computed.

    exported, program: of the ONNX file and of the program of torch.export.
    refusal: the message with which an export was refused.
    """

    name: str
    compiled: float | None = None
    gradients: float | None = None
    exported: float | None = None
    program: float | None = None
    refusal: str = ""
    failures: tuple[str, ...] = ()

    def line(self) -> str:
        found = self.compiled, self.gradients, self.exported, self.program
        numbers = (f"{'-' if one is None else f'{one:.0e}'}" for one in found)
        head = " ".join([f"{self.name:20}", *(f"{number:>9}" for number in numbers)])
        remarks = ([f"refused: {self.refusal}"] if self.refusal else []) + [f"FAILED {one}" for one in self.failures]
        return "  ".join([head, *remarks])


def outcome_of(name: str, build: Callable[[], Case], folder: Path, backend: str = "aot_eager") -> Outcome:
    """Compile a case and export it into a folder. No graph break is allowed, and no error but a UserError."""
    failures: list[str] = []
    case = build()
    compiled, gradients = _compiled(case, backend, failures)
    (exported, refusal), (program, other) = (_exported(case, folder / f"model{end}", failures) for end in SUFFIXES)
    return Outcome(name, compiled, gradients, exported, program, refusal or other, tuple(failures))


def _compiled(case: Case, backend: str, failures: list[str]) -> tuple[float | None, float | None]:
    """Return the differences of the outputs and of the gradients; the weights get other gradients if one is wrong."""
    torch.compiler.reset()
    try:
        with torch._dynamo.config.patch(allow_rnn=True):  # without, the compiler leaves LSTMs as they are, in a break
            run = torch.compile(case.model, fullgraph=True, backend=backend)
            expected, wanted = _run(case, case.model)
            found, got = _run(case, run)
    except TorchDynamoException as error:
        failures.append(f"graph break: {str(error).strip().splitlines()[0]}")
        return None, None
    except Exception:
        failures.append(traceback.format_exc(limit=-3))
        return None, None
    outputs, gradients = _difference(found, expected), _difference(got, wanted)
    if not outputs <= LIMIT:
        failures.append(f"compiled outputs differ by {outputs:.1e}")
    if not gradients <= GRADIENT_LIMIT:
        failures.append(f"compiled gradients differ by {gradients:.1e}")
    return outputs, gradients


def _run(case: Case, run: Callable[..., Any]) -> tuple[list[Tensor], list[Tensor]]:
    """Return the outputs, and the gradients of all weights."""
    case.model.zero_grad()
    outputs, noise = _tensors(run(*case.inputs)), torch.Generator().manual_seed(5)
    torch.stack([(one * torch.randn(one.shape, generator=noise)).mean() for one in outputs]).sum().backward()
    return [one.detach() for one in outputs], _gradients(case.model)


def _gradients(model: nn.Module) -> list[Tensor]:
    """Return all gradients in one tensor: some are zero, up to rounding."""
    return [torch.cat([weight.grad.flatten() for weight in model.parameters() if weight.grad is not None])]


def _tensors(answer: Tensor | tuple[Tensor, ...]) -> list[Tensor]:
    return [answer] if isinstance(answer, Tensor) else list(answer)


def _difference(found: list[Tensor], expected: list[Tensor]) -> float:
    """Return the largest difference relative to the scale of each tensor; NaN if one has NaN."""
    worst = torch.zeros(())
    for one, other in zip(found, expected, strict=True):
        scale = other.abs().max()
        worst = torch.maximum(worst, (one - other).abs().max() / torch.where(scale > 0, scale, 1.0))
    return float(worst)


def _exported(case: Case, path: Path, failures: list[str]) -> tuple[float | None, str]:
    """Return the difference that the export itself measured, or why it was refused."""
    try:
        return case.write(path).difference, ""
    except UserError as error:
        return None, " ".join(str(error).split())
    except Exception:
        failures.append(traceback.format_exc(limit=-3))
        return None, ""
