"""Reads the preprocessing of other libraries: normalization and resizing of images."""

from collections.abc import Mapping
from typing import Any, Literal

from patchword.core.card import Normalization, Resize
from patchword.core.errors import UserError
from patchword.core.grid import Size, sides

Interpolation = Literal["nearest", "bilinear", "bicubic", "lanczos"]
PILLOW: tuple[Interpolation, ...] = ("nearest", "lanczos", "bilinear", "bicubic")  # in the order of their numbers
_TIMM_MODES: dict[str, Literal["crop", "stretch"]] = {"center": "crop", "squash": "stretch"}
_WITHOUT_CROP = 384  # ConvNeXt's processor stretches images of this size and above


_RATIO = 224 / 256
# How the authors' code resizes images to evaluate a family. Without a config, a file does not state it.
_AUTHORS: dict[str, Resize] = {
    "vit": Resize("stretch", 1.0, "bilinear"),
    "mixer": Resize("stretch", 1.0, "bilinear"),
    "deit": Resize("crop", _RATIO, "bicubic"),
    "swin": Resize("crop", _RATIO, "bicubic"),
    "cvt": Resize("crop", _RATIO, "bicubic"),
    "pvt": Resize("crop", _RATIO, "bicubic"),
    "cswin": Resize("crop", 0.9, "bicubic"),
    "resnet": Resize("crop", _RATIO, "bilinear"),
    "regnety": Resize("crop", _RATIO, "bilinear"),
}
_AUTHORS_LARGE: dict[str, Resize] = {  # of 384 pixels and more
    "swin": Resize("stretch", 1.0, "bicubic"),
    "cvt": Resize("stretch", 1.0, "bicubic"),
    "cswin": Resize("crop", 1.0, "bicubic"),
}
_AS_STORED = "do_resize: false in that file segments images in their own size"
_NOT_RESIZED = 32  # up to this side, the authors' code takes the images as they are


def authors_resize(family: str, image: Size) -> Resize:
    """Return how the authors of a family resize images to evaluate it; the default for other families."""
    side = min(sides(image))
    if side <= _NOT_RESIZED:
        return Resize()
    large = _AUTHORS_LARGE.get(family) if side >= _WITHOUT_CROP else None
    return large or _AUTHORS.get(family, Resize())


def read_normalization(preprocessor: Mapping[str, Any], timm: Mapping[str, Any]) -> Normalization | None:
    """Return mean and standard deviation from preprocessor_config.json or timm's pretrained_cfg; None without both."""
    factor = preprocessor.get("rescale_factor", 1 / 255)
    if preprocessor and (not preprocessor.get("do_rescale", True) or abs(factor * 255 - 1) > 1e-6):
        raise UserError("preprocessor_config.json", expected="pixels that are divided by 255", got=f"factor {factor}")
    if preprocessor.get("do_normalize") is False:
        return Normalization((0.0,), (1.0,))
    mean = preprocessor.get("image_mean") or timm.get("mean")
    std = preprocessor.get("image_std") or timm.get("std")
    return Normalization(tuple(mean), tuple(std)) if mean and std else None


def read_resize(preprocessor: Mapping[str, Any], timm: Mapping[str, Any]) -> Resize:
    """Return how images are resized, from preprocessor_config.json or timm's pretrained_cfg."""
    try:
        if preprocessor.get("do_resize", True) and "size" in preprocessor:
            return _transformers(preprocessor)
        return _timm(timm) if "crop_pct" in timm else Resize()
    except (KeyError, TypeError, ValueError, AttributeError, ZeroDivisionError) as error:
        raise UserError("the preprocessing of these weights is not understood", got=str(error)) from None


def read_shorter_side(preprocessor: Mapping[str, Any]) -> dict[str, int]:
    """Return min_size and max_size of a detector from preprocessor_config.json; nothing without one."""
    if "size" not in preprocessor or not preprocessor.get("do_resize", True):
        return {}
    size = preprocessor["size"]
    if isinstance(size, int):  # older files
        size = {"shortest_edge": size, "longest_edge": preprocessor.get("max_size", 1333)}
    if not isinstance(size, dict) or not {"shortest_edge", "longest_edge"} <= size.keys():
        expected = "shortest_edge and longest_edge"
        raise UserError("field 'size' of preprocessor_config.json", expected=expected, got=size)
    return {"min_size": size["shortest_edge"], "max_size": size["longest_edge"]}


def read_square(preprocessor: Mapping[str, Any]) -> int | None:
    """Return the side of the square that images of a segmenter are stretched to; None if they keep their size."""
    if "size" not in preprocessor or not preprocessor.get("do_resize", True):
        return None
    size = preprocessor["size"]
    height, width = (size.get("height"), size.get("width")) if isinstance(size, dict) else (size, size)
    if type(height) is not int or height < 1 or height != width:
        expected = "height and width of one value, in pixels"
        raise UserError("field 'size' of preprocessor_config.json", expected=expected, got=size, hint=_AS_STORED)
    resample = preprocessor.get("resample", PILLOW.index("bilinear"))
    if resample != PILLOW.index("bilinear"):
        expected = f"{PILLOW.index('bilinear')} (bilinear)"
        raise UserError(
            "field 'resample' of preprocessor_config.json", expected=expected, got=resample, hint=_AS_STORED
        )
    return height


def _timm(fields: Mapping[str, Any]) -> Resize:
    mode = fields.get("crop_mode") or "center"
    if mode not in _TIMM_MODES:
        raise UserError("field 'crop_mode' of config.json", expected=" or ".join(_TIMM_MODES), got=mode)
    return Resize(_TIMM_MODES[mode], float(fields["crop_pct"]), fields.get("interpolation") or "bicubic")


def _transformers(fields: Mapping[str, Any]) -> Resize:
    size, resample = fields["size"], fields.get("resample", 2)
    if resample not in range(len(PILLOW)):
        raise UserError("field 'resample' of preprocessor_config.json", expected="0, 1, 2 or 3", got=resample)
    method = PILLOW[resample]
    sides = {"height": size, "width": size} if isinstance(size, int) else size
    if "shortest_edge" in sides:
        return _by_shortest_edge(fields, int(sides["shortest_edge"]), method)
    if "height" not in sides or "width" not in sides:
        expected = "height and width, or shortest_edge"
        raise UserError("field 'size' of preprocessor_config.json", expected=expected, got=size)
    return Resize("stretch", _crop(fields, int(sides["height"])), method)


def _by_shortest_edge(fields: Mapping[str, Any], edge: int, method: Interpolation) -> Resize:
    """ConvNeXt's processor has the fraction `crop_pct` and cuts out `edge`; others scale to `edge` and cut it."""
    if "crop_pct" in fields or "ConvNext" in str(fields.get("image_processor_type", "")):
        if edge >= _WITHOUT_CROP:
            return Resize("stretch", 1.0, method)
        return Resize("crop", float(fields.get("crop_pct") or 224 / 256), method)
    return Resize("crop", _crop(fields, edge), method)


def _crop(fields: Mapping[str, Any], scaled: int) -> float:
    """Return the side that is cut out of the scaled image, as a fraction."""
    if not fields.get("do_center_crop", False):
        return 1.0
    crop = fields.get("crop_size", scaled)
    side = crop if isinstance(crop, int) else int(crop["height"])
    return side / scaled
