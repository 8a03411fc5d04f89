"""Time Mask R-CNN against torchvision's: training steps and inference, in one process and interleaved rounds.

Images of 800 x 1333 pixels with 5 to 20 objects and masks each, in bfloat16. ResNet-50 against torchvision's own model,
Swin-T against torchvision's MaskRCNN with our backbone under it. Both paste masks into the images. Each candidate is
tried alone first; one that fails or takes too long to compile is reported and left out. Results are printed and saved
after each work.

python benchmarks/detection_speed.py --save benchmarks/results/detection_speed.json
python benchmarks/detection_speed.py resnet-50 --work train --minutes 9
python benchmarks/detection_speed.py swin-tiny --work train --profile
python benchmarks/detection_speed.py --quick --device cpu            tiny sizes: checks that it runs
"""

import argparse
import gc
import logging
import signal
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from types import FrameType

import torch
from detection_candidates import OURS, THEIRS, Inputs, Sizes, Step, Work, ours, torchvision
from torch.profiler import ProfilerActivity, profile

from patchword.benchmarking.benchmark import Candidate, benchmark, wait
from patchword.benchmarking.hardware_limits import HardwareLimits, measure_limits
from patchword.benchmarking.result import Result, write_results
from patchword.cli.models.bench import print_result
from patchword.core.device import pick_device

WORKS = {"train": (8, True), "infer": (8, False), "infer-1": (1, False)}
PEER = "torchvision"
FULL = {"resnet-50": Sizes("resnet-50"), "swin-tiny": Sizes("swin-tiny")}
TINY = (("width", 8), ("hidden", 16))
QUICK = {
    "resnet-50": Sizes("resnet-18", 60, 90, 3, 20, 5, 8, (("width", 8),), TINY),
    "swin-tiny": Sizes("swin-tiny", 60, 90, 3, 20, 5, 8, (("width", 12), ("depths", [1, 1, 1, 1])), TINY),
}


class Shortened(logging.Filter):
    """Cuts messages of the compiler to a few lines: some contain whole graphs."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = record.getMessage()[:400], ()
        return True


class Clock:
    """Seconds left of the whole run; an unattended run must end before its machine does."""

    def __init__(self, minutes: float) -> None:
        self.end = time.monotonic() + 60 * minutes

    def left(self) -> float:
        return self.end - time.monotonic()


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Raise TimeoutError in the block after some seconds."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise TimeoutError(f"took more than {seconds:.0f} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, max(seconds, 1.0))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def log(message: str) -> None:
    print(message, flush=True)


def tried(name: str, make: Callable[[], Step], device: torch.device, seconds: float) -> Step | None:
    """Return a step that has run three times, or None with the reason printed."""
    began = time.monotonic()
    try:
        with at_most(seconds):
            step = make()
            for _ in range(3):
                step()
            wait(device)
        log(f"ready after {time.monotonic() - began:.0f} s: {name} ({step.describe()})")
        return step
    except Exception as error:
        late = "TimeoutError" in str(error) or isinstance(error, TimeoutError)  # the compiler wraps it
        reason = f"took more than {seconds:.0f} s" if late else traceback.format_exc(limit=-2).strip()
        log(f"left out after {time.monotonic() - began:.0f} s: {name}: {reason[-1500:]}")
        return None


def candidates(work: Work, clock: Clock, options: argparse.Namespace) -> dict[str, Step]:
    """The candidates that run, most important first."""
    inputs = Inputs(work)
    makers = {f"patchword, {how}": (ours, how) for how in OURS}
    if find_spec("torchvision"):
        makers |= {f"{PEER}, {how}": (torchvision, how) for how in THEIRS}
    else:
        log("torchvision is not installed: nothing to compare with")
    found: dict[str, Step] = {}
    for name, (make, how) in makers.items():
        if options.among and name not in options.among:
            continue
        if name == f"{PEER}, compiled" and name not in options.among:
            continue  # it breaks into many graphs and compiles each again for other shapes: only if asked
        if work.device.type != "cuda" and ("graphs" in how or ("compiled" in how and name not in options.among)):
            continue  # on a CPU, compiling takes minutes and measures another path
        if clock.left() < 2 * options.seconds:
            log(f"left out, no time: {name}")
            continue
        most = min(options.compile_seconds, clock.left() - options.seconds)
        step = tried(name, partial(make, work, inputs, how), work.device, most)
        if step is not None:
            found[name] = step
    return found


def timed_rounds(
    title: str,
    device: torch.device,
    steps: dict[str, Step],
    limits: HardwareLimits,
    seconds: float,
    setting: dict[str, object],
) -> Result | None:
    """Time all candidates in interleaved rounds; without the one that fails, if one does."""
    graphs = {name for name in steps if "graphs" in name}
    while steps:
        chosen = [Candidate(name, step, cuda_graphs=name in graphs) for name, step in steps.items()]
        running: list[str] = []
        try:
            timings = benchmark(chosen, device, seconds, running.append)
        except Exception as error:
            log(f"failed while it was timed ({running[-1]}): {type(error).__name__}: {str(error)[:500]}")
            steps.pop(next((name for name in steps if running[-1].endswith(name)), next(iter(steps))))
            continue
        mine = [one for one in timings if one.name.startswith("patchword")]
        best = max(mine or timings, key=lambda one: one.rate).name
        precision = "bfloat16" if device.type == "cuda" else "float32"
        return Result(title, "images", timings, best, device, limits, {}, {**setting, "precision": precision})
    return None


def conclusion(result: Result) -> str:
    """Our best against torchvision's best."""
    best = {who: [one.rate for one in result.timings if one.name.startswith(who)] for who in ("patchword", PEER)}
    if not all(best.values()):
        return f"{result.title}: not compared"
    mine, theirs = max(best["patchword"]), max(best[PEER])
    return f"{result.title}: {mine:.1f} against {theirs:.1f} images/s, {mine / theirs:.2f}x torchvision's best"


def print_profile(name: str, step: Step, device: torch.device, most: int) -> None:
    """Print the operations of three steps by the time they take, and how much of a step the device works."""
    on_gpu = device.type == "cuda"
    with profile(activities=[ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if on_gpu else [])]) as seen:
        wait(device)
        began = time.perf_counter()
        for _ in range(3):
            step()
        wait(device)
        whole = (time.perf_counter() - began) / 3e-3
    log(f"profile of {name}: {whole:.1f} ms per step (with the profiler)")
    events: dict[str, list[float]] = {}
    for event in seen.events():
        if (event.device_type.name == "CUDA") == on_gpu:
            spent = event.self_device_time_total if on_gpu else event.self_cpu_time_total
            times = events.setdefault(event.name, [0.0, 0])
            times[0] += spent / 3e3
            times[1] += 1 / 3
    log(f"{sum(one[0] for one in events.values()):.1f} ms per step in {'kernels' if on_gpu else 'operations'}")
    for title, (spent, calls) in sorted(events.items(), key=lambda item: -item[1][0])[:most]:
        log(f"{spent:9.3f} ms {calls:7.0f} x {title[:110]}")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that benchmarks of detectors and segmenters share."""
    parser.add_argument("--among", action="append", default=[], metavar="NAME", help="time only this candidate")
    parser.add_argument("--seconds", type=float, default=8.0, help="measuring time per candidate")
    parser.add_argument("--compile-seconds", type=float, default=240.0, help="most time to prepare a candidate")
    parser.add_argument("--minutes", type=float, default=60.0, help="of the whole run; what is left then is skipped")
    parser.add_argument("--profile", action="store_true", help="print the top operations of each candidate's step")
    parser.add_argument("--most", type=int, default=25, help="number of operations to print")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to check that it runs")
    parser.add_argument("--save", type=Path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("backbones", nargs="*", default=list(FULL), help="resnet-50, swin-tiny")
    parser.add_argument("--work", action="append", choices=list(WORKS), default=[], help="default: all")
    add_options(parser)
    options = parser.parse_args()
    if options.quick:
        options.seconds = 0.05
    device, clock = pick_device(options.device), Clock(options.minutes)
    torch.set_float32_matmul_precision("high")
    if device.type == "cuda":
        torch.backends.cudnn.benchmark = True  # all shapes are fixed
    for handler in logging.getLogger("torch").handlers:
        handler.addFilter(Shortened())
    limits = measure_limits(device, "bfloat16" if device.type == "cuda" else "float32", min(0.5, options.seconds))
    results: list[Result] = []
    for backbone in options.backbones:
        for name in options.work or WORKS:
            batch, train = WORKS[name]
            sizes = QUICK[backbone] if options.quick else FULL[backbone]
            work = Work(sizes, min(batch, 2) if options.quick else batch, train, device)
            log(f"== {work.title}, {clock.left() / 60:.1f} minutes left")
            steps = candidates(work, clock, options)
            setting = {"backbone": sizes.backbone, "height": sizes.height, "width": sizes.width}
            setting |= {"batch": work.batch, "train": work.train}
            result = timed_rounds(work.title, device, dict(steps), limits, options.seconds, setting)
            if result is not None:
                results.append(result)
                print_result(result)
                log(conclusion(result))
                if options.save:
                    options.save.parent.mkdir(parents=True, exist_ok=True)
                    write_results(options.save, results)
            if options.profile:
                for title, step in steps.items():
                    try:
                        print_profile(title, step, device, options.most)
                    except Exception as error:
                        log(f"no profile of {title}: {error}")
            steps.clear()
            torch.compiler.reset()
            gc.collect()
            if device.type == "cuda":
                torch.cuda.empty_cache()
    log("== summary")
    for result in results:
        log(conclusion(result))


if __name__ == "__main__":
    main()
