"""Writes tests/golden/torchvision_detectors.safetensors with torchvision's own code. No test imports this file.

torchvision 0.28.0, torch 2.13.0, CPU. The compiled operators of its wheels need CUDA, so nms and roi_align are defined
here by the rules of the compiled ones, as they are known. With torchvision's RoIAlign in plain PyTorch, one box at the
border of an image has another score; why was not confirmed in its source.
Run it in an environment with torch, torchvision and safetensors:

    python tests/support/dense/torchvision_golden.py tests/golden/torchvision_detectors.safetensors
"""

import sys

import numpy as np
import torch
from safetensors.torch import save_file

SCHEMAS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width, "
    "int sampling_ratio, bool aligned) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
)
SIZES = ((64, 96), (56, 80))  # of the images; the first is that of the batch
WIDTH, CLASSES = 12, 4


def nms(boxes, scores, threshold):
    """Greedy: the best box drops all that overlap it by more than the threshold."""
    order = scores.argsort(descending=True, stable=True)
    boxes = boxes[order]
    areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    low, high = torch.maximum(boxes[:, None, :2], boxes[:, :2]), torch.minimum(boxes[:, None, 2:], boxes[:, 2:])
    shared = (high - low).clamp(min=0).prod(dim=2)
    drops = (shared / (areas[:, None] + areas - shared) > threshold).triu(1).numpy()
    kept = np.ones(len(boxes), dtype=bool)
    for best in range(len(boxes)):
        if kept[best]:
            kept &= ~drops[best]
    return order[torch.from_numpy(kept)]


def roi_align(maps, rois, scale, rows, columns, samples, aligned):
    """Bilinear samples at fixed places of each bin; outside the map by more than one cell they count zero."""
    assert samples > 0, "only a fixed number of samples is needed here"
    shift = 0.5 if aligned else 0.0
    start, end = rois[:, [2, 1]].double() * scale - shift, rois[:, [4, 3]].double() * scale - shift  # y, x
    side = end - start if aligned else (end - start).clamp(min=1)
    weights = []
    for axis, bins in ((0, rows), (1, columns)):
        steps = (torch.arange(bins * samples, dtype=torch.float64) + 0.5) / samples
        weights.append(bilinear(start[:, axis, None] + side[:, axis, None] / bins * steps, maps.shape[2 + axis]))
    found = torch.einsum("nyh,nchw,nxw->ncyx", weights[0], maps.double()[rois[:, 0].long()], weights[1])
    found = found.view(*found.shape[:2], rows, samples, columns, samples).mean(dim=(3, 5))
    return found.to(maps.dtype)


def bilinear(places, side):
    """(boxes, places) -> (boxes, places, side), the weights of the cells"""
    inside = (places >= -1) & (places <= side)
    places = places.clamp(0, side - 1)
    low = places.floor().long()
    high, part = (low + 1).clamp(max=side - 1), places - low
    weights = torch.zeros(*places.shape, side, dtype=torch.float64)
    weights.scatter_add_(2, low[..., None], (1 - part)[..., None])
    weights.scatter_add_(2, high[..., None], part[..., None])
    return weights * inside[..., None]


def define_operators():
    """Define the operators before torchvision is imported; those that are never called have a schema only."""
    library = torch.library.Library("torchvision", "DEF")
    for schema in SCHEMAS:
        library.define(schema)
    library.impl("nms", nms, "CPU")
    library.impl("roi_align", roi_align, "CPU")
    return library


def narrow_resnet(norm):
    from torchvision.models.resnet import Bottleneck, ResNet

    body = ResNet(Bottleneck, [1, 1, 1, 1], norm_layer=norm)
    body.inplanes = 2
    body.conv1, body.bn1 = torch.nn.Conv2d(3, 2, 7, stride=2, padding=3, bias=False), norm(2)
    for number in range(4):
        layer = body._make_layer(Bottleneck, 2 * 2**number, 1, stride=2 if number else 1)
        setattr(body, f"layer{number + 1}", layer)
    return body


def with_neck(body, layers, extra):
    from torchvision.models.detection.backbone_utils import BackboneWithFPN

    returned = {f"layer{layer}": str(place) for place, layer in enumerate(layers)}
    widths = [8 * 2 ** (layer - 1) for layer in layers]
    return BackboneWithFPN(body, returned, widths, WIDTH, extra_blocks=extra)


def mask_rcnn():
    from torchvision.models.detection import MaskRCNN
    from torchvision.models.detection.faster_rcnn import FastRCNNPredictor, TwoMLPHead
    from torchvision.models.detection.mask_rcnn import MaskRCNNHeads, MaskRCNNPredictor
    from torchvision.ops.feature_pyramid_network import LastLevelMaxPool
    from torchvision.ops.misc import FrozenBatchNorm2d

    backbone = with_neck(narrow_resnet(FrozenBatchNorm2d), (1, 2, 3, 4), LastLevelMaxPool())
    return MaskRCNN(
        backbone,
        box_head=TwoMLPHead(WIDTH * 49, 16),
        box_predictor=FastRCNNPredictor(16, CLASSES),
        mask_head=MaskRCNNHeads(WIDTH, (8, 8, 8, 8), 1),
        mask_predictor=MaskRCNNPredictor(8, 8, CLASSES),
    )


def retinanet():
    from torchvision.models.detection import RetinaNet
    from torchvision.ops.feature_pyramid_network import LastLevelP6P7
    from torchvision.ops.misc import FrozenBatchNorm2d

    backbone = with_neck(narrow_resnet(FrozenBatchNorm2d), (2, 3, 4), LastLevelP6P7(WIDTH, WIDTH))
    return RetinaNet(backbone, CLASSES)


SPREADS = {  # standard deviations of the outputs
    "rpn.head.cls_logits": 2.0,
    "rpn.head.bbox_pred": 0.3,
    "roi_heads.box_predictor.cls_score": 2.0,
    "roi_heads.box_predictor.bbox_pred": 1.0,
    "roi_heads.mask_predictor.mask_fcn_logits": 2.0,
    "head.classification_head.cls_logits": 1.0,
    "head.regression_head.bbox_reg": 0.3,
}


@torch.no_grad()
def randomise(model, seed, images):
    """Large random weights that float16 holds exactly; eps 0 in batch norms, as in the published weights."""
    generator = torch.Generator().manual_seed(seed)
    for name, tensor in model.state_dict().items():
        value = torch.randn(tensor.shape, generator=generator)
        if tensor.dim() > 1:
            value *= 1.4 / (tensor[0].numel() if "conv5_mask" not in name else tensor.shape[0]) ** 0.5
        elif name.endswith("running_var"):
            value = value.abs() + 0.1
        else:
            value = value * 0.3 + (name.endswith("weight") and "body" in name)
        tensor.copy_(value.half())
    for module in model.modules():
        if type(module).__name__ == "FrozenBatchNorm2d":
            module.eps = 0.0
    model.transform.resize = lambda image, target: (image, target)  # the images stay as they are
    parts = dict(model.eval().named_modules())
    for name in (name for name in SPREADS if name in parts):
        rescale(model, parts[name], SPREADS[name], images)
    if "head.classification_head.cls_logits" in parts:
        bias = parts["head.classification_head.cls_logits"].bias
        bias.copy_((bias - 4).half())
    return model


def rescale(model, layer, spread, images):
    """Scale the weights of an output layer so that its outputs have this standard deviation."""
    kept = []
    hook = layer.register_forward_hook(lambda module, given, result: kept.append(result.flatten()))
    model(images)
    hook.remove()
    layer.weight.copy_((layer.weight * spread / torch.cat(kept).std()).half())


@torch.no_grad()
def results(model, images):
    """Detections, with masks as they are before they are pasted."""
    kept = []
    if hasattr(model, "roi_heads"):
        hook = model.roi_heads.register_forward_hook(lambda module, given, result: kept.extend(map(dict, result[0])))
    found = model(images)
    if hasattr(model, "roi_heads"):
        hook.remove()
        found = kept
    return found


def same(found, exact):
    """True if rounding does not change which objects are found."""
    return all(
        torch.equal(one["labels"], other["labels"]) and float((one["boxes"] - other["boxes"]).abs().max()) < 1e-3
        for one, other in zip(found, exact, strict=True)
    )


def main(path):
    library = define_operators()
    import torchvision

    torchvision.extension._has_ops = lambda: True
    sys.modules["torchvision.ops.roi_align"]._has_ops = lambda: True  # not its RoIAlign in plain PyTorch
    assert library is not None
    generator = torch.Generator().manual_seed(0)
    pixels = [torch.randint(0, 256, (3, *size), generator=generator, dtype=torch.uint8) for size in SIZES]
    tensors = {f"pixels.{image}": one for image, one in enumerate(pixels)}
    for name, build in (("mask_rcnn", mask_rcnn), ("retinanet", retinanet)):
        for seed in range(100):
            model = randomise(build(), seed, [one / 255 for one in pixels])
            weights = {key: one.half() for key, one in model.state_dict().items()}
            found = results(model, [one / 255 for one in pixels])
            exact = results(model.double(), [one.double() / 255 for one in pixels])
            if min(len(one["labels"]) for one in found) > 10 and same(found, exact):
                break
        print(name, seed, [len(one["labels"]) for one in found], found[0]["scores"][:5])
        tensors |= {f"{name}/weight.{key}": one for key, one in weights.items()}
        for image, one in enumerate(found):
            one = {key: value[:8] if key == "masks" else value for key, value in one.items()}
            tensors |= {f"{name}/result.{image}.{key}": value.contiguous() for key, value in one.items()}
    save_file(tensors, path, {"torchvision": torchvision.__version__, "torch": torch.__version__})


if __name__ == "__main__":
    main(sys.argv[1])
