"""kill -9 at twenty random moments of training; the same command goes on, and ends with the same bits."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from material import RANDOM, TINY_MODEL, differing, settings

KILLS = 20
EPOCHS = 16
# save_minutes=0 saves after every step, so that about half of the kills fall into a save.
FIELDS = (
    *TINY_MODEL,
    *RANDOM,
    f"epochs={EPOCHS}",
    "batch=128",
    "average=0.9",
    "patience=12",
    "device=cpu",
    "save_minutes=0",
)


def start(runs: Path, name: str) -> subprocess.Popen[str]:
    words = ["train", "digits-vit", *settings(*FIELDS), "--name", name, "--runs", str(runs), "--resume"]
    return subprocess.Popen(
        [sys.executable, "-m", "patchword", *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def places(folder: Path) -> set[str]:
    return {path.name for path in (folder / "checkpoints").glob("epoch-*")}


def killed(process: subprocess.Popen[str], folder: Path, delay: float) -> bool:
    """Kills it `delay` seconds after it saved for the first time; False if it was done before."""
    before = places(folder)
    while not places(folder) - before and process.poll() is None:
        time.sleep(0.002)
    time.sleep(delay)
    if process.poll() is not None:
        return False
    os.kill(process.pid, signal.SIGKILL)
    return process.wait() == -signal.SIGKILL


def without_seconds(text: str) -> list[dict[str, float]]:
    return [{**json.loads(line), "seconds": 0} for line in text.splitlines()]


def assert_the_same(folder: Path, whole: Path) -> None:
    newest = max(places(whole))
    assert max(places(folder)) == newest
    assert differing(folder / "model.safetensors", whole / "model.safetensors") == []
    mine, other = (place / "checkpoints" / newest for place in (folder, whole))
    assert differing(mine / "tensors.safetensors", other / "tensors.safetensors") == []
    for file in ("state.json", "../../metrics.jsonl"):
        assert without_seconds((mine / file).read_text()) == without_seconds((other / file).read_text())
    assert (folder / "evaluation.json").read_bytes() == (whole / "evaluation.json").read_bytes()


@pytest.mark.slow
def test_twenty_kills_change_nothing(tmp_path):
    reference = start(tmp_path, "whole")
    told = reference.communicate()[0]
    assert reference.returncode == 0, told
    rng, kills, in_a_save, runs = random.Random(0), 0, 0, 0
    while kills < KILLS:
        folder = tmp_path / f"run{runs}"
        while True:
            process = start(tmp_path, folder.name)
            if kills < KILLS and killed(process, folder, rng.uniform(0, 0.5)):
                kills += 1
                in_a_save += any((folder / "checkpoints").glob(".epoch-*"))
                continue
            told = process.communicate()[0]
            assert process.returncode == 0, told
            break
        assert_the_same(folder, tmp_path / "whole")
        runs += 1
    print(f"{kills} kills, {in_a_save} of them inside a save, in {runs} runs")
    assert in_a_save > 0  # else the moments were too tame to prove anything
