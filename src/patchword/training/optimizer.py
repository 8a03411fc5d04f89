"""AdamW with weight decay on matrices only, and with layer-wise learning rates."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn

from patchword.core.errors import UserError

ENDLESS = 1e6  # 0.9999 ** ENDLESS is 0 in float32


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

    Every weight counts its steps from `ENDLESS`, where the corrections 1 - beta^step are exactly 1 in float32.
    """

    def step(self, closure: Any = None) -> Any:
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None and not self.state[parameter]:
                    self.state[parameter] = {
                        "step": torch.full((), ENDLESS, dtype=torch.float32, device=parameter.device),
                        "exp_avg": torch.zeros_like(parameter),
                        "exp_avg_sq": torch.zeros_like(parameter),
                    }
        return super().step(closure)

    def load_state_dict(self, state_dict: Any) -> None:
        super().load_state_dict(state_dict)
        for state in self.state.values():  # earlier checkpoints counted from 0
            state["step"] += ENDLESS * (state["step"] < ENDLESS)


def optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Return the optimizer's state as named tensors, for a checkpoint."""
    states = optimizer.state_dict()["state"]
    return {f"optimizer.{index}.{key}": value for index, state in states.items() for key, value in state.items()}


def restore_optimizer(optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Load the optimizer's state from the tensors of a checkpoint. State of other parameters is an error.

    A checkpoint does not keep strides. AdamW's fused kernel needs moments with the strides of their parameter, which
    are channels last in convolutions on a GPU.
    """
    states: dict[int, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        if name.startswith("optimizer."):
            _, index, key = name.split(".", 2)
            states.setdefault(int(index), {})[key] = tensor
    _check_state(states, [parameter for group in optimizer.param_groups for parameter in group["params"]])
    optimizer.load_state_dict({"state": states, "param_groups": optimizer.state_dict()["param_groups"]})
    for parameter, state in optimizer.state.items():
        for key, value in state.items():
            if value.shape == parameter.shape and value.stride() != parameter.stride():
                state[key] = torch.empty_like(parameter).copy_(value)


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
    return parameter.ndim >= 2 and _MATRIX.search(name) is not None


def layer_indices(names: Iterable[str]) -> dict[str, int]:
    """Return the layer index of each parameter.

    Blocks count from 1 through all stages, the layers of an LSTM likewise, both directions of one as one; a stem is one
    layer below the first block of its stage; parameters after the last block are the top layer.
    """
    ordered = list(names)
    blocks = list(dict.fromkeys(found for name in ordered if (found := _block_of(name))))
    index_of = {block: index for index, block in enumerate(blocks, 1)}

    def layer(name: str) -> int:
        if found := _block_of(name):
            return index_of[found]
        stage = re.match(r"(stages\.\d+\.)", name)
        prefix = stage[1] if stage else "encoder." if _STEM.match(name) else None
        after = [index_of[block] for block in blocks if prefix is not None and block.startswith(prefix)]
        return min(after) - 1 if after else len(blocks) + 1

    return {name: layer(name) for name in ordered}


def _block_of(name: str) -> str:
    """Return the block or the recurrent layer that a parameter belongs to; "" outside of them."""
    if found := _BLOCK.match(name):
        return found[1]
    found = _DIRECTION.match(name) or _RECURRENT.match(name)
    return f"{found[1]}{found[2]}" if found else ""


_BLOCK = re.compile(r"((?:.*\.)?(?:blocks|layers)\.\d+)\.")
_DIRECTION = re.compile(r"(.*\.)(?:forwards|backwards)\.(\d+)\.")
_RECURRENT = re.compile(r"((?:.*\.)?)(?:weight|bias)_[ih]h_l(\d+)")
_STEM = re.compile(r"(embedding|source|target|prefix|positions)\.")
_MATRIX = re.compile(r"(^|\.)(weight(_[ih]h_l\d+)?|inputs|recurrent|output)$")  # the last three are those of ELMo
