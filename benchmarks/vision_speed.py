"""Time inference and training of image models against timm, the authors' code and transformers.

python benchmarks/vision_speed.py --timm FOLDER --save benchmarks/results/vision_speed.json
python benchmarks/vision_speed.py cswin-tiny --authors cswin.py:CSWin_64_12211_tiny_224
python benchmarks/vision_speed.py vit-base-16 swin-tiny --device cpu --threads 2 --infer --batch 4 --timm FOLDER
python benchmarks/vision_speed.py deit-small cswin-tiny pale-tiny --infer --alone      time per MAC
python benchmarks/vision_speed.py --quick

FOLDER contains timm's package folder; timm need not be installed. The authors' code is compiled for inference and eager
in training.
"""

import argparse
from pathlib import Path
from typing import Any

import torch

from patchword.benchmarking.images import Setting, bench_images, peers_of
from patchword.benchmarking.result import Result, write_results
from patchword.cli.models.bench import print_result
from patchword.core.device import pick_device, pick_precision

BASELINE = "deit-small"  # times per MAC are relative to this model's
MODELS = ("deit-small", "vit-base-16", "swin-tiny", "swin-base")
TINY = {"image": 32, "depth": 2, "width": 24, "heads": 2, "hidden": 48, "classes": 7}


def relative_to_baseline(results: list[Result]) -> list[str]:
    """The time per MAC of our models, as a multiple of DeiT-S's in the same run."""
    rates = {one.title: timing.products for one in results for timing in one.timings if timing.name == one.ours}
    pairs = [(name, rates.get(f"{BASELINE}, {name.rpartition(', ')[2]}")) for name in rates]
    return [f"{name}: {first / rates[name]:.2f} of {BASELINE} per MAC" for name, first in pairs if first]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=MODELS)
    parser.add_argument("--timm", type=Path, metavar="FOLDER", help="the folder that contains timm's package folder")
    parser.add_argument("--authors", default="", metavar="FILE:NAME", help="file and function of the authors' model")
    parser.add_argument("--transformers", action="store_true", help="also compare with transformers")
    parser.add_argument("--alone", action="store_true", help="without a peer")
    works = parser.add_mutually_exclusive_group()
    works.add_argument("--infer", action="store_true", help="inference only")
    works.add_argument("--train", action="store_true", help="training only")
    parser.add_argument("--batch", type=int, help="default: 256 for inference, 128 for training, 4 on a CPU")
    parser.add_argument("--seconds", type=float, default=4.0, help="measuring time per candidate")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--among", action="append", default=[], metavar="NAME", help="time only this candidate")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to check that it runs")
    parser.add_argument("--compile", action=argparse.BooleanOptionalAction, help="the default on a GPU")
    parser.add_argument("--save", type=Path)
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    device = pick_device(asked.device)
    compiled = device.type == "cuda" if asked.compile is None else asked.compile
    models, fields = (("vit-tiny-16",), TINY) if asked.quick else (asked.models, {})
    known = asked.transformers or not (asked.timm or asked.authors or asked.alone)
    results = list[Result]()

    def peers(ours: Any) -> Any:
        return peers_of(ours, asked.timm, asked.authors, transformers=known)

    for name in models:
        for train in (False,) if asked.infer else (True,) if asked.train else (False, True):
            batch = asked.batch or (4 if device.type == "cpu" else 128 if train else 256)
            eager = frozenset({"authors"} if train else ())
            seconds = 0.05 if asked.quick else asked.seconds
            setting = Setting(
                device, pick_precision("auto", device), seconds, compiled, batch, train, eager, frozenset(asked.among)
            )
            results.append(bench_images(name, setting, peers, **fields))
            print_result(results[-1])
            torch.compiler.reset()
            if asked.save:
                write_results(asked.save, results)
    print(*relative_to_baseline(results), sep="\n")


if __name__ == "__main__":
    main()
