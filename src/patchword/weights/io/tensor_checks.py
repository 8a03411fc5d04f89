"""Check that tensors fit a model: none missing, none unexpected, all of the right shape."""

from collections.abc import Mapping
from pathlib import Path

from torch import Tensor

from patchword.core.errors import UserError, first_few
from patchword.layers.model import Model, ModuleWithCard

TASK = ("head.", "mixture.")  # name prefixes of task-specific weights; the mixture is ELMo's weighting of its layers

_SHOWN = 3  # tensors of each kind of difference that a message names


def check_encoder(
    tensors: Mapping[str, Tensor], model: Model, path: Path, unknown: list[str], advice: str = ""
) -> None:
    """Check the shapes of the encoder, before a new head of the model's sizes is created."""
    expected = {name: tensor.shape for name, tensor in model.state_dict().items() if not name.startswith(TASK)}
    if any(name in tensors and tensors[name].shape != shape for name, shape in expected.items()):
        check_tensors(tensors, model, path, unknown, advice)


def check_tensors(
    tensors: Mapping[str, Tensor], model: ModuleWithCard, path: Path, unknown: list[str], advice: str = ""
) -> None:
    """Raise an error that lists the first missing, unexpected and misshapen tensors, and counts them.

    advice: a line before the list, about what the user probably did
    """
    expected = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    missing = [f"missing     {name} {shape}" for name, shape in expected.items() if name not in tensors]
    unexpected = [f"unexpected  {name}" for name in [*unknown, *(name for name in tensors if name not in expected)]]
    misshapen = [
        f"misshapen   {name}: expected {shape}, got {tuple(tensors[name].shape)}"
        for name, shape in expected.items()
        if name in tensors and tuple(tensors[name].shape) != shape
    ]
    wrong = missing, unexpected, misshapen
    if count := sum(map(len, wrong)):
        listed = "\n".join([*filter(None, [advice]), *(line for lines in wrong for line in first_few(lines, _SHOWN))])
        raise UserError(f"{path} does not fit {model.card.model!r}: {count} tensors differ", hint=listed)
