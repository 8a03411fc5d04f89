"""Runs of `patchword train` in separate processes, which the tests kill and stop.

There are two kinds, images and masked words, each with dropout, a weight average, all random augmentation of a recipe,
and threads that prepare batches; saved after every step.
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

COUNT = float(os.environ.get("SURVIVAL_SHARE", "1"))  # fraction of the kills and stops that are done
IMAGES = (
    *TINY_MODEL,
    *RANDOM,
    "epochs=16",
    "batch_size=128",
    "ema_decay=0.9",
    "patience=12",
    "device=cpu",
    "save_minutes=0",
    "keep_checkpoints=true",
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
        "keep_checkpoints=true",
    ),
)


@dataclass(frozen=True)
class Kind:
    """A kind of run: its recipe and fields. folder: of its runs and data"""

    recipe: str
    fields: tuple[str, ...]
    folder: Path

    def start(self, name: str) -> subprocess.Popen[str]:
        words = ["train", self.recipe, *settings(*self.fields), "--name", name, "--runs", str(self.folder), "--resume"]
        environment = {**os.environ, "PYTHONUNBUFFERED": "1", "PATCHWORD_DATA": str(self.folder / "data")}
        return subprocess.Popen(
            [sys.executable, "-m", "patchword", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment,
        )

    def whole(self) -> Path:
        """The uninterrupted run."""
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
    """Return one document per line; all words of a document begin with the same letter."""
    rng, lines = random.Random(0), []
    for number in range(documents):
        known = syllables[5 * (number % 8) : 5 * (number % 8) + 5]
        lines.append(" ".join(" ".join(rng.choices(known, k=5)).capitalize() + "." for _ in range(rng.randint(2, 8))))
    return "\n".join(lines) + "\n"


def finished(process: subprocess.Popen[str]) -> str:
    output = process.communicate()[0]
    assert process.returncode == 0, output
    return output


def acknowledged(folder: Path) -> str:
    """Return the name of the newest completed checkpoint; empty before the first save."""
    return max((path.name for path in (folder / "checkpoints").glob("epoch-*")), default="")


def in_a_save(folder: Path) -> bool:
    return any((folder / "checkpoints").glob(".epoch-*.tmp"))


def whole_place(folder: Path) -> str:
    """Return the name of the newest checkpoint; none may be damaged."""
    checkpoints, messages = Checkpoints(folder / "checkpoints"), []
    checkpoints.newest(messages.append)
    assert messages == []
    return acknowledged(folder)


def begun_at(output: str) -> str:
    """Return the name of the checkpoint from which a run says that it resumed."""
    found = re.search(r"resuming from epoch (\d+), batch (\d+)", output)
    return f"epoch-{int(found[1]) - 1:05d}-batch-{int(found[2]) - 1:07d}" if found else ""


def wait_for(process: subprocess.Popen[str], seen: Callable[[], bool]) -> bool:
    """Wait until `seen()`, without a time limit; return False if the process ended first."""
    while not seen():
        if process.poll() is not None:
            return False
        time.sleep(0.001)
    return True


def assert_the_same(folder: Path, whole: Path) -> None:
    """Weights, last checkpoint, metrics and test result are bit-equal, except for the time."""
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
