"""AdamW, with decay on matrices only."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn


def adamw(
    model: nn.Module,
    rate: float,
    decay: float,
    betas: tuple[float, float] = (0.9, 0.999),
    *,
    layer_decay: float = 1.0,
    corrected: bool = True,
) -> torch.optim.AdamW:
    """Biases, norms, leading tokens and the positions of patches are not decayed; BERT's tables are, as in its paper.

    layer_decay: each block learns at this share of the rate of the block above it, the head at the full rate.
    corrected: without, the first steps are as large as BERT's own optimizer makes them, with its eps of 1e-6.
    """
    groups: dict[tuple[bool, int], list[nn.Parameter]] = defaultdict(list)
    layers = _layers(name for name, _ in model.named_parameters())
    top = max(layers.values(), default=0)
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            groups[_is_matrix(name, parameter), layers[name] if layer_decay != 1 else top].append(parameter)
    chosen: list[dict[str, Any]] = [
        {"params": parameters, "weight_decay": decay if matrices else 0.0, "share": layer_decay ** (top - layer)}
        for (matrices, layer), parameters in sorted(groups.items(), key=lambda item: (not item[0][0], item[0][1]))
    ]
    kind = torch.optim.AdamW if corrected else UncorrectedAdamW
    return kind(chosen, lr=rate, betas=betas, eps=1e-8 if corrected else 1e-6, fused=True)


class UncorrectedAdamW(torch.optim.AdamW):
    """Without the correction of the moments for their start at zero, as BERT was trained (Mosbach et al., 2021, 5.1).

    The corrected step with another rate, eps and decay is the uncorrected one.
    """

    taken: int | None = None

    def step(self, closure: Any = None) -> Any:
        if self.taken is None:  # after a restart the moments know how far they are
            self.taken = max((int(state["step"]) for state in self.state.values()), default=0)
        self.taken += 1
        before = [(group["lr"], group["eps"], group["weight_decay"]) for group in self.param_groups]
        for group in self.param_groups:
            first, second = (1 - beta**self.taken for beta in group["betas"])
            factor = first / second**0.5
            group["lr"] *= factor
            group["eps"] /= second**0.5
            group["weight_decay"] /= factor
        answer = super().step(closure)
        self._count_left_out()
        for group, (rate, eps, decay) in zip(self.param_groups, before, strict=True):
            group["lr"], group["eps"], group["weight_decay"] = rate, eps, decay
        return answer

    def load_state_dict(self, state_dict: Any) -> None:
        super().load_state_dict(state_dict)
        self.taken = None

    def _count_left_out(self) -> None:
        """A step that the device leaves out is not known here, and is counted in both places or in neither."""
        left_out = getattr(self, "found_inf", None)
        if left_out is not None:
            counts = [state["step"] for weight, state in self.state.items() if weight.grad is not None]
            torch._foreach_add_(counts, left_out)


def optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    states = optimizer.state_dict()["state"]
    return {f"optimizer.{index}.{key}": value for index, state in states.items() for key, value in state.items()}


def restore_optimizer(optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    states: dict[int, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        if name.startswith("optimizer."):
            _, index, key = name.split(".", 2)
            states.setdefault(int(index), {})[key] = tensor
    optimizer.load_state_dict({"state": states, "param_groups": optimizer.state_dict()["param_groups"]})


def _is_matrix(name: str, parameter: nn.Parameter) -> bool:
    return name.endswith("weight") and parameter.ndim >= 2


def _layers(names: Iterable[str]) -> dict[str, int]:
    """The layer of each parameter: blocks are counted from 1 through all stages; an entrance belongs just below the
    first block behind it; what stands behind all blocks is the top."""
    ordered = list(names)
    blocks = list(dict.fromkeys(found[1] for name in ordered if (found := _BLOCK.match(name))))
    number = {block: index for index, block in enumerate(blocks, 1)}

    def layer(name: str) -> int:
        if found := _BLOCK.match(name):
            return number[found[1]]
        stage = re.match(r"(stages\.\d+\.)", name)
        home = stage[1] if stage else "encoder." if _ENTRANCE.match(name) else None
        behind = [number[block] for block in blocks if home is not None and block.startswith(home)]
        return min(behind) - 1 if behind else len(blocks) + 1

    return {name: layer(name) for name in ordered}


_BLOCK = re.compile(r"((?:.*\.)?blocks\.\d+)\.")
_ENTRANCE = re.compile(r"(entrance|prefix|positions)\.")
