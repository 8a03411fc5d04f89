"""Time DETR (ResNet-50, 800 x 1333) and UperNet (Swin-T, 512 x 512) against transformers', in one process.

Training steps and inference in bfloat16, in interleaved rounds. Each candidate is tried alone first; one that fails or
takes too long to compile is reported and left out. transformers runs eager, channels last, with bfloat16 weights,
compiled, and compiled with CUDA graphs; the ratio is to its fastest.

python benchmarks/dense_speed.py --save benchmarks/results/dense_speed.json
python benchmarks/dense_speed.py detr --work infer --profile
python benchmarks/dense_speed.py --quick --device cpu            tiny sizes: checks that it runs
"""

import argparse
import gc
from functools import partial

import torch
from dense_candidates import OURS, THEIRS, Inputs, Sizes, Step, Work, ours, theirs
from detection_speed import Clock, add_options, log, print_profile, timed_rounds, tried

from patchword.benchmarking.hardware_limits import measure_limits
from patchword.benchmarking.result import Result, write_results
from patchword.cli.models.bench import print_result
from patchword.core.device import pick_device

PEER = "transformers"
WORKS = {"train": True, "infer": False}
SYSTEMS = {
    "detr": ("detr resnet-50", Sizes(800, 1333, 91), 8),
    "upernet": ("upernet swin-tiny", Sizes(512, 512, 150), 16),
}
QUICK = {
    "detr": ("detr resnet-18", Sizes(64, 96, 3, small=True), 2),
    "upernet": ("upernet swin-tiny", Sizes(64, 96, 3, small=True), 2),
}


def candidates(work: Work, clock: Clock, options: argparse.Namespace) -> dict[str, Step]:
    """The candidates that run."""
    inputs = Inputs(work)
    makers = {f"patchword, {how}": (ours, how) for how in OURS} | {f"{PEER}, {how}": (theirs, how) for how in THEIRS}
    found: dict[str, Step] = {}
    for name, (make, how) in makers.items():
        if options.among and name not in options.among:
            continue
        if work.device.type != "cuda" and "compiled" in how:
            continue  # on a CPU, compiling takes minutes and measures another path
        most = min(options.compile_seconds, clock.left() - options.seconds)
        if most < options.seconds:
            log(f"left out, no time: {name}")
            continue
        step = tried(name, partial(make, work, inputs, how), work.device, most)
        if step is not None:
            found[name] = step
    return found


def conclusion(result: Result) -> str:
    """Our best against the peer's best."""
    best = {who: [one.rate for one in result.timings if one.name.startswith(who)] for who in ("patchword", PEER)}
    if not all(best.values()):
        return f"{result.title}: not compared"
    mine, peer = max(best["patchword"]), max(best[PEER])
    return f"{result.title}: {mine:.1f} against {peer:.1f} images/s, {mine / peer:.2f}x transformers' best"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("systems", nargs="*", default=list(SYSTEMS), help="detr, upernet")
    parser.add_argument("--work", action="append", choices=list(WORKS), default=[], help="default: both")
    add_options(parser)
    options = parser.parse_args()
    if options.quick:
        options.seconds = 0.05
    device, clock = pick_device(options.device), Clock(options.minutes)
    torch.set_float32_matmul_precision("high")
    if device.type == "cuda":
        torch.backends.cudnn.benchmark = True  # all shapes are fixed
    limits = measure_limits(device, "bfloat16" if device.type == "cuda" else "float32", min(0.5, options.seconds))
    results: list[Result] = []
    for system in options.systems:
        title, sizes, batch = (QUICK if options.quick else SYSTEMS)[system]
        for name in options.work or WORKS:
            work = Work(title, sizes, batch, WORKS[name], device)
            log(f"== {work.title}, {clock.left() / 60:.1f} minutes left")
            steps = candidates(work, clock, options)
            setting = {"height": sizes.height, "width": sizes.width, "batch": batch, "train": work.train}
            result = timed_rounds(work.title, device, dict(steps), limits, options.seconds, setting)
            if result is not None:
                results.append(result)
                print_result(result)
                log(conclusion(result))
                if options.save:
                    options.save.parent.mkdir(parents=True, exist_ok=True)
                    write_results(options.save, results)
            if options.profile:
                for each, step in steps.items():
                    print_profile(each, step, device, options.most)
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
