"""The disk space that a run needs, checked before its first step, and the cost of a save."""

from collections.abc import Iterable
from pathlib import Path

from torch import Tensor

from patchword.core.disk_space import check_disk_space, format_bytes
from patchword.training.checkpoint.checkpoint import SaveCost
from patchword.training.loop import Loop


def checkpoint_bytes(loop: Loop) -> int:
    """Return the size of one checkpoint. Before the first step it includes the two moments per weight of AdamW."""
    existing = sum(tensor_bytes(state.values()) for state in loop.optimizer.state.values())
    trained = tensor_bytes(weight for group in loop.optimizer.param_groups for weight in group["params"])
    return (
        tensor_bytes(loop.model.state_dict().values())
        + tensor_bytes(loop.average.shadow.values())
        + max(existing, 2 * trained)
    )


def run_bytes(loop: Loop) -> int:
    """Return the most space that a run still needs at one time.

    That is the checkpoints that are kept, the best, and one that is being written, less those on the disk; snapshots;
    and the best weights, twice while they are replaced.
    """
    kept = loop.checkpoints.keep + 2
    copies = max(1, kept - len(loop.checkpoints.all())) + loop.step.snapshots_to_write()
    return copies * checkpoint_bytes(loop) + 2 * tensor_bytes(loop.model.state_dict().values())


def check_disk(loop: Loop, folder: Path) -> None:
    """Raise an error before the first step if the disk is too small for the run."""
    if not loop.finished():
        check_disk_space(f"not enough disk space for the run {folder}", folder, run_bytes(loop))


def format_cost(cost: SaveCost) -> str:
    """Return e.g. 12.3 MB, on the disk after 0.21 s, of which training waited 0.01 s."""
    waited = f"of which training waited {cost.waited:.2f} s"
    return f"{format_bytes(cost.bytes)}, on the disk after {cost.seconds:.2f} s, {waited}"


def tensor_bytes(tensors: Iterable[object]) -> int:
    """Return the bytes of all tensors among these values."""
    return sum(tensor.nbytes for tensor in tensors if isinstance(tensor, Tensor))
