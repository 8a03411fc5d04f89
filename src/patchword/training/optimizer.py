"""AdamW with weight decay on matrices only, and with layer-wise learning rates."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn

from patchword.core.errors import UserError


def adamw(
    model: nn.Module,
    learning_rate: float,
    weight_decay: float,
    betas: tuple[float, float] = (0.9, 0.999),
    *,
    layer_decay: float = 1.0,
    lr_ratios: Mapping[str, float] = MappingProxyType({}),
    bias_correction: bool = True,
) -> torch.optim.AdamW:
    """Biases, norms, prefix tokens and position tables of patches are not decayed; BERT's tables are, as in its paper.

    layer_decay: the learning rate of a block, divided by that of the block above it; the head has the full rate.
    lr_ratios: factors of the learning rate of parameters by the start of their names, e.g. {"backbone.": 0.1}.
    bias_correction: False is BERT's own optimizer, whose first steps are larger, with its eps of 1e-6.
    """
    groups: dict[tuple[bool, int, float], list[nn.Parameter]] = defaultdict(list)
    layers = layer_indices(name for name, _ in model.named_parameters())
    top = max(layers.values(), default=0)
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            ratio = next((found for prefix, found in lr_ratios.items() if name.startswith(prefix)), 1.0)
            groups[_is_matrix(name, parameter), layers[name] if layer_decay != 1 else top, ratio].append(parameter)
    chosen: list[dict[str, Any]] = [
        {
            "params": parameters,
            "weight_decay": weight_decay if matrices else 0.0,
            "lr_scale": layer_decay ** (top - layer) * ratio,
        }
        for (matrices, layer, ratio), parameters in sorted(
            groups.items(), key=lambda item: (not item[0][0], *item[0][1:])
        )
    ]
    optimizer = torch.optim.AdamW if bias_correction else UncorrectedAdamW
    return optimizer(chosen, lr=learning_rate, betas=betas, eps=1e-8 if bias_correction else 1e-6, fused=True)


class UncorrectedAdamW(torch.optim.AdamW):
    """AdamW without bias correction of the moments, as BERT was trained (Mosbach et al., 2021, 5.1).

    Implemented as a corrected step with another learning rate, eps and weight decay, which is equal to it.
    """

    steps_done: int | None = None

    def step(self, closure: Any = None) -> Any:
        if self.steps_done is None:  # a resumed run reads the count from the moments
            self.steps_done = max((int(state["step"]) for state in self.state.values()), default=0)
        self.steps_done += 1
        before = [(group["lr"], group["eps"], group["weight_decay"]) for group in self.param_groups]
        for group in self.param_groups:
            first, second = (1 - beta**self.steps_done for beta in group["betas"])
            factor = first / second**0.5
            group["lr"] *= factor
            group["eps"] /= second**0.5
            group["weight_decay"] /= factor
        result = super().step(closure)
        self._count_skipped_step()
        for group, (learning_rate, eps, weight_decay) in zip(self.param_groups, before, strict=True):
            group["lr"], group["eps"], group["weight_decay"] = learning_rate, eps, weight_decay
        return result

    def load_state_dict(self, state_dict: Any) -> None:
        super().load_state_dict(state_dict)
        self.steps_done = None

    def _count_skipped_step(self) -> None:
        """Count a step that the device skipped: `steps_done` counts it, too, since the host cannot know of it."""
        skipped = getattr(self, "found_inf", None)
        if skipped is not None:
            counts = [state["step"] for weight, state in self.state.items() if weight.grad is not None]
            torch._foreach_add_(counts, skipped)


def optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Return the optimizer's state as named tensors, for a checkpoint."""
    states = optimizer.state_dict()["state"]
    return {f"optimizer.{index}.{key}": value for index, state in states.items() for key, value in state.items()}


def restore_optimizer(optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Load the optimizer's state from the tensors of a checkpoint. State of other parameters is an error."""
    states: dict[int, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        if name.startswith("optimizer."):
            _, index, key = name.split(".", 2)
            states.setdefault(int(index), {})[key] = tensor
    _check_state(states, [parameter for group in optimizer.param_groups for parameter in group["params"]])
    optimizer.load_state_dict({"state": states, "param_groups": optimizer.state_dict()["param_groups"]})


def _check_state(states: Mapping[int, Mapping[str, Tensor]], parameters: Sequence[nn.Parameter]) -> None:
    """Raise an error if moments have no parameter, or one of another shape."""
    known = range(len(parameters))
    if not all(
        index in known and state.get("exp_avg", parameters[index]).shape == parameters[index].shape
        for index, state in states.items()
    ):
        raise UserError(
            "the optimizer state of the checkpoint belongs to other parameters",
            expected=f"{len(parameters)} trained parameters",
            got=max(states) + 1,
            hint="an earlier version trained other norms of a detector's backbone; start the run again",
        )


def _is_matrix(name: str, parameter: nn.Parameter) -> bool:
    return name.endswith("weight") and parameter.ndim >= 2


def layer_indices(names: Iterable[str]) -> dict[str, int]:
    """Return the layer index of each parameter.

    Blocks count from 1 through all stages; a stem is one layer below the first block of its stage; parameters after
    the last block are the top layer.
    """
    ordered = list(names)
    blocks = list(dict.fromkeys(found[1] for name in ordered if (found := _BLOCK.match(name))))
    index_of = {block: index for index, block in enumerate(blocks, 1)}

    def layer(name: str) -> int:
        if found := _BLOCK.match(name):
            return index_of[found[1]]
        stage = re.match(r"(stages\.\d+\.)", name)
        prefix = stage[1] if stage else "encoder." if _STEM.match(name) else None
        after = [index_of[block] for block in blocks if prefix is not None and block.startswith(prefix)]
        return min(after) - 1 if after else len(blocks) + 1

    return {name: layer(name) for name in ordered}


_BLOCK = re.compile(r"((?:.*\.)?blocks\.\d+)\.")
_STEM = re.compile(r"(embedding|prefix|positions)\.")
