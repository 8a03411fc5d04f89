"""Weights & Biases: files in the run's folder, which `wandb sync` uploads, unless the user chose another mode."""

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from patchword.training.loggers.logger import LoggedRun, Outcome

_EXIT_CODES = {"finished": 0, "stopped": 0, "failed": 1}


class WandB:
    """Records a run in the project `patchword`, or in $WANDB_PROJECT. Nothing is sent unless $WANDB_MODE is online."""

    def __init__(self) -> None:
        self.run: Any = None
        self.step = 0

    def start(self, run: LoggedRun) -> str:
        import wandb

        mode: Any = os.environ.get("WANDB_MODE") or "offline"
        folder, known = run.folder.absolute(), run.known_id("wandb")
        self.step = run.step
        self.run = wandb.init(
            project=os.environ.get("WANDB_PROJECT") or "patchword",
            name=folder.name,
            id=known or None,
            dir=str(folder),
            config=dict(run.recipe),
            mode=mode,
            reinit="create_new",
            resume="allow" if known and mode == "online" else None,
            save_code=False,
            settings=wandb.Settings(console="off", silent=True, disable_git=True),
        )
        if not known:
            run.remember_id("wandb", str(self.run.id))
        place = Path(str(self.run.dir)).parent
        return f"recorded in {place}; to upload it: wandb sync {place}" if mode == "offline" else f"mode {mode}"

    def log(self, values: Mapping[str, float], step: int) -> None:
        self.step = max(step, self.step)
        self.run.log(dict(values), step=step)

    def result(self, values: Mapping[str, float], files: Sequence[Path]) -> None:
        self.run.summary.update(dict(values))
        place = Path(str(self.run.dir))
        for file in files:  # a file of another folder would become a link, which leads nowhere once the run is renamed
            shutil.copyfile(file, place / file.name)
            self.run.save(str(place / file.name), base_path=str(place), policy="now")

    def close(self, outcome: Outcome) -> None:
        if self.run is not None:
            self.run.finish(exit_code=_EXIT_CODES[outcome])
