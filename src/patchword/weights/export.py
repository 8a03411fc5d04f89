"""export: a model as a file that other programs run, whose answers were compared with the model's own."""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram
from torch.utils._python_dispatch import TorchDispatchMode

from patchword.core.card import Card
from patchword.core.errors import UserError
from patchword.core.files import flush, make_folder
from patchword.core.grid import Size, sides
from patchword.layers.model import Model
from patchword.models import REGISTRY
from patchword.weights.formats import FORMATS, INPUT, OUTPUT, Format, Runner, quiet
from patchword.weights.saving import describe

TOLERANCE = 1e-4  # float32 in another order of sums differs by 1e-6 or so; a wrong operator by far more


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
    tolerance: float = TOLERANCE,
    remarks: Mapping[str, str] | None = None,
) -> Exported:
    """Writes `model`, which is on the CPU and ready to evaluate, to a .onnx or a .pt2 file: whole, or not at all.

    size: of the images the file will take, height and width; the model's own if left out.
    batch: how many images it will take at a time; any number if left out.
    tolerance: the largest difference to the model's answers, relative to their scale, with which the file is kept.
    remarks: what else the file should say of itself.
    """
    start, target = time.perf_counter(), Path(path)
    form = format_of(target)
    form.require()
    shape = _shape(model.card, size)
    examples = [_images(count, shape) for count in ([batch] if batch else [1, 3])]
    with torch.no_grad():
        expected = [model(images) for images in examples]  # what the model refuses, it refuses here
    notes = {**describe_file(model.card, shape, batch), **(remarks or {})}
    make_folder(target.parent)
    try:
        with TemporaryDirectory(prefix=f".{target.name}.", suffix=".tmp", dir=target.parent) as folder:
            draft = Path(folder) / target.name
            shapes = None if batch else ({0: Dim("batch", min=1)},)
            detail = form.write(trace(model, _images(batch or 2, shape), shapes), shapes, notes, draft)
            worst = _largest_difference(form.open(draft), examples, expected)
            if not worst <= tolerance:
                raise _differs(target, form, worst, tolerance)
            written = _publish(draft, target)
    except OSError as error:
        raise UserError(f"cannot write {target}", got=error.strerror or str(error)) from None
    batches = tuple(len(images) for images in examples)
    return Exported(target, written, detail, notes, form.reader, batches, worst, time.perf_counter() - start)


def expected_seconds(model: Model, path: Path, size: Size | None = None) -> float:
    """How long an export takes, roughly: it grows with the number of operations, not with their size."""
    operations = _Operations()  # type: ignore[no-untyped-call]
    with torch.no_grad(), operations:
        model(_images(1, _shape(model.card, size)))
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


def trace(model: Model, images: Tensor, shapes: Any) -> ExportedProgram:
    """The model's operations as a graph, whatever the size of the axes that `shapes` leaves open.

    Its weights, shared with the model, ask for no gradient: torch's attention would then answer in another layout of
    memory than it was traced with, and the graph would not run.
    """
    with quiet(), torch.no_grad():
        program = torch.export.export(model, (images,), dynamic_shapes=shapes)
    frozen = {name: nn.Parameter(weights.detach(), requires_grad=False) for name, weights in model.named_parameters()}
    program.state_dict.update(frozen)
    return program


def describe_file(card: Card, shape: tuple[int, int, int], batch: int | None) -> dict[str, str]:
    """How to feed the file and read its answers, for those who have nothing but the file."""
    count = batch or "batch"
    colours = {1: "grey", 3: "red, green, blue"}.get(shape[0], f"{shape[0]} channels")
    return {
        "input": f"{INPUT}, float32 ({count}, {', '.join(map(str, shape))}): {colours}; rows from the top; "
        "pixels of 0 to 255, / 255, - mean, / std, channel by channel",
        "picture": f"upright (EXIF); its shorter side scaled so that it covers {shape[1]} x {shape[2]}, bicubic, and "
        "the middle cut out",
        "mean": json.dumps(card.preparation.mean),
        "std": json.dumps(card.preparation.std),
        "output": f"{OUTPUT}, float32 ({count}, {card.config['classes']}): before the softmax, in the order of labels",
        "labels": json.dumps(card.labels, ensure_ascii=False),
        "patchword": json.dumps(describe(card), ensure_ascii=False),
    }


def _shape(card: Card, size: Size | None) -> tuple[int, int, int]:
    REGISTRY.require_images(card.model)
    return (card.config["channels"], *sides(size or card.config["image"]))


def _images(count: int, shape: tuple[int, ...]) -> Tensor:
    """Noise of the spread that prepared pixels have."""
    return torch.randn(count, *shape, generator=torch.Generator().manual_seed(count))


def _largest_difference(run: Runner, examples: list[Tensor], expected: list[Tensor]) -> float:
    """NaN if an answer has one."""
    worst = torch.zeros(())
    for images, scores in zip(examples, expected, strict=True):
        scale = scores.abs().max()
        worst = torch.maximum(worst, (run(images) - scores).abs().max() / torch.where(scale > 0, scale, 1.0))
    return float(worst)


def _differs(target: Path, form: Format, worst: float, tolerance: float) -> UserError:
    return UserError(
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
