"""One of two processes is killed at ten random moments: the result is bit-equal each time."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from support.material import RANDOM, TINY_MODEL, differing, settings

KILLS = 10
FIELDS = (
    *TINY_MODEL,
    *RANDOM,
    "epochs=6",
    "batch_size=128",
    "ema_decay=0.9",
    "device=cpu",
    "save_minutes=0",
    "keep_checkpoints=true",
)


def start(runs: Path, name: str) -> subprocess.Popen[str]:
    words = ["train", "digits-vit", *settings(*FIELDS), "--name", name, "--runs", str(runs), "--processes", "2"]
    return subprocess.Popen(
        [sys.executable, "-m", "patchword", *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def workers(launcher: int) -> list[int]:
    found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(launcher)], capture_output=True, text=True, check=False)
    return [int(word) for word in found.stdout.split()]


def newest(folder: Path) -> Path:
    return max((folder / "checkpoints").glob("epoch-*"))


@pytest.mark.slow
def test_ten_kills_of_one_of_two_processes_change_nothing(tmp_path):
    whole = start(tmp_path, "whole")
    output = whole.communicate()[0]
    assert whole.returncode == 0, output
    rng, seconds = random.Random(0), []
    for kill in range(KILLS):
        folder = tmp_path / f"run{kill}"
        process = start(tmp_path, folder.name)
        while not any((folder / "checkpoints").glob("epoch-*")):
            time.sleep(0.01)
            assert process.poll() is None
        time.sleep(rng.uniform(0, 1.0))
        victims = workers(process.pid)
        assert len(victims) == 2
        os.kill(rng.choice(victims), signal.SIGKILL)
        began, place = time.monotonic(), newest(folder)
        while process.poll() is None and newest(folder) <= place:
            time.sleep(0.05)
        seconds.append(time.monotonic() - began)
        output = process.communicate(timeout=300)[0]
        assert process.returncode == 0, output
        assert "was killed by SIGKILL; restarting all" in output
        mine, other = (newest(place) / "tensors.safetensors" for place in (folder, tmp_path / "whole"))
        assert mine.parent.name == other.parent.name
        assert differing(mine, other) == []
        assert differing(folder / "model.safetensors", tmp_path / "whole" / "model.safetensors") == []
    print(f"{KILLS} of {KILLS} recovered; seconds to the next new checkpoint: {sorted(round(s, 1) for s in seconds)}")
