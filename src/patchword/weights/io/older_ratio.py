"""Folders of earlier versions, which rounded the hidden width of a feed-forward to the nearest number, not down."""

from collections.abc import Mapping

from torch import Tensor

from patchword.core.card import ConfigValue
from patchword.core.errors import UserError
from patchword.weights.names.configs import common_ratio
from patchword.weights.names.vision.pyramids import in_each_stage


def fit_mlp_ratio(config: Mapping[str, ConfigValue], tensors: Mapping[str, Tensor]) -> dict[str, ConfigValue]:
    """Return the config of a card with the mlp_ratio that gives the hidden widths of the tensors.

    Other differences are left to the check of the tensors.
    """
    given, depths = config.get("mlp_ratio"), config.get("depths")
    if not isinstance(given, int | float) or not isinstance(depths, tuple):
        return dict(config)
    names = in_each_stage(len(depths), "feed_forward.sublayer.up.weight")
    found = [(tensors[name].shape[0], tensors[name].shape[1]) for name in names if name in tensors]
    is_current = all(int(given * width) == hidden for hidden, width in found)
    if is_current or any(round(given * width) != hidden for hidden, width in found):
        return dict(config)
    if (ratio := common_ratio(found)) is None:
        raise UserError(
            f"an earlier version rounded the hidden widths of mlp_ratio {given} to the nearest; no ratio has these",
            expected="hidden widths " + ", ".join(str(int(given * width)) for _, width in found),
            got=", ".join(str(hidden) for hidden, _ in found),
        )
    return {**config, "mlp_ratio": ratio}
