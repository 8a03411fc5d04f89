"""Named augmentation presets, as fields of `Augmentation` and their values."""

from collections.abc import Mapping
from types import MappingProxyType

Fields = Mapping[str, float | int | str]

PARTS: Mapping[str, Fields] = MappingProxyType(
    {
        "flip": {"flip": 0.5},
        "shift": {"shift": 4},
        "crop": {"crop": 0.08},
        "color_jitter": {"color_jitter": 0.3},
        "randaugment": {"randaugment": 9.0, "randaugment_std": 0.5, "operations": "deit"},
        "three_augment": {"three_augment": 1.0},
        "random_erasing": {"random_erasing": 0.25, "erasing_fill": "pixel"},
        "mixup": {"mixup": 0.8},
        "cutmix": {"cutmix": 1.0},
        "repeats": {"repeats": 3},
    }
)
# DeiT's code also sets a colour jitter of 0.3, but does not use it together with RandAugment.
_DEIT = ("crop", "flip", "randaugment", "random_erasing", "mixup", "cutmix", "repeats")
_THREE = ("crop", "flip", "three_augment", "color_jitter", "mixup", "cutmix")


def combine(*names: str) -> dict[str, float | int | str]:
    """Combine the fields of several parts."""
    return {field: value for name in names for field, value in PARTS[name].items()}


PRESETS: Mapping[str, Fields] = MappingProxyType(
    {
        "none": {},
        "light": {"crop": 0.5, "flip": 0.5, "color_jitter": 0.2},
        "deit": combine(*_DEIT),
        "3-augment": combine(*_THREE),
    }
)
