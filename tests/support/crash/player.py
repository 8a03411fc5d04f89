"""Plays cases in folders of their own, with the data and the uninterrupted runs of each kind made once."""

import os
import shutil
from pathlib import Path

from support.crash.cases import Case, played
from support.crash.processes import preload
from support.tiny.kinds import tiny_words


class Player:
    """Plays cases below a folder."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.wholes: dict[tuple[object, ...], tuple[Path, float]] = {}
        self.recipes: dict[str, list[str]] = {}

    def play(self, case: Case) -> tuple[str, str, Path]:
        """Return how a case ended, the damage that was done, and its folder."""
        folder = self.place / f"case-{case.number}"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self._data(case.kind), folder)
        play = played(case, folder, self.recipes[case.kind], self.wholes)
        return play.play(), ", ".join(play.damaged), folder

    def _data(self, kind: str) -> Path:
        folder = self.place / f"data-{kind}"
        if not folder.exists():
            folder.mkdir()
            before = Path.cwd()
            os.chdir(folder)
            try:
                self.recipes[kind] = tiny_words(kind)
            finally:
                os.chdir(before)
            if len(self.recipes) == 1:
                words = ["train", *self.recipes[kind], "epochs=1", "--name", "first", "--runs", str(self.place)]
                preload(words, folder)
        return folder
