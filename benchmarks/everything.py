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
MASKED = ("patchword", "patchword, dropout 0.1", "transformers", "transformers, no dropout", "a plain script")
MEMORY = {"patchword": 24, "patchword, dropout 0.1": 30, "transformers": 52, "transformers, no dropout": 46}  # GB
TIMM = ("swin-tiny", "swin-base", "deit-small", "vit-base-16")


class Race(NamedTuple):
    """among: who must be compiled before. gigabytes: of the largest of them"""

    name: str
    command: list[str]
    among: tuple[str, ...] = ()
    gigabytes: int = 24


class Job(NamedTuple):
    process: subprocess.Popen[bytes]
    log: IO[bytes]
    name: str
    gigabytes: int
    began: float


def races(timm: Path | None, authors: str) -> list[Race]:
    found = []
    for title in ("128", "512", "natural"):
        among = MASKED if title != "natural" else MASKED[:3]
        found.append(Race(f"bert-training-{title}", ["bert_training.py", "--only", title], among, 52))
    found.append(Race("bert-inference", ["bert_inference.py"], (), 12))
    works = [("infer", 12), ("train", 40)]
    for model, (work, memory) in [(model, work) for model in TIMM for work in works if timm]:
        command = ["vision_speed.py", model, f"--{work}", "--timm", str(timm)]
        found.append(Race(f"vision-{model}-{work}", command, ("patchword", "timm"), memory))
    for work, memory in works if authors else ():
        command = ["vision_speed.py", "cswin-tiny", f"--{work}", "--authors", authors]
        found.append(Race(f"vision-cswin-tiny-{work}", command, ("patchword", "authors"), memory))
    per_mac = ["vision_speed.py", "deit-small", "cswin-tiny", "pale-tiny", "--infer", "--alone"]
    return [*found, Race("vision-per-mac", per_mac, (), 12)]


def _memory(race: Race, who: str) -> int:
    return min(race.gigabytes, MEMORY.get(who, 24)) if race.name.startswith("bert") else race.gigabytes


def warmed(jobs: list[tuple[str, list[str], int]], limit: float, memory: float, at_once: int, logs: Path) -> None:
    """jobs: the name, the command and the gigabytes of each; those that need longer than the limit are stopped"""
    waiting, running = sorted(jobs, key=lambda job: -job[2]), list[Job]()
    while waiting or running:
        for job in [job for job in running if job.process.poll() is not None or time.time() - job.began > limit]:
            if job.process.poll() is None:
                job.process.kill()
            print(f"{job.name}: {job.process.wait()} after {time.time() - job.began:.0f} s", flush=True)
            job.log.close()
            running.remove(job)
        free = memory - sum(job.gigabytes for job in running)
        fitting = next((job for job in waiting if job[2] <= free), None)
        if fitting is None or len(running) >= at_once:
            time.sleep(0.2)
            continue
        waiting.remove(fitting)
        name, command, gigabytes = fitting
        log = (logs / f"warm-{name}.log".replace(", ", "-").replace(" ", "-")).open("wb")
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        running.append(Job(process, log, name, gigabytes, time.time()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--timm", type=Path, metavar="FOLDER")
    parser.add_argument("--authors", default="", metavar="FILE:NAME")
    parser.add_argument("--only", action="append", default=[], metavar="RACE", help="this one; all, if none is named")
    parser.add_argument("--seconds", type=float, default=3.0, help="for each contender")
    parser.add_argument("--memory", type=float, default=130.0, help="gigabytes of the GPU")
    parser.add_argument(
        "--at-once", type=int, default=max(1, (os.cpu_count() or 1) // 2), help="processes that compile"
    )
    parser.add_argument("--limit", type=float, default=240.0, help="seconds for a process")
    parser.add_argument("--step", choices=["all", "warm", "race"], default="all")
    parser.add_argument("--save", type=Path, default=Path("results"), metavar="FOLDER")
    parser.add_argument("--list", action="store_true", help="the races, and no more")
    asked = parser.parse_args()
    chosen = [race for race in races(asked.timm, asked.authors) if not asked.only or race.name in asked.only]
    if asked.list:
        print(*(race.name for race in chosen), sep="\n")
        return
    asked.save.mkdir(parents=True, exist_ok=True)
    start = {race.name: [sys.executable, str(HERE / race.command[0]), *race.command[1:]] for race in chosen}
    if asked.step != "race":
        instant = ["--seconds", "0.1"]
        jobs = [
            (
                f"{race.name} {who}",
                [*start[race.name], *instant, "--among", who],
                min(race.gigabytes, MEMORY.get(who, 24)),
            )
            for race in chosen
            for who in race.among
        ]
        jobs += [(race.name, [*start[race.name], *instant], race.gigabytes) for race in chosen if not race.among]
        warmed(jobs, asked.limit, asked.memory, asked.at_once, asked.save)
    for race in chosen if asked.step != "warm" else ():
        began, saved = time.time(), asked.save / f"{race.name}.json"
        command = [*start[race.name], "--seconds", str(asked.seconds), "--save", str(saved)]
        with (asked.save / f"{race.name}.log").open("wb") as log:
            try:
                code = subprocess.run(command, stdout=log, stderr=subprocess.STDOUT, timeout=asked.limit).returncode
            except subprocess.TimeoutExpired:
                code = -1
        print(f"== {race.name}: {code} after {time.time() - began:.0f} s", flush=True)
        print(*(asked.save / f"{race.name}.log").read_text(errors="replace").splitlines()[-16:], sep="\n", flush=True)


if __name__ == "__main__":
    main()
