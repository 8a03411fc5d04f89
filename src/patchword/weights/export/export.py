"""Export a model to a file that other programs run, and compare its outputs with the model's."""

import copy
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import ExportedProgram
from torch.utils._python_dispatch import TorchDispatchMode

from patchword.core.errors import UserError
from patchword.core.files import flush, make_folder
from patchword.core.grid import Size
from patchword.layers.model import Model
from patchword.layers.text.model import TextModel
from patchword.weights.export.formats import FORMATS, Format, Runner, quiet
from patchword.weights.export.inputs.base import Inputs, InputTensors
from patchword.weights.export.inputs.choice import inputs_of
from patchword.weights.export.int8 import in_int8
from patchword.weights.export.recurrence import with_scans

TOLERANCE = 1e-4  # another summation order in float32 differs by about 1e-6; a wrong operator by far more
# Difference from the same integers in PyTorch. A value that is rounded to the other side changes later values, too.
# If a perturbation of one millionth changes the outputs by more than half of this, twice that change is allowed.
INT8_TOLERANCE = 0.03
NUDGE = 1e-6


@dataclass(frozen=True)
class Exported:
    """An exported file. difference: of its outputs from the model's, relative to their scale."""

    path: Path
    size: int  # bytes, including the second file that ONNX needs for weights of more than 2 GB
    detail: str
    notes: Mapping[str, str]
    reader: str
    batches: tuple[int, ...]
    difference: float
    seconds: float


def export(
    model: Model,
    path: str | Path,
    *,
    size: Size | None = None,
    batch: int | None = None,
    tokens: int | None = None,
    int8: bool = False,
    tolerance: float | None = None,
    remarks: Mapping[str, str] | None = None,
) -> Exported:
    """Write `model`, which is on the CPU in evaluation mode, atomically to a .onnx or .pt2 file.

    size: image size of the file's input, height and width; default is the model's size.
    batch: fixed batch size; default is any size.
    tokens: fixed length of texts; default is any length that the model reads.
    int8: store matrices and embeddings of a text model as 8-bit integers, in an .onnx file.
    tolerance: maximum difference from the model's outputs, relative to their scale; default 1e-4. With int8 the file is
        compared with the same integers in PyTorch; the reported difference is the root mean square difference of these
        from the model, and a tolerance limits it.
    remarks: further notes to store in the file.
    """
    start, target = time.perf_counter(), Path(path)
    form = format_of(target)
    form.require()
    inputs = inputs_of(model.card, size, batch, tokens)
    examples, reads = inputs.examples(), inputs.module(model)
    with torch.no_grad():
        expected = [_one(reads(*fed), model) for fed in examples]  # invalid inputs raise here
    notes = {**inputs.notes(), **(remarks or {})}
    written_as = inputs.module(_integers(model, form)) if int8 else with_scans(reads)
    make_folder(target.parent)
    try:
        with TemporaryDirectory(prefix=f".{target.name}.", suffix=".tmp", dir=target.parent) as folder:
            draft = Path(folder) / target.name
            detail = form.write(trace(written_as, inputs), inputs, notes, draft)
            run = form.open(draft)
            if int8:
                with torch.no_grad():
                    rounded = [written_as(*fed) for fed in examples]
                    shaken = _spread(_nudged(written_as), examples, rounded)
                _require(_spread(run, examples, rounded), max(INT8_TOLERANCE, 2 * shaken), target, form)
            worst = (_spread if int8 else _largest_difference)(run, examples, expected)
            _require(worst, tolerance if tolerance is not None else float("inf") if int8 else TOLERANCE, target, form)
            written = publish(draft, target)
    except OSError as error:
        raise UserError(f"cannot write {target}", got=error.strerror or str(error)) from None
    batches = tuple(len(fed[0]) for fed in examples)
    return Exported(target, written, detail, notes, form.reader, batches, worst, time.perf_counter() - start)


def expected_seconds(model: Model, path: Path, size: Size | None = None, tokens: int | None = None) -> float:
    """Estimate the duration of an export, which depends on the number of operations, not on their size."""
    operations = _Operations()  # type: ignore[no-untyped-call]  # torch has no types
    inputs = inputs_of(model.card, size, 1, tokens)
    with torch.no_grad(), operations:
        with_scans(inputs.module(model))(*inputs.traced())
    return format_of(path).seconds(operations.count)


class _Operations(TorchDispatchMode):
    """Counts the operations that torch executes. A scan counts as one, whatever its number of steps."""

    count = 0
    supports_higher_order_operators = True

    def __torch_dispatch__(self, operation: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += 1
        return operation(*args, **(kwargs or {}))


def format_of(path: Path) -> Format:
    if path.suffix not in FORMATS:
        raise UserError(f"cannot export to {path}", expected=f"a name that ends in {' or '.join(FORMATS)}")
    if path.is_dir():
        raise UserError(f"cannot export to {path}", expected="a file", got="a folder")
    return FORMATS[path.suffix]


def trace(model: nn.Module, inputs: Inputs) -> ExportedProgram:
    """Trace the model to a graph with the dynamic axes of the inputs.

    Its weights, shared with the model, do not require gradients: torch's attention would then return another memory
    layout than it was traced with, and the graph would not run.
    """
    with quiet(), torch.no_grad():
        program = torch.export.export(model, inputs.traced(), dynamic_shapes=inputs.shapes())
    frozen = {name: nn.Parameter(weights.detach(), requires_grad=False) for name, weights in model.named_parameters()}
    program.state_dict.update(frozen)
    return program


def _one(answer: Tensor | tuple[Tensor, ...], model: Model) -> Tensor:
    if isinstance(answer, tuple):
        raise UserError(
            f"{model.card.model} with the head {model.card.config['head']!r} has two outputs",
            expected="a model with one output",
            hint='choose one of its heads: --set head=words, or load(..., head="words")',
        )
    return answer


def _integers(model: Model, form: Format) -> Model:
    if not isinstance(model, TextModel) or form.suffix != ".onnx":
        raise UserError("cannot export this with int8", expected="a text model and a file name that ends in .onnx")
    return in_int8(model)


def _largest_difference(run: Runner, examples: list[InputTensors], expected: list[Tensor]) -> float:
    """Return the largest relative difference of the outputs; NaN if an output has NaN."""
    worst = torch.zeros(())
    for fed, scores in zip(examples, expected, strict=True):
        scale = scores.abs().max()
        worst = torch.maximum(worst, (run(*fed) - scores).abs().max() / torch.where(scale > 0, scale, 1.0))
    return float(worst)


def _spread(run: Runner, examples: list[InputTensors], expected: list[Tensor]) -> float:
    """Return the root mean square difference, relative to that of the outputs."""
    found = torch.cat([(run(*fed) - scores).flatten() for fed, scores in zip(examples, expected, strict=True)])
    return float(found.norm() / torch.cat([scores.flatten() for scores in expected]).norm().clamp(min=1e-30))


def _nudged(integers: nn.Module) -> nn.Module:
    """Return a copy with scales perturbed by one millionth, which changes only values at a rounding boundary."""
    found, noise = copy.deepcopy(integers), torch.Generator().manual_seed(0)
    for name, scales in found.named_buffers():
        if name.endswith("scales"):
            scales.mul_(1 + NUDGE * torch.randn(scales.shape, generator=noise))
    return found


def _require(worst: float, tolerance: float, target: Path, form: Format) -> None:
    if not worst <= tolerance:  # also for NaN
        raise UserError(
            f"the outputs in {form.reader} differ from the model's, so {target} was not written",
            expected=f"a relative difference of at most {tolerance:.0e}",
            got=f"{worst:.1e}",
            hint="a larger tolerance keeps the file; huge or non-finite outputs of the model can also be the cause",
        )


def publish(draft: Path, target: Path) -> int:
    """Move the draft and its companion files to their place, the main file last; return the size in bytes."""
    files = sorted(draft.parent.iterdir(), key=lambda file: file == draft)
    size = sum(file.stat().st_size for file in files)
    for file in files:
        flush(file)
        file.replace(target.with_name(file.name))
    flush(target.parent)
    return size
