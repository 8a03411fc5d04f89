"""Time the operators of detection against their references and, if installed, against torchvision's, in one run.

RoIAlign (forward, and forward with backward), mask targets, non-maximum suppression, binary mask paste and focal loss,
at the sizes of Mask R-CNN and RetinaNet on images of 800 x 1333 pixels. Each case first checks that the results agree.
The printed ratios are milliseconds of the other divided by milliseconds of ours; above 1, ours is faster.

python benchmarks/detection_operators.py                        # on a GPU, in bfloat16
python benchmarks/detection_operators.py --device cpu --quick   # tiny sizes: checks that it runs
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import torch
from torch import Tensor

from patchword.core.device import machine, pick_device
from patchword.kernels.focal_loss import focal_loss
from patchword.kernels.focal_loss.reference import focal_loss_reference
from patchword.kernels.mask_paste import paste_binary_masks
from patchword.kernels.mask_paste.reference import paste_binary_masks_reference
from patchword.kernels.nms import nms
from patchword.kernels.nms.reference import nms_reference
from patchword.kernels.roi_align import box_levels, roi_align, roi_align_masks
from patchword.kernels.roi_align.reference import roi_align_masks_reference, roi_align_reference

Run = Callable[[], Tensor]
STRIDES = (4, 8, 16, 32)


@dataclass(frozen=True)
class Sizes:
    """images per batch, sides of an image, channels of maps, boxes per image for RoIAlign and for suppression, masks"""

    images: int
    height: int
    width: int
    channels: int
    boxes: int
    candidates: tuple[int, ...]
    masks: int


FULL = Sizes(2, 800, 1344, 256, 512, (1000, 4000, 10000), 100)
QUICK = Sizes(1, 64, 96, 8, 6, (20,), 3)


@dataclass(frozen=True)
class Case:
    """One operator: ours and others by name. bound: largest share of differing norm or of differing elements"""

    name: str
    ours: Run
    others: dict[str, Run]
    bound: float


class Inputs:
    """Random inputs of all cases."""

    def __init__(self, sizes: Sizes, device: torch.device, dtype: torch.dtype) -> None:
        torch.manual_seed(0)
        self.sizes, self.device, self.dtype = sizes, device, dtype

    def boxes(self, count: int, smallest: float = 8.0) -> Tensor:
        sides = torch.tensor([self.sizes.width, self.sizes.height], device=self.device)
        shape = self.sizes.images, count, 2
        length = smallest * (sides / smallest / 2) ** torch.rand(shape, device=self.device)
        corner = torch.rand(shape, device=self.device) * (sides - length)
        return torch.cat([corner, corner + length], dim=-1)

    def maps(self, layout: torch.memory_format) -> list[Tensor]:
        s = self.sizes
        shapes = [(s.images, s.channels, s.height // stride, s.width // stride) for stride in STRIDES]
        made = {"device": self.device, "dtype": self.dtype}
        return [torch.randn(shape, **made).contiguous(memory_format=layout).requires_grad_() for shape in shapes]


def with_gradients(run: Run, maps: list[Tensor]) -> Run:
    """Return a function that also runs the backward pass, and returns the gradient of the first map."""
    shape = run().shape
    slopes = torch.arange(shape.numel(), device=maps[0].device).sin().view(shape).to(maps[0].dtype)
    return lambda: torch.autograd.grad(run(), maps, slopes)[0]


def roi_align_cases(given: Inputs, bins: int) -> Iterator[Case]:
    boxes = given.boxes(given.sizes.boxes)
    levels = box_levels(boxes, len(STRIDES))
    for layout in (torch.contiguous_format, torch.channels_last):
        maps = given.maps(layout)
        for samples in (2, None):
            rule = maps, boxes, levels, STRIDES, (bins, bins)

            def ours(rule=rule, samples=samples) -> Tensor:
                return roi_align(*rule, aligned=True, samples=samples or "adaptive")

            def reference(rule=rule, samples=samples) -> Tensor:
                return roi_align_reference(*rule, True, samples)

            others = {"reference": reference}
            if find_spec("torchvision"):
                others["torchvision"] = torchvision_roi_align(maps, boxes, levels, bins, samples)
            kind = (
                f"{samples or 'adaptive'} samples, {'channels last' if layout == torch.channels_last else 'contiguous'}"
            )
            yield Case(f"roi_align {bins} x {bins}, {kind}", torch.no_grad()(ours), no_grad(others), 2e-2)
            trained = {name: with_gradients(run, maps) for name, run in others.items()}
            yield Case(f"roi_align {bins} x {bins}, {kind}, with backward", with_gradients(ours, maps), trained, 3e-2)


def no_grad(runs: dict[str, Run]) -> dict[str, Run]:
    return {name: torch.no_grad()(run) for name, run in runs.items()}


def torchvision_roi_align(maps: list[Tensor], boxes: Tensor, levels: Tensor, bins: int, samples: int | None) -> Run:
    """Return torchvision's operator as its detectors call it: level by level, with the boxes of each.

    It has no bfloat16; its own autocast rule converts maps to float32 and the result back.
    """
    from torchvision.ops import roi_align as compiled

    images = torch.arange(len(boxes), device=boxes.device)[:, None].expand(levels.shape)
    rois = torch.cat([images.flatten()[:, None], boxes.flatten(0, 1)], dim=1)

    def run() -> Tensor:
        output = maps[0].new_zeros(len(rois), maps[0].shape[1], bins, bins)
        for level, (part, stride) in enumerate(zip(maps, STRIDES, strict=True)):
            own = (levels.flatten() == level).nonzero().flatten()
            found = compiled(part.float(), rois[own], (bins, bins), 1 / stride, samples or 0, aligned=True)
            output[own] = found.to(output.dtype)
        return output.unflatten(0, levels.shape)

    return run


def mask_target_case(given: Inputs) -> Case:
    sizes = given.sizes
    boxes, objects = given.boxes(sizes.boxes // 4 + 1), 20
    masks = torch.rand(sizes.images, objects, sizes.height, sizes.width, device=given.device) > 0.5
    index = torch.randint(0, objects, boxes.shape[:2], device=given.device)
    rule = masks, boxes, index, (28, 28)
    ours = roi_align_masks
    return Case(
        "mask targets 28 x 28",
        lambda: ours(*rule, aligned=True, samples="adaptive"),
        {"reference": lambda: roi_align_masks_reference(*rule, True, None)},
        1e-4,
    )


def nms_cases(given: Inputs) -> Iterator[Case]:
    for count in given.sizes.candidates:
        boxes = given.boxes(count, smallest=64.0)
        scores = torch.rand(boxes.shape[:2], device=given.device)
        groups, valid = (scores * 1e6).long() % 5, scores > 0.1
        rule = boxes, scores, valid, 0.7, groups
        others: dict[str, Run] = {}
        if count <= 4000:  # 800 MB per image and float32 matrix of 10,000 boxes
            others["reference"] = lambda rule=rule: nms_reference(*rule, None)
        if find_spec("torchvision"):
            others["torchvision"] = lambda rule=rule: torchvision_nms(*rule)
        yield Case(f"nms of {count} boxes per image", lambda rule=rule: nms(*rule), others, 0.0)


def torchvision_nms(boxes: Tensor, scores: Tensor, valid: Tensor, threshold: float, groups: Tensor) -> Tensor:
    """Return torchvision's result as a mask, image by image, as its detectors call it."""
    from torchvision.ops import batched_nms

    keep = torch.zeros_like(valid)
    for image in range(len(boxes)):
        own = valid[image].nonzero().flatten()
        kept = batched_nms(boxes[image, own], scores[image, own], groups[image, own], threshold)
        keep[image, own[kept]] = True
    return keep


def paste_cases(given: Inputs) -> Iterator[Case]:
    sizes = given.sizes
    boxes = given.boxes(sizes.masks)
    masks = torch.rand(*boxes.shape[:2], 28, 28, device=given.device)
    for rounded in (False, True):
        rule = masks, boxes, (sizes.height, sizes.width), 0.5
        yield Case(
            f"paste_binary_masks of {sizes.masks}, {'rounded' if rounded else 'centers'}",
            lambda rule=rule, rounded=rounded: paste_binary_masks(*rule, rounded=rounded),
            {"reference": lambda rule=rule, rounded=rounded: paste_binary_masks_reference(*rule, rounded)},
            1e-4,
        )


def focal_cases(given: Inputs) -> Iterator[Case]:
    sizes = given.sizes
    count = sizes.images * sizes.height * sizes.width // 50  # about 9 anchors per cell of the levels 3 to 7
    logits = torch.randn(count, 80, device=given.device, dtype=given.dtype).requires_grad_()
    labels = torch.randint(-50, 80, (count,), device=given.device)

    def ours() -> Tensor:
        return focal_loss(logits, labels, gamma=2.0, alpha=0.25)

    def reference() -> Tensor:
        return focal_loss_reference(logits, labels, 2.0, 0.25)

    others: dict[str, Run] = {"reference": reference}
    if find_spec("torchvision"):
        from torchvision.ops import sigmoid_focal_loss

        targets = (labels[:, None] == torch.arange(80, device=given.device)).to(given.dtype)
        others["torchvision"] = lambda: sigmoid_focal_loss(logits, targets, alpha=0.25, gamma=2.0)
    yield Case(f"focal_loss of {count} x 80", torch.no_grad()(ours), no_grad(others), 2e-2)
    trained = {name: with_gradients(run, [logits]) for name, run in others.items()}
    yield Case(f"focal_loss of {count} x 80, with backward", with_gradients(ours, [logits]), trained, 3e-2)


def difference(found: Tensor, expected: Tensor) -> float:
    """Return the share of differing elements of masks, or the relative norm of the difference."""
    if found.dtype == torch.bool:
        return float((found != expected).double().mean())
    return float((found.double() - expected.double()).norm() / expected.double().norm())


def milliseconds(run: Run, device: torch.device, repeats: int) -> float:
    """Return the median time of a call, with the device's work."""
    spent = []
    for _ in range(repeats + 2):
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        start = time.perf_counter()
        run()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        spent.append(1e3 * (time.perf_counter() - start))
    return sorted(spent[2:])[repeats // 2]


def measure(case: Case, device: torch.device, repeats: int) -> dict[str, object]:
    """Check the results, then time all candidates of a case."""
    found = case.ours()
    differences = {name: difference(found, run()) for name, run in case.others.items()}
    bounds = {"reference": case.bound, "torchvision": max(case.bound, 1e-3)}  # its nms moves boxes, and rounds them
    if wrong := {name: value for name, value in differences.items() if not value <= bounds[name]}:
        raise SystemExit(f"{case.name}: the results differ: {wrong}")
    ours = milliseconds(case.ours, device, repeats)
    others = {name: milliseconds(run, device, repeats) for name, run in case.others.items()}
    return {
        "case": case.name,
        "milliseconds": {"ours": round(ours, 4), **{name: round(spent, 4) for name, spent in others.items()}},
        "ratio": {name: round(spent / ours, 2) for name, spent in others.items()},
        "difference": differences,
    }


def cases(given: Inputs) -> Iterator[Case]:
    for bins in (7, 14):
        yield from roi_align_cases(given, bins)
    yield mask_target_case(given)
    yield from nms_cases(given)
    yield from paste_cases(given)
    yield from focal_cases(given)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to check that it runs")
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--save", type=Path)
    options = parser.parse_args()
    device = pick_device(options.device)
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    given = Inputs(QUICK if options.quick else FULL, device, dtype)
    results = []
    for case in cases(given):
        results.append(measure(case, device, 1 if options.quick else options.repeats))
        print(json.dumps(results[-1]), flush=True)
    if options.save:
        report = {"dtype": str(dtype), "cases": results, "machine": machine(device)}
        options.save.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
