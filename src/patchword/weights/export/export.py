"""export: a model as a file that other programs run, whose answers were compared with the model's own."""

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
from patchword.weights.export.inputs import Inputs, InputTensors, inputs_of
from patchword.weights.export.int8 import in_int8

TOLERANCE = 1e-4  # float32 in another order of sums differs by 1e-6 or so; a wrong operator by far more
# To the same integers in PyTorch. A value that falls on the other side of a border sets off others: where that alone,
# after a nudge of a millionth, moves the answers further than half of this, twice as far as that is allowed.
INT8_TOLERANCE = 0.03
NUDGE = 1e-6


@dataclass(frozen=True)
class Exported:
    """A file that was written, and how far its answers are from the model's, relative to their scale."""

    path: Path
    size: int  # bytes, with the weights that ONNX keeps in a second file where there are more than 2 GB
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
    int8: bool = False,
    tolerance: float | None = None,
    remarks: Mapping[str, str] | None = None,
) -> Exported:
    """Writes `model`, which is on the CPU and ready to evaluate, to a .onnx or a .pt2 file: whole, or not at all.

    size: of the images the file will take, height and width; the model's own if left out.
    batch: how many images or texts it will take at a time; any number if left out.
    int8: matrices and tables of a text model as 8-bit integers, in an .onnx file.
    tolerance: the largest difference to the model's answers, relative to their scale, with which the file is kept;
        1e-4 if left out. With int8 the file is held to the same integers in PyTorch, and how far these are from the
        model, by the root of the mean square, is told; a tolerance is then a limit to that loss.
    remarks: what else the file should say of itself.
    """
    start, target = time.perf_counter(), Path(path)
    form = format_of(target)
    form.require()
    inputs = inputs_of(model.card, size, batch)
    examples, reads = inputs.examples(), inputs.module(model)
    with torch.no_grad():
        expected = [_one(reads(*fed), model) for fed in examples]  # what the model refuses, it refuses here
    notes = {**inputs.notes(), **(remarks or {})}
    written_as = inputs.module(_integers(model, form)) if int8 else reads
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
            written = _publish(draft, target)
    except OSError as error:
        raise UserError(f"cannot write {target}", got=error.strerror or str(error)) from None
    batches = tuple(len(fed[0]) for fed in examples)
    return Exported(target, written, detail, notes, form.reader, batches, worst, time.perf_counter() - start)


def expected_seconds(model: Model, path: Path, size: Size | None = None) -> float:
    """How long an export takes, roughly: it grows with the number of operations, not with their size."""
    operations = _Operations()  # type: ignore[no-untyped-call]  # torch has no types
    inputs = inputs_of(model.card, size, 1)
    with torch.no_grad(), operations:
        inputs.module(model)(*inputs.traced())
    return format_of(path).seconds(operations.count)


class _Operations(TorchDispatchMode):
    """Counts what torch is asked to do."""

    count = 0

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
    """The model's operations as a graph, whatever the size of the axes that the inputs leave open.

    Its weights, shared with the model, ask for no gradient: torch's attention would then answer in another layout of
    memory than it was traced with, and the graph would not run.
    """
    with quiet(), torch.no_grad():
        program = torch.export.export(model, inputs.traced(), dynamic_shapes=inputs.shapes())
    frozen = {name: nn.Parameter(weights.detach(), requires_grad=False) for name, weights in model.named_parameters()}
    program.state_dict.update(frozen)
    return program


def _one(answer: Tensor | tuple[Tensor, ...], model: Model) -> Tensor:
    if isinstance(answer, tuple):
        raise UserError(
            f"{model.card.model} with the head {model.card.config['head']!r} answers two things at once",
            expected="a model with one answer",
            hint='choose one of its heads: --set head=words, or load(..., head="words")',
        )
    return answer


def _integers(model: Model, form: Format) -> Model:
    if not isinstance(model, TextModel) or form.suffix != ".onnx":
        raise UserError("cannot export this in 8 bits", expected="a model of texts, and a name that ends in .onnx")
    return in_int8(model)


def _largest_difference(run: Runner, examples: list[InputTensors], expected: list[Tensor]) -> float:
    """NaN if an answer has one."""
    worst = torch.zeros(())
    for fed, scores in zip(examples, expected, strict=True):
        scale = scores.abs().max()
        worst = torch.maximum(worst, (run(*fed) - scores).abs().max() / torch.where(scale > 0, scale, 1.0))
    return float(worst)


def _spread(run: Runner, examples: list[InputTensors], expected: list[Tensor]) -> float:
    """The root of the mean square of the differences, relative to that of the answers."""
    found = torch.cat([(run(*fed) - scores).flatten() for fed, scores in zip(examples, expected, strict=True)])
    return float(found.norm() / torch.cat([scores.flatten() for scores in expected]).norm().clamp(min=1e-30))


def _nudged(integers: nn.Module) -> nn.Module:
    """The same with scales that are wrong by a millionth, which only moves what lies on a border."""
    found, noise = copy.deepcopy(integers), torch.Generator().manual_seed(0)
    for name, scales in found.named_buffers():
        if name.endswith("scales"):
            scales.mul_(1 + NUDGE * torch.randn(scales.shape, generator=noise))
    return found


def _require(worst: float, tolerance: float, target: Path, form: Format) -> None:
    if not worst <= tolerance:  # NaN is none, either
        raise UserError(
            f"{form.reader} does not answer as the model does, so {target} was not written",
            expected=f"a difference of {tolerance:.0e} of the scores' scale at most",
            got=f"{worst:.1e}",
            hint="a larger tolerance keeps the file; a model whose scores are huge or not finite can be the cause, too",
        )


def _publish(draft: Path, target: Path) -> int:
    """Everything beside the draft takes its place, the file itself last; answers how many bytes there are."""
    files = sorted(draft.parent.iterdir(), key=lambda file: file == draft)
    size = sum(file.stat().st_size for file in files)
    for file in files:
        flush(file)
        file.replace(target.with_name(file.name))
    flush(target.parent)
    return size
