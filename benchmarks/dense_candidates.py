"""DETR and UperNet of this library and of transformers on the same images, for dense_speed.py."""

from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from detection_candidates import Step, training_step
from torch import Tensor, nn

import patchword
from patchword.core.geometry.objects import Targets
from patchword.models.detection import create_detector
from patchword.models.segmentation import create_segmenter
from patchword.objectives.detection.rules import detection_loss
from patchword.objectives.segmentation.loss import segmentation_loss


@dataclass(frozen=True)
class Sizes:
    """height, width: of the images. small: tiny models, to check that the benchmark runs."""

    height: int
    width: int
    classes: int
    small: bool = False


@dataclass(frozen=True)
class Work:
    """A training step or inference of one system."""

    system: str
    sizes: Sizes
    batch: int
    train: bool
    device: torch.device

    @property
    def title(self) -> str:
        return f"{self.system}, {'training' if self.train else 'inference'}, batch {self.batch}"

    def autocast(self) -> Any:
        return torch.autocast("cuda", torch.bfloat16) if self.device.type == "cuda" else nullcontext()


class Inputs:
    """Random images with 5 to 20 boxes each, and label maps of blocks of 32 x 32 pixels."""

    def __init__(self, work: Work) -> None:
        sizes, draws = work.sizes, torch.Generator().manual_seed(0)
        self.images = torch.randn(work.batch, 3, sizes.height, sizes.width, generator=draws)
        self.boxes, self.labels = [], []
        limits = torch.tensor([sizes.width, sizes.height])
        for _ in range(work.batch):
            count = int(torch.randint(5, 21, (1,), generator=draws))
            side = 16 * (limits / 32) ** torch.rand(count, 2, generator=draws)
            corner = torch.rand(count, 2, generator=draws) * (limits - side)
            self.boxes.append(torch.cat([corner, corner + side], dim=1))
            self.labels.append(torch.randint(0, sizes.classes, (count,), generator=draws))
        blocks = torch.randint(0, sizes.classes, (work.batch, 1, -(-sizes.height // 32), -(-sizes.width // 32)))
        enlarged = nn.functional.interpolate(blocks.float(), scale_factor=32)[:, 0]
        self.maps = enlarged[:, : sizes.height, : sizes.width].long().contiguous()

    def targets(self, device: torch.device) -> Targets:
        sizes = torch.tensor([self.images.shape[-2:]] * len(self.images))
        return Targets.of(self.boxes, self.labels, sizes).to(device)

    def for_transformers(self, device: torch.device) -> list[dict[str, Tensor]]:
        """Boxes as centers and sizes, relative to the image."""
        height, width = self.images.shape[-2:]
        scale = torch.tensor([width, height, width, height])
        found = []
        for boxes, labels in zip(self.boxes, self.labels, strict=True):
            corners = boxes / scale
            center, side = (corners[:, :2] + corners[:, 2:]) / 2, corners[:, 2:] - corners[:, :2]
            found.append({"boxes": torch.cat([center, side], 1).to(device), "class_labels": labels.to(device)})
        return found


def ours(work: Work, inputs: Inputs, how: str) -> Step:
    """A step of this library. how: "eager", "compiled", or "compiled, CUDA graphs"."""
    torch.manual_seed(0)
    with work.device:
        run = (OurDetr if work.system.startswith("detr") else OurUperNet)(work, inputs)
    run = run.to(work.device, memory_format=torch.channels_last)
    graphs = "graphs" in how
    if work.train:
        run.train()
        called = run if how == "eager" else patchword.compile(run, training=True, cuda_graphs=graphs)
        return training_step(work, run, called)
    run.eval()
    if work.device.type == "cuda":
        run.to(torch.bfloat16)
    called = run if how == "eager" else patchword.compile(run, cuda_graphs=graphs)
    return Step(work.batch, torch.no_grad()(called), _described)


class OurDetr(nn.Module):
    """A DETR on given images: its detections, or the sum of its losses."""

    def __init__(self, work: Work, inputs: Inputs) -> None:
        super().__init__()
        small = (
            {"encoder_depth": 1, "decoder_depth": 1, "width": 32, "heads": 2, "queries": 9, "max_detections": 9}
            if work.sizes.small
            else {}
        )
        backbone = "resnet-18" if work.sizes.small else "resnet-50"
        self.detector = create_detector("detr", backbone=backbone, classes=work.sizes.classes, **small)
        self.train_step, self.rule = work.train, detection_loss(self.detector)
        self.register_buffer("images", inputs.images)
        self.targets = inputs.targets(work.device)

    def forward(self) -> Any:
        if self.train_step:
            found = self.rule(self.detector, self.images, self.targets)
            return torch.stack([loss.float() for loss in found.values()]).sum()
        detections = self.detector(self.images, self.targets.sizes)
        return detections.boxes, detections.labels, detections.scores


class OurUperNet(nn.Module):
    """A UperNet on given images: the class of each pixel, or the sum of its losses."""

    def __init__(self, work: Work, inputs: Inputs) -> None:
        super().__init__()
        small = {"width": 16, "backbone_fields": {"width": 12, "depths": [1, 1, 1, 1]}} if work.sizes.small else {}
        self.segmenter = create_segmenter("upernet", backbone="swin-tiny", classes=work.sizes.classes, **small)
        self.train_step, self.rule = work.train, segmentation_loss(self.segmenter)
        self.register_buffer("images", inputs.images)
        self.register_buffer("maps", inputs.maps)

    def forward(self) -> Any:
        if self.train_step:
            found = self.rule(self.segmenter, self.images, self.maps)
            return torch.stack([loss.float() for loss in found.values()]).sum()
        return self.segmenter.segment(self.images)


def theirs(work: Work, inputs: Inputs, how: str) -> Step:
    """A step of transformers.

    how: "eager", "channels last", "bfloat16 weights", "compiled", or the last two together; with "CUDA graphs" it is
    compiled with mode="reduce-overhead". All but "eager" are channels last.
    DETR learns with the losses of all layers, as ours does. Its matching is on the host, so that the model is compiled
    without its loss.
    """
    torch.manual_seed(0)
    model = (_their_detr if work.system.startswith("detr") else _their_upernet)(work).to(work.device)
    model.train(work.train)
    images = inputs.images.to(work.device)
    if how != "eager":
        model, images = (
            model.to(memory_format=torch.channels_last),
            images.contiguous(memory_format=torch.channels_last),
        )
    if "bfloat16 weights" in how:
        model, images = model.to(torch.bfloat16), images.to(torch.bfloat16)
    mode = "reduce-overhead" if "graphs" in how else None
    called: Any = model
    if "compiled" in how:
        if work.train and work.system.startswith("detr"):
            model.model = torch.compile(model.model, mode=mode)
        else:
            called = torch.compile(model, mode=mode)
    given: dict[str, Any] = {"pixel_values": images}
    if work.system.startswith("detr"):
        given["pixel_mask"] = torch.ones(images.shape[0], *images.shape[-2:], dtype=torch.long, device=work.device)
        labels: Any = inputs.for_transformers(work.device)
    else:
        labels = inputs.maps.to(work.device)
    if work.train:
        return training_step(work, model, lambda: called(**given, labels=labels).loss.float())
    after = _their_boxes if work.system.startswith("detr") else _their_classes

    def infer() -> Any:
        with work.autocast():
            return after(called(**given), images)

    return Step(work.batch, torch.no_grad()(infer), _described)


def _their_boxes(found: Any, images: Tensor) -> Any:
    """The best class of each query and its box in pixels."""
    scores, labels = found.logits.float().softmax(-1)[..., :-1].max(-1)
    center, side = found.pred_boxes.float().chunk(2, -1)
    height, width = images.shape[-2:]
    scale = torch.tensor([width, height, width, height], device=images.device)
    return torch.cat([center - side / 2, center + side / 2], -1) * scale, labels, scores


def _their_classes(found: Any, images: Tensor) -> Any:
    return found.logits.argmax(dim=1)


def _their_detr(work: Work) -> Any:
    from transformers import DetrConfig, DetrForObjectDetection, ResNetConfig

    small = work.sizes.small
    backbone = ResNetConfig(
        out_features=["stage4"], **({"layer_type": "basic", "depths": [2, 2, 2, 2]} if small else {})
    )
    sizes = (
        {"encoder_layers": 1, "decoder_layers": 1, "d_model": 32, "encoder_attention_heads": 2, "num_queries": 9}
        if small
        else {}
    )
    config = DetrConfig(
        use_timm_backbone=False,
        use_pretrained_backbone=False,
        backbone=None,
        backbone_config=backbone,
        num_labels=work.sizes.classes,
        auxiliary_loss=work.train,
        **sizes,
    )
    return DetrForObjectDetection(config)


def _their_upernet(work: Work) -> Any:
    from transformers import SwinConfig, UperNetConfig, UperNetForSemanticSegmentation

    small = {"embed_dim": 12, "depths": [1, 1, 1, 1]} if work.sizes.small else {}
    backbone = SwinConfig(out_features=["stage1", "stage2", "stage3", "stage4"], **small)
    head = {"hidden_size": 16} if work.sizes.small else {}
    in_channels = 4 * (12 if work.sizes.small else 96)
    config = UperNetConfig(
        backbone_config=backbone, num_labels=work.sizes.classes, auxiliary_in_channels=in_channels, **head
    )
    return UperNetForSemanticSegmentation(config)


def _described(found: Any) -> str:
    return f"output of {tuple((found[0] if isinstance(found, tuple) else found).shape)}"


OURS = ("compiled, CUDA graphs", "compiled", "eager")
THEIRS = (
    "eager",
    "channels last",
    "bfloat16 weights",
    "compiled",
    "compiled, CUDA graphs",
    "compiled, bfloat16 weights",
    "compiled, bfloat16 weights, CUDA graphs",
)
