"""The rank of this process, from the environment that `patchword train --processes`, torchrun or Slurm's srun set."""

import os
from collections.abc import Mapping
from dataclasses import dataclass

from patchword.core.errors import UserError

LAUNCHER = (
    "PATCHWORD_LAUNCHER"  # set by `patchword train --processes`: a file descriptor that closes when the launcher ends
)
_VARIABLES = (("RANK", "WORLD_SIZE", "LOCAL_RANK"), ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"))


@dataclass(frozen=True)
class Rank:
    """The rank of a process. rank: among all processes. local: on this machine, which is also the index of its GPU."""

    rank: int
    size: int
    local: int


def rank_of(environment: Mapping[str, str] = os.environ) -> Rank | None:
    """Return None if this is the only process. Slurm's variables count only if MASTER_ADDR is set, too."""
    for names in _VARIABLES:
        if names[0] in environment and names[1] in environment and "MASTER_ADDR" in environment:
            rank, size, local = (_number(name, environment.get(name, "0")) for name in names)
            if not 0 <= rank < size:
                raise UserError(f"environment variable {names[0]}", expected=f"0 to {size - 1}", got=rank)
            return Rank(rank, size, local) if size > 1 else None
    return None


def is_main() -> bool:
    """Return True in the one process that writes files and prints."""
    found = rank_of()
    return found is None or found.rank == 0


def launched_processes(environment: Mapping[str, str] = os.environ) -> int:
    """Return how many processes `patchword train --processes` has started; 1 if it started none."""
    found = rank_of(environment)
    return found.size if found is not None and LAUNCHER in environment else 1


def _number(name: str, text: str) -> int:
    if not text.isdecimal():
        raise UserError(f"environment variable {name}", expected="a number", got=text or "nothing")
    return int(text)
