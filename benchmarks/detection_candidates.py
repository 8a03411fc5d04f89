"""Mask R-CNN of this library and of torchvision on the same images, for detection_speed.py."""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any, Protocol

import torch
from torch import Tensor, nn

import patchword
from patchword.core.geometry.objects import Targets
from patchword.kernels.mask_paste import paste_binary_masks
from patchword.layers.dense.detector import Detector
from patchword.models.dense.backbones import dense_backbone
from patchword.models.detection import create_detector
from patchword.models.detection.config import RcnnConfig
from patchword.objectives.detection.rules import detection_loss

MULTIPLE = 32  # both libraries pad images to multiples of it
LIKELY = 300  # pairs of box and class per image that exceed the score threshold of 0.05


@dataclass
class Step:
    """Work that is timed. run: returns the output that `describe_output` puts into words."""

    images: int
    run: Callable[[], Any]
    describe_output: Callable[[Any], str]
    output: Any = None

    def __call__(self) -> float:
        self.output = None  # frees the output of a CUDA graph
        self.output = self.run()
        return self.images

    def describe(self) -> str:
        return self.describe_output(self.output)


class TimedWork(Protocol):
    """What a training step needs to know of the work that is timed."""

    @property
    def batch(self) -> int: ...

    @property
    def device(self) -> torch.device: ...

    def autocast(self) -> Any: ...


@dataclass(frozen=True)
class Sizes:
    """backbone: a model of the registry. height, width: of the images. detections: most per image.

    samples: boxes per image that learn in torchvision's box head; ours has 512, as its default.
    """

    backbone: str
    height: int = 800
    width: int = 1333
    classes: int = 80
    proposals: int = 1000
    detections: int = 100
    samples: int = 512
    backbone_fields: tuple[tuple[str, Any], ...] = ()
    detector_fields: tuple[tuple[str, Any], ...] = ()

    @property
    def fields(self) -> dict[str, Any]:
        """Fields of our detector. Batch norms without parameters and a frozen first stage, as in torchvision."""
        return {
            "backbone": self.backbone,
            "backbone_fields": dict(self.backbone_fields),
            "classes": self.classes,
            "batch_norms": "buffers",
            **dict(self.detector_fields),
        }


@dataclass(frozen=True)
class Work:
    """What is timed: a training step, or inference with masks pasted into the images."""

    sizes: Sizes
    batch: int
    train: bool
    device: torch.device

    @property
    def title(self) -> str:
        kind = "training" if self.train else "inference"
        return f"mask-rcnn {self.sizes.backbone}, {kind}, batch {self.batch}"

    def autocast(self) -> Any:
        return torch.autocast("cuda", torch.bfloat16) if self.device.type == "cuda" else nullcontext()


class Inputs:
    """Random images with 5 to 20 objects each: ellipses, from 16 pixels to half of the image."""

    def __init__(self, work: Work) -> None:
        sizes, draws = work.sizes, torch.Generator().manual_seed(0)
        self.images = torch.rand(work.batch, 3, sizes.height, sizes.width, generator=draws)
        longest = torch.tensor([sizes.width, sizes.height]) / 2
        self.boxes, self.labels, self.masks = [], [], []
        y, x = torch.meshgrid(torch.arange(sizes.height), torch.arange(sizes.width), indexing="ij")
        for _ in range(work.batch):
            count = int(torch.randint(5, 21, (1,), generator=draws))
            side = 16 * (longest / 16) ** torch.rand(count, 2, generator=draws)
            corner = torch.rand(count, 2, generator=draws) * (2 * longest - side)
            center, half = (corner + side / 2)[..., None, None], (side / 2)[..., None, None]
            inside = ((x - center[:, 0]) / half[:, 0]) ** 2 + ((y - center[:, 1]) / half[:, 1]) ** 2 <= 1
            self.boxes.append(torch.cat([corner, corner + side], dim=1))
            self.labels.append(torch.randint(0, sizes.classes, (count,), generator=draws))
            self.masks.append(inside)

    def for_ours(self, device: torch.device) -> tuple[Tensor, Targets]:
        """A padded batch, as `collate` makes it."""
        height, width = self.images.shape[-2:]
        pad = 0, -width % MULTIPLE, 0, -height % MULTIPLE
        images = nn.functional.pad(self.images - 0.5, pad)
        masks = [nn.functional.pad(one, pad) for one in self.masks]
        sizes = torch.tensor([[height, width]] * len(images))
        targets = Targets.of(self.boxes, self.labels, sizes, masks).to(device)
        return images.to(device).contiguous(memory_format=torch.channels_last), targets

    def for_torchvision(self, device: torch.device) -> tuple[list[Tensor], list[dict[str, Tensor]]]:
        """A list of images; class 0 is the background."""
        each = zip(self.boxes, self.labels, self.masks, strict=True)
        targets = [{"boxes": b, "labels": n + 1, "masks": m.to(torch.uint8)} for b, n, m in each]
        return list(self.images.to(device)), [{k: v.to(device) for k, v in one.items()} for one in targets]


class FixedScores(nn.Module):
    """Runs a layer, but returns stored logits: untrained scores would decide how many boxes are suppressed and get a
    mask. `LIKELY` pairs of box and class per image exceed the score threshold."""

    def __init__(self, layer: nn.Module, work: Work, background: int) -> None:
        super().__init__()
        sizes, draws = work.sizes, torch.Generator().manual_seed(1)
        logits = torch.zeros(work.batch, sizes.proposals, sizes.classes + 1)
        logits[..., background] = 10.0
        first = 1 if background == 0 else 0
        for image in logits:
            rows = torch.randperm(sizes.proposals, generator=draws)[:LIKELY]
            columns = first + torch.randint(0, sizes.classes, (len(rows),), generator=draws)
            image[rows, columns] = 8 + 4 * torch.rand(len(rows), generator=draws)
        self.layer = layer
        self.register_buffer("logits", logits.flatten(0, 1))

    def forward(self, features: Tensor) -> Tensor:
        found: Tensor = self.layer(features)
        return found * 0 + self.logits[: len(found)]


class Losses(nn.Module):
    """The sum of the losses of our detector, as one module that can be compiled."""

    def __init__(self, detector: Detector) -> None:
        super().__init__()
        self.detector, self.rule = detector, detection_loss(detector)

    def forward(
        self, images: Tensor, boxes: Tensor, labels: Tensor, valid: Tensor, sizes: Tensor, masks: Tensor
    ) -> Any:
        found = self.rule(self.detector, images, Targets(boxes, labels, valid, sizes, masks))
        return torch.stack([loss.float() for loss in found.values()]).sum()


class Detect(nn.Module):
    """Our detector with masks pasted into the images, as torchvision returns them."""

    def __init__(self, detector: nn.Module) -> None:
        super().__init__()
        self.detector = detector

    def forward(self, images: Tensor, sizes: Tensor) -> tuple[Tensor, ...]:
        found = self.detector(images, sizes)
        size = images.shape[-2], images.shape[-1]
        pasted = paste_binary_masks(found.masks.float(), found.boxes.float(), size, 0.5, rounded=False)
        return found.boxes, found.labels, found.scores, found.valid, pasted


def limit_boxes(detector: Any, sizes: Sizes) -> None:
    """Set the numbers of proposals and detections, which are our defaults at full size."""
    proposer = detector.proposer
    proposer.rule = replace(proposer.rule, max_boxes=sizes.proposals)
    proposer.training_rule = replace(proposer.training_rule, max_boxes=sizes.proposals)
    detector.rule = replace(detector.rule, max_boxes=sizes.detections)


def ours(work: Work, inputs: Inputs, how: str) -> Step:
    """A step of this library. how: "eager", "compiled", or "compiled, CUDA graphs"."""
    torch.manual_seed(0)
    with work.device:
        detector = create_detector("mask-rcnn", **work.sizes.fields)
    limit_boxes(detector, work.sizes)
    detector = detector.to(memory_format=torch.channels_last)
    images, targets = inputs.for_ours(work.device)
    graphs = "graphs" in how
    if work.train:
        module: nn.Module = Losses(detector.train())
        run = module if how == "eager" else patchword.compile(module, training=True, cuda_graphs=graphs)
        given = images, targets.boxes, targets.labels, targets.valid, targets.sizes, targets.masks
        return training_step(work, detector, lambda: run(*given))
    stage = detector.stages[0]
    stage.class_output = FixedScores(stage.class_output, work, background=work.sizes.classes)
    detector = detector.eval().to(work.device)
    if work.device.type == "cuda":
        detector, images = detector.to(torch.bfloat16), images.to(torch.bfloat16)
    module = Detect(detector)
    run = module if how == "eager" else patchword.compile(module, cuda_graphs=graphs)
    return _inference(work, lambda: run(images, targets.sizes), lambda found: found[3].sum(dim=1))


def torchvision(work: Work, inputs: Inputs, how: str) -> Step:
    """A step of torchvision. how: "eager", "channels last", "backbone compiled", "compiled" or "bfloat16 weights"."""
    torch.manual_seed(0)
    model: Any = torchvision_model(work).to(work.device)
    images, targets = inputs.for_torchvision(work.device)
    if how != "eager":
        model = model.to(memory_format=torch.channels_last)
    if how == "backbone compiled":
        model.backbone = torch.compile(model.backbone)
    if how == "bfloat16 weights":
        model = model.to(torch.bfloat16)
        images = [image.to(torch.bfloat16) for image in images]
    run = torch.compile(model) if how == "compiled" else model
    if work.train:
        model.train()
        return training_step(work, model, lambda: torch.stack(list(_autocast_call(work, run, images, targets))).sum())
    predictor = model.roi_heads.box_predictor
    predictor.cls_score = FixedScores(predictor.cls_score, work, background=0).to(work.device)
    model.eval()

    def infer() -> Any:
        with work.autocast():
            return run(images)

    return _inference(work, infer, lambda found: torch.tensor([len(one["boxes"]) for one in found]))


def _autocast_call(work: Work, run: Any, images: Any, targets: Any) -> Any:
    with work.autocast():
        return [loss.float() for loss in run(images, targets).values()]


def torchvision_model(work: Work) -> nn.Module:
    """MaskRCNN of torchvision with its own ResNet-50, its batch norms and two stages frozen, or with our backbone."""
    from torchvision.models import resnet
    from torchvision.models.detection import MaskRCNN
    from torchvision.models.detection.backbone_utils import _resnet_fpn_extractor
    from torchvision.ops import FrozenBatchNorm2d

    sizes = work.sizes
    if sizes.backbone.startswith("resnet"):
        build = getattr(resnet, sizes.backbone.replace("-", ""))
        backbone: nn.Module = _resnet_fpn_extractor(build(norm_layer=FrozenBatchNorm2d), 3)
    else:
        backbone = OurBackbone(sizes)
    return MaskRCNN(
        backbone,
        sizes.classes + 1,
        min_size=min(sizes.height, sizes.width),
        max_size=max(sizes.height, sizes.width),
        rpn_post_nms_top_n_train=sizes.proposals,  # its default is 2,000
        rpn_post_nms_top_n_test=sizes.proposals,
        box_detections_per_img=sizes.detections,
        box_batch_size_per_image=sizes.samples,
        _skip_resize=True,  # the images have their final size
    )


class OurBackbone(nn.Module):
    """A backbone of this library under torchvision's feature pyramid."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        from torchvision.ops.feature_pyramid_network import FeaturePyramidNetwork, LastLevelMaxPool

        config = RcnnConfig(backbone=sizes.backbone, backbone_fields=dict(sizes.backbone_fields))
        self.backbone: Any = dense_backbone(config)
        self.out_channels = 256
        self.neck = FeaturePyramidNetwork(list(self.backbone.widths), self.out_channels, LastLevelMaxPool())

    def forward(self, images: Tensor) -> Any:
        maps = self.backbone(images)
        return self.neck({str(level): one for level, one in enumerate(maps)})


def training_step(work: TimedWork, model: nn.Module, loss: Callable[[], Tensor]) -> Step:
    """Forward, backward and an AdamW step, the same optimizer for all."""
    learned = [one for one in model.parameters() if one.requires_grad]
    optimizer = torch.optim.AdamW(learned, lr=1e-5, fused=work.device.type == "cuda")

    def run() -> Tensor:
        with work.autocast():
            total = loss()
        total.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return total.detach().clone()  # a CUDA graph overwrites its output

    return Step(work.batch, run, lambda total: f"loss {float(total):.3f}")


def _inference(work: Work, run: Callable[[], Any], count: Callable[[Any], Tensor]) -> Step:
    def describe(found: Any) -> str:
        return f"{float(count(found).float().mean()):.0f} detections per image"

    return Step(work.batch, torch.no_grad()(run), describe)


OURS = ("compiled, CUDA graphs", "compiled", "eager")
THEIRS = ("eager", "channels last", "backbone compiled", "bfloat16 weights", "compiled")
