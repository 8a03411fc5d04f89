"""All races on a GPU, one behind the other, in the time of their longest part: compilers first, in many processes.

python benchmarks/everything.py --timm FOLDER --authors cswin.py:CSWin_64_12211_tiny_224 --save results
python benchmarks/everything.py --only bert-training-128 --only vision-swin-tiny-infer --save results
python benchmarks/everything.py --list

A compiled contender takes a minute or two to compile, which torch keeps on disk. So each is run for an instant in a
process of its own, as many at a time as the GPU's memory and the processors allow; then the races are run alone.
"""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import IO, NamedTuple

HERE = Path(__file__).parent
MASKED = {  # gigabytes of each contender
    "patchword": 24,
    "patchword, dropout 0.1": 30,
    "transformers": 52,
    "transformers, no dropout": 46,
    "a plain script": 24,
}
TIMM = ("swin-tiny", "swin-base", "deit-small", "vit-base-16")
PER_MAC = ("deit-small", "cswin-tiny", "pale-tiny")
WORKS = {"infer": 8, "train": 20}  # gigabytes


class Warming(NamedTuple):
    """what is run for an instant before a benchmark"""

    name: str
    command: list[str]
    gigabytes: int


class Race(NamedTuple):
    name: str
    command: list[str]
    before: list[Warming]

    @classmethod
    def among(cls, name: str, command: list[str], contenders: dict[str, int]) -> "Race":
        """contenders: with the gigabytes of each"""
        before = [Warming(f"{name} {who}", [*command, "--among", who], memory) for who, memory in contenders.items()]
        return cls(name, command, before)


class Job(NamedTuple):
    process: subprocess.Popen[bytes]
    log: IO[bytes]
    asked: Warming
    began: float


def races(timm: Path | None, authors: str) -> list[Race]:
    found = []
    for title in ("128", "512", "natural"):
        contenders = {who: size for who, size in MASKED.items() if title != "natural" or who != "a plain script"}
        found.append(Race.among(f"bert-training-{title}", ["bert_training.py", "--only", title], contenders))
    reading = ["bert_inference.py"]
    found.append(Race("bert-inference", reading, [Warming("bert-inference", reading, 12)]))
    for model, work in [(model, work) for model in TIMM for work in WORKS if timm]:
        command = ["vision_speed.py", model, f"--{work}", "--timm", str(timm)]
        found.append(Race.among(f"vision-{model}-{work}", command, dict.fromkeys(("patchword", "timm"), WORKS[work])))
    for work in WORKS if authors else ():
        command = ["vision_speed.py", "cswin-tiny", f"--{work}", "--authors", authors]
        contenders = dict.fromkeys(("patchword", "authors"), WORKS[work])
        found.append(Race.among(f"vision-cswin-tiny-{work}", command, contenders))
    alone = ["--infer", "--alone"]
    before = [Warming(f"per-mac {model}", ["vision_speed.py", model, *alone], WORKS["infer"]) for model in PER_MAC]
    return [*found, Race("vision-per-mac", ["vision_speed.py", *PER_MAC, *alone], before)]


def started(command: list[str], seconds: float, *more: str) -> list[str]:
    return [sys.executable, str(HERE / command[0]), *command[1:], "--seconds", str(seconds), *more]


def warmed(waiting: list[Warming], limit: float, memory: float, at_once: int, logs: Path) -> None:
    """Those that need longer than the limit are stopped."""
    waiting, running = sorted(waiting, key=lambda asked: -asked.gigabytes), list[Job]()
    while waiting or running:
        for job in [job for job in running if job.process.poll() is not None or time.time() - job.began > limit]:
            if job.process.poll() is None:
                job.process.kill()
            print(f"{job.asked.name}: {job.process.wait()} after {time.time() - job.began:.0f} s", flush=True)
            job.log.close()
            running.remove(job)
        free = memory - sum(job.asked.gigabytes for job in running)
        fitting = next((asked for asked in waiting if asked.gigabytes <= free or not running), None)  # one at least
        if fitting is None or len(running) >= at_once:
            time.sleep(0.2)
            continue
        waiting.remove(fitting)
        log = (logs / f"warm-{fitting.name}.log".replace(", ", "-").replace(" ", "-")).open("wb")
        process = subprocess.Popen(started(fitting.command, 0.1), stdout=log, stderr=subprocess.STDOUT)
        running.append(Job(process, log, fitting, time.time()))


def run(benchmark: Race, seconds: float, limit: float, folder: Path) -> None:
    began, log = time.time(), folder / f"{benchmark.name}.log"
    command = started(benchmark.command, seconds, "--save", str(folder / f"{benchmark.name}.json"))
    with log.open("wb") as told:
        try:
            code = subprocess.run(command, stdout=told, stderr=subprocess.STDOUT, timeout=limit).returncode
        except subprocess.TimeoutExpired:
            code = -1
    print(f"== {benchmark.name}: {code} after {time.time() - began:.0f} s", flush=True)
    print(*log.read_text(errors="replace").splitlines()[-16:], sep="\n", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--timm", type=Path, metavar="FOLDER")
    parser.add_argument("--authors", default="", metavar="FILE:NAME")
    parser.add_argument("--only", action="append", default=[], metavar="RACE", help="this one; all, if none is named")
    parser.add_argument("--seconds", type=float, default=3.0, help="for each contender")
    parser.add_argument("--memory", type=float, default=130.0, help="gigabytes of the GPU")
    parser.add_argument(
        "--at-once", type=int, default=max(1, 2 * (os.cpu_count() or 1) // 3), help="processes that compile"
    )
    parser.add_argument("--limit", type=float, default=240.0, help="seconds for a process")
    parser.add_argument("--step", choices=["all", "warm", "benchmark"], default="all")
    parser.add_argument("--save", type=Path, default=Path("results"), metavar="FOLDER")
    parser.add_argument("--list", action="store_true", help="the races, and no more")
    asked = parser.parse_args()
    chosen = [
        benchmark for benchmark in races(asked.timm, asked.authors) if not asked.only or benchmark.name in asked.only
    ]
    if asked.list:
        print(*(benchmark.name for benchmark in chosen), sep="\n")
        return
    asked.save.mkdir(parents=True, exist_ok=True)
    if asked.step != "benchmark":
        before = [each for benchmark in chosen for each in benchmark.before]
        warmed(before, asked.limit, asked.memory, asked.at_once, asked.save)
    for benchmark in chosen if asked.step != "warm" else ():
        run(benchmark, asked.seconds, asked.limit, asked.save)


if __name__ == "__main__":
    main()
