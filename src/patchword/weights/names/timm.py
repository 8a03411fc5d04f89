"""The arguments of a model in timm's config.json: each one is read, has no influence on the outputs, or is refused."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from patchword.core.errors import UserError
from patchword.weights.names.configs import one_or_two, read_timm_image
from patchword.weights.names.vision.activations import read_activation


@dataclass(frozen=True)
class TimmArguments:
    """What the `model_args` of one family may state, in timm's config.json or in that of an authors' class.

    fields: our field -> the argument that is read. given: arguments that follow from the tensors, or that only training
    uses. fixed: argument -> the values for which the model is ours, the default first; all others are refused.
    architectures: pattern of the names by which timm builds the model; "" if the names are not checked.
    activations: timm's names of the activations that the family has. pairs: fields that may differ in height and width.
    """

    title: str
    fields: Mapping[str, str] = field(default_factory=dict)
    given: tuple[str, ...] = ()
    fixed: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    architectures: str = ""
    activations: Mapping[str, str] = field(default_factory=dict)
    pairs: tuple[str, ...] = ("image",)

    # They change no output of a trained model, at the image size that its config states.
    WITHOUT_INFLUENCE: ClassVar = frozenset(
        [
            *("num_classes", "drop_rate", "pos_drop_rate", "patch_drop_rate", "proj_drop_rate", "attn_drop_rate"),
            *("drop_path_rate", "drop_block_rate", "weight_init", "fix_init", "zero_init_last", "nlhb"),
            *("dynamic_img_size", "dynamic_img_pad", "strict_img_size", "use_checkpoint", "device", "dtype"),
            *("pretrained", "pretrained_strict", "checkpoint_path", "cache_dir", "scriptable", "exportable", "no_jit"),
        ]
    )
    SIZES: ClassVar = ("image", "patch", "window")  # one number, or height and width

    def read(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """Return our fields; raise an error that names an argument with another value than ours."""
        arguments = config.get("model_args") or {}
        self._check_names(config)
        for name, value in arguments.items():
            self._check(name, value)
        values = read_timm_image(config)
        values |= {ours: _plain(arguments[theirs]) for ours, theirs in self.fields.items() if theirs in arguments}
        for size in (size for size in self.SIZES if size in values):
            values[size] = self._size(size, values[size])
        if self.activations:
            stated = {name: value for name, value in arguments.items() if value is not None}
            values["activation"] = read_activation(self.title, stated, self.activations, "act_layer")
        return values

    def _check_names(self, config: Mapping[str, Any]) -> None:
        name = config.get("architecture")
        if name and self.architectures and not re.fullmatch(self.architectures, str(name)):
            self._refuse("architecture", name, f"a name like {self.architectures}")
        pool = config.get("global_pool")  # beside the arguments, timm writes that of the model
        if pool is not None and "global_pool" in self.fixed:
            self._check("global_pool", pool)

    def _check(self, name: str, value: Any) -> None:
        if name in self.fixed:
            if _plain(value) not in self.fixed[name]:
                self._refuse(name, value, f"{name} {self.fixed[name][0]}")
        elif name in self.fields.values():
            if value is None:
                self._refuse(name, value, f"a value of {name}")
        elif name not in (*self.given, *self.WITHOUT_INFLUENCE) and not (name == "act_layer" and self.activations):
            self._refuse(name, value, f"no argument {name}")

    def _size(self, ours: str, value: Any) -> Any:
        size = one_or_two(value) if isinstance(value, int) or len(value) == 2 else value
        if not isinstance(size, int) and (ours not in self.pairs or len(size) != 2):
            self._refuse(self.fields[ours], value, "one number for both sides")
        return size

    def _refuse(self, name: str, value: Any, expected: str) -> None:
        raise UserError(f"this {self.title} differs from the paper's", expected=expected, got=f"{name} {value}")


def _plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
