"""Check that tensors fit a model: none missing, none unexpected, all of the right shape."""

from collections.abc import Mapping
from pathlib import Path

from torch import Tensor

from patchword.core.errors import UserError
from patchword.layers.model import Model, ModuleWithCard

TASK = ("head.", "mixture.")  # name prefixes of task-specific weights; the mixture is ELMo's weighting of its layers


def check_encoder(tensors: Mapping[str, Tensor], model: Model, path: Path, unknown: list[str]) -> None:
    """Check the shapes of the encoder, before a new head of the model's sizes is created."""
    expected = {name: tensor.shape for name, tensor in model.state_dict().items() if not name.startswith(TASK)}
    if any(name in tensors and tensors[name].shape != shape for name, shape in expected.items()):
        check_tensors(tensors, model, path, unknown)


def check_tensors(tensors: Mapping[str, Tensor], model: ModuleWithCard, path: Path, unknown: list[str]) -> None:
    """Raise an error that lists all missing, unexpected and misshapen tensors."""
    expected = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    wrong = [f"missing     {name} {shape}" for name, shape in expected.items() if name not in tensors]
    wrong += [f"unexpected  {name}" for name in [*unknown, *(name for name in tensors if name not in expected)]]
    wrong += [
        f"misshapen   {name}: expected {shape}, got {tuple(tensors[name].shape)}"
        for name, shape in expected.items()
        if name in tensors and tuple(tensors[name].shape) != shape
    ]
    if wrong:
        listed = "\n".join(wrong[:20] + ([f"... and {len(wrong) - 20} more"] if len(wrong) > 20 else []))
        raise UserError(f"{path} does not fit {model.card.model!r}: {len(wrong)} tensors differ", hint=listed)
