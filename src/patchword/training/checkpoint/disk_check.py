"""What saving a run needs: room on the disk before it begins, and time while it goes."""

from collections.abc import Iterable
from pathlib import Path

from torch import Tensor

from patchword.core.disk_space import check_disk_space, in_bytes
from patchword.training.checkpoint.checkpoint import Cost
from patchword.training.loop import Loop


def checkpoint_bytes(loop: Loop) -> int:
    """Of one checkpoint, told before the first step: AdamW will keep two numbers for every weight that is trained."""
    held = sum(_bytes(state.values()) for state in loop.optimizer.state.values())
    trained = _bytes(weight for group in loop.optimizer.param_groups for weight in group["params"])
    return _bytes(loop.model.state_dict().values()) + _bytes(loop.average.shadow.values()) + max(held, 2 * trained)


def run_bytes(loop: Loop) -> int:
    """What a run still has to write at most at one time: the checkpoints that are kept, the best, and one that is being
    written, less those that are there; places to come back to; and the best weights, twice while they are replaced."""
    kept = loop.checkpoints.keep + 2
    copies = max(1, kept - len(loop.checkpoints.all())) + loop.watch.places()
    return copies * checkpoint_bytes(loop) + 2 * _bytes(loop.model.state_dict().values())


def check_disk(loop: Loop, folder: Path) -> None:
    """Refuses a run whose disk cannot hold it, before its first step."""
    if not loop.finished():
        check_disk_space(f"{folder} has too little room for this run", folder, run_bytes(loop))


def told_cost(cost: Cost) -> str:
    """e.g. 12.3 MB, on the disk after 0.21 s, of which training waited 0.01 s"""
    return (
        f"{in_bytes(cost.bytes)}, on the disk after {cost.seconds:.2f} s, of which training waited {cost.waited:.2f} s"
    )


def _bytes(tensors: Iterable[object]) -> int:
    return sum(tensor.nbytes for tensor in tensors if isinstance(tensor, Tensor))
