"""Which run a checkpoint belongs to: the id of the run, and digests of the recipe and the data it began with."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from patchword.core.errors import UserError
from patchword.training.checkpoint.manifest import MANIFEST, entries


@dataclass(frozen=True)
class Origin:
    """What the checkpoints of a run have in common. accepts_older: those of versions that wrote no origin, too."""

    run: str
    recipe: str
    data: str
    accepts_older: bool = False

    def marks(self) -> dict[str, str]:
        """Return what is written into a checkpoint."""
        return {"run": self.run, "recipe": self.recipe, "data": self.data}

    def check(self, folders: Sequence[Path]) -> None:
        """Raise an error if one of the checkpoints belongs to another run; a damaged one is not looked at."""
        for folder in folders:
            found = origin_of(folder)
            if found is None or found == self.marks() or (not found and self.accepts_older):
                continue
            raise UserError(
                f"the checkpoint {folder} is not of this run",
                expected=f"run {self.run[:12]}",
                got=self._difference(found),
                hint=f"move it out of {folder.parent}; the run resumes from a checkpoint of its own",
            )

    def _difference(self, found: Mapping[str, str]) -> str:
        if not found:
            return "a checkpoint without the id of a run"
        parts = [what for what in ("recipe", "data") if found.get(what) != self.marks()[what]]
        return f"run {found.get('run', '')[:12]}" + (f", with another {' and other '.join(parts)}" if parts else "")


def origin_of(folder: Path) -> dict[str, str] | None:
    """Return what a checkpoint says of its run: nothing in versions that wrote none; None if it is damaged."""
    try:
        content = (folder / MANIFEST).read_bytes()
        entries(content)
        return {str(name): str(value) for name, value in json.loads(content).get("origin", {}).items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
