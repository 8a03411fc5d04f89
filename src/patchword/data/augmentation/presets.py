"""Named augmentation presets, as fields of `Augmentation` and their values."""

from collections.abc import Mapping
from types import MappingProxyType

Fields = Mapping[str, float | int | str]

PARTS: Mapping[str, Fields] = MappingProxyType(
    {
        "flip": {"flip": 0.5},
        "shift": {"shift": 4},
        "crop": {"crop": 0.08},
        "jitter": {"jitter": 0.3},
        "randaugment": {"randaugment": 9.0, "spread": 0.5, "operations": "deit"},
        "three": {"three": 1.0},
        "erase": {"erase": 0.25, "erasing": "pixel"},
        "mixup": {"mixup": 0.8},
        "cutmix": {"cutmix": 1.0},
        "repeats": {"repeats": 3},
    }
)
# DeiT's code also sets a colour jitter of 0.3, but does not use it together with RandAugment.
_DEIT = ("crop", "flip", "randaugment", "erase", "mixup", "cutmix", "repeats")
_THREE = ("crop", "flip", "three", "jitter", "mixup", "cutmix")


def together(*names: str) -> dict[str, float | int | str]:
    """Combine the fields of several parts."""
    return {field: value for name in names for field, value in PARTS[name].items()}


PRESETS: Mapping[str, Fields] = MappingProxyType(
    {
        "none": {},
        "light": {"crop": 0.5, "flip": 0.5, "jitter": 0.2},
        "deit": together(*_DEIT),
        "three": together(*_THREE),
    }
)
