"""Export a segmenter to ONNX, and compare its logits with the segmenter's."""

import json
import time
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.export import Dim

from patchword.core.errors import UserError
from patchword.core.files import make_folder
from patchword.layers.dense.segmentation.segmenter import Segmenter
from patchword.weights.export.export import Exported, publish
from patchword.weights.export.formats import Onnx, quiet, save_checked
from patchword.weights.io.saving import describe

TOLERANCE = 1e-4  # of the logits, relative to their scale
MAX_DIFFERENT = 1e-3  # of the pixels: two logits can be equal up to rounding
Output = Literal["logits", "classes"]


class SegmenterOutputs(nn.Module):
    """Calls a segmenter, enlarges its logits to the size of the images, and returns them or the class of each pixel."""

    def __init__(self, segmenter: Segmenter, output: Output) -> None:
        super().__init__()
        self.segmenter, self.output = segmenter, output

    def forward(self, images: Tensor) -> Tensor:
        """(batch, channels, height, width) -> (batch, classes, height, width) or (batch, height, width)"""
        logits = self.segmenter.pixel_logits(images).enlarged()
        return logits if self.output == "logits" else logits.argmax(dim=1)


def export_segmenter(
    segmenter: Segmenter,
    path: str | Path,
    *,
    size: tuple[int, int] | None = None,
    batch: int | None = None,
    output: Output = "logits",
    tolerance: float | None = None,
    remarks: Mapping[str, str] | None = None,
) -> Exported:
    """Write a segmenter, which is on the CPU in evaluation mode, atomically to a .onnx file.

    size: height and width of the file's input; default is a square of the config's crop. batch: fixed batch size;
    default is any size. output: logits at the size of the images, or the class of each pixel.
    tolerance: maximum difference from the segmenter: of logits, relative to their scale (default 1e-4); of classes, the
        fraction of pixels that differ (default 1e-3).
    remarks: further notes to store in the file.
    """
    start, target, form = time.perf_counter(), Path(path), Onnx()
    if target.suffix != form.suffix:
        raise UserError(f"cannot export a segmenter to {target}", expected=f"a name that ends in {form.suffix}")
    form.require()
    crop = int(segmenter.card.config["crop"])
    height, width = size or (crop, crop)
    channels = len(segmenter.card.normalization.mean)
    module = SegmenterOutputs(segmenter, output)
    examples = [_images(count, channels, height, width) for count in ([batch] if batch else [1, 2])]
    notes = {**_notes(segmenter, batch, channels, (height, width), output), **(remarks or {})}
    allowed = tolerance if tolerance is not None else TOLERANCE if output == "logits" else MAX_DIFFERENT
    make_folder(target.parent)
    try:
        with TemporaryDirectory(prefix=f".{target.name}.", suffix=".tmp", dir=target.parent) as folder:
            draft = Path(folder) / target.name
            detail = _write(module, _images(batch or 2, channels, height, width), batch, notes, draft)
            found = _difference(draft, module, examples)
            _require(found, allowed, target, form.reader, output)
            written = publish(draft, target)
    except OSError as error:
        raise UserError(f"cannot write {target}", got=error.strerror or str(error)) from None
    batches, seconds = tuple(len(images) for images in examples), time.perf_counter() - start
    return Exported(target, written, detail, notes, form.reader, batches, found, seconds)


def _images(count: int, channels: int, height: int, width: int) -> Tensor:
    return torch.randn(count, channels, height, width, generator=torch.Generator().manual_seed(count))


def _write(module: SegmenterOutputs, example: Tensor, batch: int | None, notes: Mapping[str, str], path: Path) -> str:
    dim: Any = None if batch else Dim("batch", min=1)
    shapes = None if batch else ({0: dim},)
    with quiet(), torch.no_grad():
        program = torch.export.export(module, (example,), dynamic_shapes=shapes)
        converted = torch.onnx.export(
            program,
            dynamo=True,
            dynamic_shapes=shapes,
            input_names=["images"],
            output_names=[module.output],
            verbose=False,
        )
    return save_checked(converted, notes, path)


def _difference(path: Path, module: SegmenterOutputs, examples: list[Tensor]) -> float:
    """Return the largest difference of logits relative to their scale, or the fraction of other classes."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # errors
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    worst = 0.0
    for images in examples:
        found = torch.from_numpy(session.run([module.output], {"images": images.numpy()})[0])
        with torch.no_grad():
            expected = module(images)
        apart = (found - expected).abs().max() / expected.abs().max().clamp(min=1e-30)
        if module.output == "classes":
            apart = (found != expected).float().mean()
        worst = max(worst, float(apart)) if bool(apart.isfinite()) else float("inf")
    return worst


def _require(found: float, tolerance: float, target: Path, reader: str, output: Output) -> None:
    if found <= tolerance:
        return
    what = "a relative difference" if output == "logits" else "a fraction of other pixels"
    raise UserError(
        f"the {output} in {reader} differ from the segmenter's, so {target} was not written",
        expected=f"{what} of at most {tolerance:.0e}",
        got=f"{found:.1e}",
        hint="a larger tolerance keeps the file",
    )


def _notes(
    segmenter: Segmenter, batch: int | None, channels: int, size: tuple[int, int], output: Output
) -> dict[str, str]:
    card, count, (height, width) = segmenter.card, batch or "batch", size
    colours = {1: "grey", 3: "red, green, blue"}.get(channels, f"{channels} channels")
    classes = card.config["classes"]
    outputs = {
        "logits": f"logits, float32 ({count}, {classes}, {height}, {width}): of each class and pixel",
        "classes": f"classes, int64 ({count}, {height}, {width}): the class of each pixel, from 0",
    }
    return {
        "input": f"images, float32 ({count}, {channels}, {height}, {width}): {colours}; rows from the top; pixel "
        "values 0 to 255, divided by 255, minus mean, divided by std, per channel",
        "image": f"an image, or a window of it, of {height} x {width} pixels",
        "mean": json.dumps(card.normalization.mean),
        "std": json.dumps(card.normalization.std),
        "output": outputs[output],
        "labels": json.dumps(card.labels, ensure_ascii=False),
        "patchword": json.dumps(describe(card), ensure_ascii=False),
    }
