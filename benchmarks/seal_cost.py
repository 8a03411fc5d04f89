"""What the check of a run's seal costs: `predict` of one image with and without it, and loading bert-base.

The two commands run in turn, so that other work on the machine meets both. Run with
`python benchmarks/seal_cost.py [--pairs N] [--out FILE]`.
"""

import argparse
import json
import os
import resource
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import torch
from PIL import Image

import patchword
from patchword.core.device import machine
from patchword.core.errors import UnsealedWarning
from patchword.core.files import write_json
from patchword.core.seal.checking import check
from patchword.recipes.run_folders.verification import reseal
from patchword.weights.local_path import local_path


def exercise(folder: Path) -> tuple[Path, Path]:
    """Return two copies of the exercise's model as runs, one with a seal."""
    for name in ("sealed", "plain"):
        shutil.copytree(local_path("zoo:vit-exercise"), folder / name)
        (folder / name / "card.json").unlink(missing_ok=True)
    reseal(folder / "sealed")
    return folder / "sealed", folder / "plain"


def predicted(run: Path, image: Path) -> tuple[float, float]:
    """Return wall and CPU seconds of `patchword predict` in a process of its own."""
    words = [sys.executable, "-W", "ignore", "-m", "patchword", "predict", str(run), str(image), "--device", "cpu"]
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run(words, check=True, capture_output=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    wall, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure_predict(folder: Path, pairs: int) -> dict[str, float]:
    sealed, plain = exercise(folder)
    image = folder / "image.png"
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (28, 28), np.uint8)).save(image)
    runs = {"sealed": sealed, "plain": plain}
    times: dict[str, list[tuple[float, float]]] = {"sealed": [], "plain": []}
    for turn in range(pairs + 1):
        for name in ("sealed", "plain") if turn % 2 else ("plain", "sealed"):
            found = predicted(runs[name], image)
            if turn:  # the first pair fills the page cache
                times[name].append(found)
    found = {
        f"{name}_{what}": statistics.median(one[place] for one in times[name])
        for name in times
        for place, what in enumerate(("wall_seconds", "cpu_seconds"))
    }
    began = time.process_time()
    for _ in range(50):
        check(sealed)
    added = 2 * (time.process_time() - began) / 50  # a pipeline looks at the small files before, too
    return {
        **found,
        "wall_ratio": found["sealed_wall_seconds"] / found["plain_wall_seconds"],
        "cpu_ratio": found["sealed_cpu_seconds"] / found["plain_cpu_seconds"],
        "check_seconds": added,
        "check_share_of_cpu": added / found["plain_cpu_seconds"],
    }


def measure_bert(folder: Path) -> dict[str, float]:
    """Time loading bert-base with and without its seal, five times in turn, from the page cache."""
    run = folder / "bert"
    patchword.save(patchword.create("bert-base"), run)
    (run / "recipe.yaml").write_text("kind: text\n")
    reseal(run)
    size = (run / "model.safetensors").stat().st_size
    times: dict[str, list[float]] = {"sealed": [], "plain": []}
    for _ in range(5):
        for name in times:
            hidden = folder / "seal.json"
            if name == "plain":
                (run / "seal.json").rename(hidden)
            began = time.monotonic()
            patchword.load(run)
            times[name].append(time.monotonic() - began)
            if name == "plain":
                hidden.rename(run / "seal.json")
    digests = []
    for _ in range(5):
        began = time.monotonic()
        check(run)
        digests.append(time.monotonic() - began)
    return {
        "bytes": size,
        **{f"{name}_load_seconds": statistics.median(found) for name, found in times.items()},
        "check_seconds": statistics.median(digests),
        "check_megabytes_per_second": size / statistics.median(digests) / 1e6,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", UnsealedWarning)
    with tempfile.TemporaryDirectory() as scratch:
        found = {"predict": measure_predict(Path(scratch), given.pairs), "bert-base": measure_bert(Path(scratch))}
    found = {title: {name: round(value, 4) for name, value in values.items()} for title, values in found.items()}
    print(json.dumps(found, indent=2))
    if given.out:
        command = shlex.join(["python", "benchmarks/seal_cost.py", "--pairs", str(given.pairs)])
        described = {"command": command, "machine": machine(torch.device("cpu")), "results": found}
        write_json(given.out, described)


if __name__ == "__main__":
    main()
