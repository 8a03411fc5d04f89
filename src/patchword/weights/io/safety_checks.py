"""What no weights and no configuration may bring: code to run, numbers that are none, blocks without end."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from patchword.core.errors import UserError

_CODE = ("auto_map", "custom_pipelines", "_target_", "_attn_implementation_internal")  # each names what is to be run
_HARMLESS = ("eager", "sdpa", "flash_attention_2", "flash_attention_3", "flex_attention")


def refuse_code(config: Any, path: Path) -> None:
    """A configuration that asks for code. Nothing here would run it; but then its model is another than ours."""
    entries = config.items() if isinstance(config, Mapping) else enumerate(config) if isinstance(config, list) else ()
    for name, value in entries:
        if name in _CODE and value and value not in _HARMLESS:
            raise UserError(
                f"{path} asks for code: {name}",
                expected="sizes and names only",
                got=repr(value)[:120],
                hint="nothing was run. If the weights are a model that patchword knows, remove the entry",
            )
        refuse_code(value, path)


def refuse_nonfinite(tensors: Mapping[str, Tensor], path: Path) -> None:
    """One NaN makes every answer NaN, so that nothing a model with it says means anything."""
    broken = {
        name: int((~tensor.isfinite()).sum())
        for name, tensor in tensors.items()
        if tensor.is_floating_point() and not bool(tensor.isfinite().all())
    }
    if broken:
        listed = [f"{name}: {count:,} of {tensors[name].numel():,}" for name, count in broken.items()]
        more = [f"... and {len(listed) - 20} more"] if len(listed) > 20 else []
        raise UserError(
            f"{path} has weights that are not finite, in {len(broken)} of {len(tensors)} tensors",
            expected="numbers",
            got="NaN or infinity",
            hint="\n".join([*listed[:20], *more, "take an earlier checkpoint: the training of this one went wrong"]),
        )


def refuse_depth(config: Mapping[str, Any], tensors: int, path: Path) -> None:
    """Before a model is built: one of more blocks than the file has tensors is not in it, and might have no end."""
    asked = config.get("depth", 0)
    depths = asked if isinstance(asked, tuple | list) else (asked,)
    if all(isinstance(depth, int) for depth in depths) and sum(depths) > tensors:
        raise UserError(f"{path} does not fit its config", expected=f"depth {asked}", got=f"{tensors} tensors")
