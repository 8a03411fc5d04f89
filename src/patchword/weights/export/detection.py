"""Export a detector to ONNX, with non-maximum suppression, and compare its detections with the detector's."""

import json
import time
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.export import Dim

from patchword.core.errors import UserError
from patchword.core.files import make_folder
from patchword.layers.dense.detector import Detector
from patchword.models.dense.backbones import image_channels
from patchword.weights.export.detection_operations import detection_translations, onnx_operators
from patchword.weights.export.export import Exported, publish
from patchword.weights.export.formats import Onnx, quiet, save_checked
from patchword.weights.io.saving import describe

TOLERANCE = 1e-3  # of boxes relative to the longer side of the image, of scores, and of probabilities of masks
_LEVELS = 5  # of a pyramid: non-maximum suppression is within a level, or within a class
MULTIPLE = 32  # images are padded to multiples of it
# Detections that may differ: two scores or an overlap and its threshold can be equal up to rounding.
MAX_UNMATCHED = 0.02
INPUTS, OUTPUTS = ("images", "sizes"), ("boxes", "labels", "scores", "valid", "masks")


class Comparison(NamedTuple):
    """difference: the largest of matched detections. matched, total: numbers of detections."""

    difference: float
    matched: int
    total: int


class DetectorOutputs(nn.Module):
    """Calls a detector and returns its detections as a tuple of tensors."""

    def __init__(self, detector: Detector) -> None:
        super().__init__()
        self.detector = detector

    def forward(self, images: Tensor, sizes: Tensor) -> tuple[Tensor, ...]:
        """Return boxes, labels, scores and valid, and masks if the detector has a mask head."""
        found = self.detector(images, sizes)
        given = found.boxes, found.labels, found.scores, found.valid
        return given if found.masks is None else (*given, found.masks)


def export_detector(
    detector: Detector,
    path: str | Path,
    *,
    size: tuple[int, int] | None = None,
    batch: int | None = None,
    tolerance: float | None = None,
    remarks: Mapping[str, str] | None = None,
) -> Exported:
    """Write a detector, which is on the CPU in evaluation mode, atomically to a .onnx file.

    size: height and width of the file's input; default is the config's min_size and max_size, padded to multiples of
        32. batch: fixed batch size; default is any size. tolerance: maximum difference from the detector's detections;
        default 1e-3 of the longer side of the image for boxes, and 1e-3 for scores and masks.
    remarks: further notes to store in the file.
    """
    start, target, form = time.perf_counter(), Path(path), Onnx()
    if target.suffix != form.suffix:
        raise UserError(f"cannot export a detector to {target}", expected=f"a name that ends in {form.suffix}")
    form.require()
    height, width = padded(size or (detector.card.config["min_size"], detector.card.config["max_size"]))
    channels = image_channels(detector.backbone)
    module = DetectorOutputs(detector)
    examples = [_images(count, channels, height, width) for count in ([batch] if batch else [1, 2])]
    notes = {**_notes(detector, batch, channels, height, width), **(remarks or {})}
    names = OUTPUTS[: 5 if detector.masks else 4]
    make_folder(target.parent)
    try:
        with TemporaryDirectory(prefix=f".{target.name}.", suffix=".tmp", dir=target.parent) as folder:
            draft = Path(folder) / target.name
            detail = _write(module, _images(batch or 2, channels, height, width), batch, names, notes, draft)
            found = _compare(draft, module, examples, names)
            _require(found, TOLERANCE if tolerance is None else tolerance, target, form.reader)
            written = publish(draft, target)
    except OSError as error:
        raise UserError(f"cannot write {target}", got=error.strerror or str(error)) from None
    detail = f"{detail}, {found.matched} of {found.total} detections compared equal"
    batches = tuple(len(images) for images, _ in examples)
    seconds = time.perf_counter() - start
    return Exported(target, written, detail, notes, form.reader, batches, found.difference, seconds)


def spread_scores(detector: Detector) -> None:
    """Spread the scores of a detector with random weights: without detections, any file would agree with it."""
    for layer in cast(list[nn.Linear | nn.Conv2d], detector.class_outputs()):
        nn.init.normal_(layer.weight, std=0.1)
        if layer.bias is not None:
            nn.init.zeros_(layer.bias)


def padded(size: tuple[int, int]) -> tuple[int, int]:
    """Return the height and width as multiples of 32, rounded up."""
    height, width = (-(-side // MULTIPLE) * MULTIPLE for side in size)
    return height, width


def _images(count: int, channels: int, height: int, width: int) -> tuple[Tensor, Tensor]:
    """Return noise; every image except the first is padded."""
    images = torch.randn(count, channels, height, width, generator=torch.Generator().manual_seed(count))
    sizes = torch.tensor([[height - 5 * (index > 0), width - 9 * (index > 0)] for index in range(count)])
    return images, sizes


def _write(
    module: DetectorOutputs,
    example: tuple[Tensor, Tensor],
    batch: int | None,
    names: tuple[str, ...],
    notes: Mapping[str, str],
    path: Path,
) -> str:
    dim: Any = None if batch else Dim("batch", min=1)
    shapes = None if batch else ({0: dim}, {0: dim})
    detector = module.detector
    groups = max(_LEVELS, int(detector.card.config["classes"]))
    with quiet(), torch.no_grad(), onnx_operators(groups):
        program = torch.export.export(module, example, dynamic_shapes=shapes)
    with quiet(), torch.no_grad():
        converted = torch.onnx.export(
            program,
            dynamo=True,
            dynamic_shapes=shapes,
            input_names=list(INPUTS),
            output_names=list(names),
            custom_translation_table=detection_translations(),
            verbose=False,
        )
    return save_checked(converted, notes, path)


def _compare(
    path: Path, module: nn.Module, examples: list[tuple[Tensor, Tensor]], names: tuple[str, ...]
) -> Comparison:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # errors
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    worst, matched, total = 0.0, 0, 0
    for images, sizes in examples:
        fed = {"images": images.numpy(), "sizes": sizes.numpy()}
        found = [torch.from_numpy(one) for one in session.run(list(names), fed)]
        with torch.no_grad():
            expected = module(images, sizes)
        for index in range(len(images)):
            one = compare_image([part[index] for part in expected], [part[index] for part in found], images.shape[-2:])
            worst, matched, total = max(worst, one.difference), matched + one.matched, total + one.total
    return Comparison(worst, matched, total)


def compare_image(expected: list[Tensor], found: list[Tensor], size: torch.Size) -> Comparison:
    """Compare the detections of one image, each with the nearest one of its class; their order does not matter."""
    first, second = ([part[parts[3]] for part in parts] for parts in (expected, found))
    total = max(len(first[0]), len(second[0]))
    if not len(first[0]) or not len(second[0]):
        return Comparison(0.0, 0, total)
    apart = (first[0][:, None] - second[0][None]).abs().amax(dim=-1) / max(size)
    apart = torch.maximum(apart, (first[2][:, None] - second[2][None]).abs())
    apart = apart.masked_fill(first[1][:, None] != second[1][None], torch.inf)
    nearest = apart.min(dim=1)
    is_match = nearest.values < 10 * TOLERANCE
    difference = nearest.values[is_match].max() if is_match.any() else torch.zeros(())
    if len(first) > 4 and is_match.any():
        difference = torch.maximum(difference, (first[4] - second[4][nearest.indices])[is_match].abs().max())
    return Comparison(float(difference), int(is_match.sum()), total)


def _require(found: Comparison, tolerance: float, target: Path, reader: str) -> None:
    unmatched = found.total - found.matched
    if found.difference <= tolerance and unmatched <= MAX_UNMATCHED * found.total:
        return
    raise UserError(
        f"the detections in {reader} differ from the detector's, so {target} was not written",
        expected=f"a difference of at most {tolerance:.0e}, and at most {MAX_UNMATCHED:.0%} other detections",
        got=f"{found.difference:.1e}, and {unmatched} of {found.total} other detections",
        hint="a larger tolerance keeps the file",
    )


def _notes(detector: Detector, batch: int | None, channels: int, height: int, width: int) -> dict[str, str]:
    card, count, most = detector.card, batch or "batch", detector.card.config["max_detections"]
    colours = {1: "grey", 3: "red, green, blue"}.get(channels, f"{channels} channels")
    each = f"({count}, {most}"
    masks = f"; masks, float32 {each}, 28, 28): probability of each cell of the box" if detector.masks else ""
    return {
        "input": f"images, float32 ({count}, {channels}, {height}, {width}): {colours}; rows from the top; pixel "
        "values 0 to 255, divided by 255, minus mean, divided by std, per channel; padded with 0 on the right and at "
        f"the bottom. sizes, int64 ({count}, 2): height and width of each image without its padding",
        "image": f"resized so that it fits into {height} x {width}, without a change of its aspect ratio",
        "mean": json.dumps(card.normalization.mean),
        "std": json.dumps(card.normalization.std),
        "output": f"boxes, float32 {each}, 4): x1, y1, x2, y2 in pixels of the resized image; labels, int64 {each}); "
        f"scores, float32 {each}), best first; valid, bool {each}): False for padding{masks}",
        "labels": json.dumps(card.labels, ensure_ascii=False),
        "patchword": json.dumps(describe(card), ensure_ascii=False),
    }
