"""Runs of the command in processes of their own, to be killed and stopped from outside.

Two kinds, pictures and masked words, each with dropout, an average of the weights, everything random that a recipe has,
and threads that make batches ahead; saved after every step.
"""

import json
import os
import random
import re
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from patchword.training.checkpoint.checkpoint import Checkpoints
from support.material import RANDOM, TINY_MODEL, differing, settings
from support.tiny_texts import QUICK, vocabulary_of

COUNT = float(os.environ.get("SURVIVAL_SHARE", "1"))  # of the kills and stops: 0.1 is a tenth
IMAGES = (
    *TINY_MODEL,
    *RANDOM,
    "epochs=16",
    "batch_size=128",
    "ema_decay=0.9",
    "patience=12",
    "device=cpu",
    "save_minutes=0",
)
TEXTS = (
    *QUICK,
    *(
        "model.dropout=0.1",
        "model.attention_dropout=0.1",
        "ema_decay=0.9",
        "gradient_accumulation=2",
        "epochs=16",
        "batch_size=16",
    ),
    *(
        "documents=line",
        "length=24",
        "held_out=0.2",
        "masked=0.2",
        "masks=words",
        "learning_rate=5e-3",
        "save_minutes=0",
    ),
)


@dataclass(frozen=True)
class Kind:
    """A kind of run: its recipe and fields. folder: where its runs and the sets it needs are"""

    recipe: str
    fields: tuple[str, ...]
    folder: Path

    def start(self, name: str) -> subprocess.Popen[str]:
        words = ["train", self.recipe, *settings(*self.fields), "--name", name, "--runs", str(self.folder), "--resume"]
        surroundings = {**os.environ, "PYTHONUNBUFFERED": "1", "PATCHWORD_DATA": str(self.folder / "data")}
        return subprocess.Popen(
            [sys.executable, "-m", "patchword", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=surroundings,
        )

    def whole(self) -> Path:
        """The run that nothing interrupted."""
        folder = self.folder / "whole"
        if not (folder / "evaluation.json").is_file():
            finished(self.start("whole"))
        return folder


def kind_of(name: str, folder: Path) -> Kind:
    if name == "images":
        return Kind("digits-vit", IMAGES, folder)
    syllables = [first + second for first in "abcdefgh" for second in "aeiou"]
    vocabulary_of([*syllables, "."], folder / "words")
    (folder / "texts.txt").write_text(_stories(syllables), encoding="utf-8")
    own = (f"text={folder / 'texts.txt'}", f"tokenizer={folder / 'words'}")
    return Kind("bert-pretrain", (*TEXTS, *own), folder)


def _stories(syllables: list[str], documents: int = 90) -> str:
    """a document a line; all words of one begin with the same letter"""
    rng, lines = random.Random(0), []
    for number in range(documents):
        known = syllables[5 * (number % 8) : 5 * (number % 8) + 5]
        lines.append(" ".join(" ".join(rng.choices(known, k=5)).capitalize() + "." for _ in range(rng.randint(2, 8))))
    return "\n".join(lines) + "\n"


def finished(process: subprocess.Popen[str]) -> str:
    told = process.communicate()[0]
    assert process.returncode == 0, told
    return told


def acknowledged(folder: Path) -> str:
    """The newest place that is saved, as anybody can see it; empty before the first save."""
    return max((path.name for path in (folder / "checkpoints").glob("epoch-*")), default="")


def in_a_save(folder: Path) -> bool:
    return any((folder / "checkpoints").glob(".epoch-*.tmp"))


def whole_place(folder: Path) -> str:
    """The newest place whose checkpoint is whole; there must be no damaged one at all."""
    checkpoints, said = Checkpoints(folder / "checkpoints"), []
    checkpoints.newest(said.append)
    assert said == []
    return acknowledged(folder)


def begun_at(told: str) -> str:
    """The place that a start says it went on from."""
    found = re.search(r"resuming from epoch (\d+), batch (\d+)", told)
    return f"epoch-{int(found[1]) - 1:05d}-batch-{int(found[2]) - 1:07d}" if found else ""


def wait_for(process: subprocess.Popen[str], seen: Callable[[], bool]) -> bool:
    """Until `seen()`, however busy the machine is; False if the process ended before."""
    while not seen():
        if process.poll() is not None:
            return False
        time.sleep(0.001)
    return True


def assert_the_same(folder: Path, whole: Path) -> None:
    """Weights, the last checkpoint, metrics and the test's result: bit by bit, but for the time it took."""
    newest = acknowledged(whole)
    assert acknowledged(folder) == newest
    assert differing(folder / "model.safetensors", whole / "model.safetensors") == []
    mine, other = (place / "checkpoints" / newest for place in (folder, whole))
    assert differing(mine / "tensors.safetensors", other / "tensors.safetensors") == []
    for file in ("state.json", "../../metrics.jsonl"):
        assert _timeless((mine / file).read_text()) == _timeless((other / file).read_text())
    assert (folder / "evaluation.json").read_bytes() == (whole / "evaluation.json").read_bytes()


def _timeless(text: str) -> list[dict[str, object]]:
    return [{**json.loads(line), "seconds": 0} for line in text.splitlines()]
