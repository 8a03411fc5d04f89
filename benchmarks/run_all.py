"""Run all GPU benchmarks of models, one after the other; compile their candidates in parallel first.

python benchmarks/run_all.py --timm FOLDER --authors cswin.py:CSWin_64_12211_tiny_224 --save results
python benchmarks/run_all.py --only bert-training-128 --only vision-swin-tiny-infer --save results
python benchmarks/run_all.py --list

A candidate takes a minute or two to compile, and torch caches the result on disk. So each candidate first runs briefly
in its own process, as many processes at a time as GPU memory and CPU cores allow. Then each benchmark runs alone.
"""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import IO, NamedTuple

HERE = Path(__file__).parent
MASKED = {  # gigabytes per candidate
    "patchword": 24,
    "patchword, dropout 0.1": 30,
    "transformers": 52,
    "transformers, no dropout": 46,
    "a plain script": 24,
}
TIMM = ("swin-tiny", "swin-base", "deit-small", "vit-base-16")
PER_MAC = ("deit-small", "cswin-tiny", "pale-tiny")
WORKS = {"infer": 8, "train": 20}  # gigabytes


class WarmUp(NamedTuple):
    """A short run before a benchmark, which fills the compiler's cache."""

    name: str
    command: list[str]
    gigabytes: int


class Benchmark(NamedTuple):
    name: str
    command: list[str]
    warm_ups: list[WarmUp]

    @classmethod
    def of_candidates(cls, name: str, command: list[str], candidates: dict[str, int]) -> "Benchmark":
        """candidates: the gigabytes that each one needs."""
        warm_ups = [WarmUp(f"{name} {one}", [*command, "--among", one], memory) for one, memory in candidates.items()]
        return cls(name, command, warm_ups)


class Job(NamedTuple):
    process: subprocess.Popen[bytes]
    log: IO[bytes]
    warm_up: WarmUp
    began: float


def benchmarks(timm: Path | None, authors: str) -> list[Benchmark]:
    found = []
    for title in ("128", "512", "natural"):
        candidates = {one: size for one, size in MASKED.items() if title != "natural" or one != "a plain script"}
        command = ["bert_training.py", "--only", title]
        found.append(Benchmark.of_candidates(f"bert-training-{title}", command, candidates))
    command = ["bert_inference.py"]
    found.append(Benchmark("bert-inference", command, [WarmUp("bert-inference", command, 12)]))
    for model, work in [(model, work) for model in TIMM for work in WORKS if timm]:
        command = ["vision_speed.py", model, f"--{work}", "--timm", str(timm)]
        candidates = dict.fromkeys(("patchword", "timm"), WORKS[work])
        found.append(Benchmark.of_candidates(f"vision-{model}-{work}", command, candidates))
    for work in WORKS if authors else ():
        command = ["vision_speed.py", "cswin-tiny", f"--{work}", "--authors", authors]
        candidates = dict.fromkeys(("patchword", "authors"), WORKS[work])
        found.append(Benchmark.of_candidates(f"vision-cswin-tiny-{work}", command, candidates))
    alone = ["--infer", "--alone"]
    warm_ups = [WarmUp(f"per-mac {model}", ["vision_speed.py", model, *alone], WORKS["infer"]) for model in PER_MAC]
    return [*found, Benchmark("vision-per-mac", ["vision_speed.py", *PER_MAC, *alone], warm_ups)]


def command_line(command: list[str], seconds: float, *more: str) -> list[str]:
    return [sys.executable, str(HERE / command[0]), *command[1:], "--seconds", str(seconds), *more]


def warm_up_all(waiting: list[WarmUp], limit: float, memory: float, at_once: int, logs: Path) -> None:
    """Run all warm-ups, several at a time; stop those that take longer than `limit` seconds."""
    waiting, running = sorted(waiting, key=lambda one: -one.gigabytes), list[Job]()
    while waiting or running:
        for job in [job for job in running if job.process.poll() is not None or time.time() - job.began > limit]:
            if job.process.poll() is None:
                job.process.kill()
            print(f"{job.warm_up.name}: {job.process.wait()} after {time.time() - job.began:.0f} s", flush=True)
            job.log.close()
            running.remove(job)
        free = memory - sum(job.warm_up.gigabytes for job in running)
        fitting = next((one for one in waiting if one.gigabytes <= free or not running), None)  # at least one
        if fitting is None or len(running) >= at_once:
            time.sleep(0.2)
            continue
        waiting.remove(fitting)
        log = (logs / f"warm-{fitting.name}.log".replace(", ", "-").replace(" ", "-")).open("wb")
        process = subprocess.Popen(command_line(fitting.command, 0.1), stdout=log, stderr=subprocess.STDOUT)
        running.append(Job(process, log, fitting, time.time()))


def run(benchmark: Benchmark, seconds: float, limit: float, folder: Path) -> None:
    began, log = time.time(), folder / f"{benchmark.name}.log"
    command = command_line(benchmark.command, seconds, "--save", str(folder / f"{benchmark.name}.json"))
    with log.open("wb") as file:
        try:
            code = subprocess.run(command, stdout=file, stderr=subprocess.STDOUT, timeout=limit).returncode
        except subprocess.TimeoutExpired:
            code = -1
    print(f"== {benchmark.name}: {code} after {time.time() - began:.0f} s", flush=True)
    print(*log.read_text(errors="replace").splitlines()[-16:], sep="\n", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--timm", type=Path, metavar="FOLDER", help="the folder that contains timm's package folder")
    parser.add_argument("--authors", default="", metavar="FILE:NAME", help="the authors' CSWin: file and function")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="run this one; repeatable")
    parser.add_argument("--seconds", type=float, default=3.0, help="measuring time per candidate")
    parser.add_argument("--memory", type=float, default=130.0, help="GPU memory in gigabytes")
    parser.add_argument(
        "--at-once", type=int, default=max(1, 2 * (os.cpu_count() or 1) // 3), help="processes that compile in parallel"
    )
    parser.add_argument("--limit", type=float, default=240.0, help="time limit per process, in seconds")
    parser.add_argument("--step", choices=["all", "warm", "benchmark"], default="all", help="compile, measure, or both")
    parser.add_argument("--save", type=Path, default=Path("results"), metavar="FOLDER")
    parser.add_argument("--list", action="store_true", help="only list the names of the benchmarks")
    options = parser.parse_args()
    found = benchmarks(options.timm, options.authors)
    chosen = [benchmark for benchmark in found if not options.only or benchmark.name in options.only]
    if options.list:
        print(*(benchmark.name for benchmark in chosen), sep="\n")
        return
    options.save.mkdir(parents=True, exist_ok=True)
    if options.step != "benchmark":
        warm_ups = [one for benchmark in chosen for one in benchmark.warm_ups]
        warm_up_all(warm_ups, options.limit, options.memory, options.at_once, options.save)
    for benchmark in chosen if options.step != "warm" else ():
        run(benchmark, options.seconds, options.limit, options.save)


if __name__ == "__main__":
    main()
