"""Which process of how many this one is, as `patchword train --processes`, torchrun or Slurm's srun tell it."""

import os
from collections.abc import Mapping
from dataclasses import dataclass

from patchword.core.errors import UserError

LAUNCHER = "PATCHWORD_LAUNCHER"  # set by `patchword train --processes`: a file descriptor that ends with it
_TOLD = (("RANK", "WORLD_SIZE", "LOCAL_RANK"), ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"))


@dataclass(frozen=True)
class Rank:
    """number: among all; local: among those of this machine, which is the number of its GPU."""

    number: int
    size: int
    local: int


def rank_of(environment: Mapping[str, str] = os.environ) -> Rank | None:
    """Nothing where this is the only process. A Slurm job counts only where it says where its processes meet."""
    for names in _TOLD:
        if names[0] in environment and names[1] in environment and "MASTER_ADDR" in environment:
            number, size, local = (_number(name, environment.get(name, "0")) for name in names)
            if not 0 <= number < size:
                raise UserError(f"{names[0]} is wrong", expected=f"0 to {size - 1}", got=number)
            return Rank(number, size, local) if size > 1 else None
    return None


def is_main() -> bool:
    """The one process that writes and prints."""
    place = rank_of()
    return place is None or place.number == 0


def launched(environment: Mapping[str, str] = os.environ) -> int:
    """As many processes as `patchword train --processes` has started, this one among them; 1 if it started none."""
    place = rank_of(environment)
    return place.size if place is not None and LAUNCHER in environment else 1


def _number(name: str, text: str) -> int:
    if not text.isdecimal():
        raise UserError(f"the environment's {name} cannot be used", expected="a number", got=text or "nothing")
    return int(text)
