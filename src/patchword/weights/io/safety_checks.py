"""Safety checks of weights and configs: no code to run, no non-finite values, no excessive depth."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from patchword.core.errors import UserError

_CODE = ("auto_map", "custom_pipelines", "_target_", "_attn_implementation_internal")  # fields that name code to run
_DEPTHS = ("depth", "depths", "layers", "convolutions")  # fields that are numbers of layers
_HARMLESS = ("eager", "sdpa", "flash_attention_2", "flash_attention_3", "flex_attention")


def refuse_code(config: object, path: Path) -> None:
    """Raise an error for a config that requests code. We would not run it, but then the model is not one of ours."""
    entries = config.items() if isinstance(config, Mapping) else enumerate(config) if isinstance(config, list) else ()
    for name, value in entries:
        if name in _CODE and value and value not in _HARMLESS:
            raise UserError(
                f"{path} requests code to run: {name}",
                expected="sizes and names only",
                got=repr(value)[:120],
                hint="nothing was run. If patchword supports the model of these weights, remove the entry",
            )
        refuse_code(value, path)


def refuse_nonfinite(tensors: Mapping[str, Tensor], path: Path) -> None:
    """Raise an error for NaN or infinity, which would make every output of the model non-finite."""
    broken = {
        name: int((~tensor.isfinite()).sum())
        for name, tensor in tensors.items()
        if tensor.is_floating_point() and not bool(tensor.isfinite().all())
    }
    if broken:
        listed = [f"{name}: {count:,} of {tensors[name].numel():,}" for name, count in broken.items()]
        more = [f"... and {len(listed) - 20} more"] if len(listed) > 20 else []
        raise UserError(
            f"{path} has non-finite weights in {len(broken)} of {len(tensors)} tensors",
            expected="finite numbers",
            got="NaN or infinity",
            hint="\n".join([*listed[:20], *more, "use an earlier checkpoint: this training diverged"]),
        )


def refuse_depth(config: Mapping[str, Any], tensors: int, path: Path) -> None:
    """Raise an error, before a model is built, if its depth exceeds the number of tensors."""
    for field in _DEPTHS:
        asked = config.get(field, 0)
        depths = asked if isinstance(asked, tuple | list) else (asked,)
        if all(isinstance(depth, int) for depth in depths) and sum(depths) > tensors:
            raise UserError(f"{path} does not fit its config", expected=f"{field} {asked}", got=f"{tensors} tensors")
