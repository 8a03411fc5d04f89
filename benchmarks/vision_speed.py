"""Models of images against timm, the authors' code and transformers: inference and training, in one run.

python benchmarks/vision_speed.py --timm FOLDER --save benchmarks/results/vision_speed.json
python benchmarks/vision_speed.py cswin-tiny --authors cswin.py:CSWin_64_12211_tiny_224
python benchmarks/vision_speed.py vit-base-16 swin-tiny --device cpu --threads 2 --infer --batch 4 --timm FOLDER
python benchmarks/vision_speed.py deit-small cswin-tiny pale-tiny --infer --alone      how long a multiplication takes
python benchmarks/vision_speed.py --quick

FOLDER holds timm's own folder; nothing needs to be installed. The authors' code is compiled for inference, eager in
training.
"""

import argparse
from pathlib import Path
from typing import Any

import torch

from patchword.bench.images import Setting, bench_images, peers_of
from patchword.bench.result import Result, write_results
from patchword.cli.models.bench import print_result
from patchword.core.device import pick_device, pick_precision

FIRST = "deit-small"  # whose time of a multiplication is the measure
MODELS = ("deit-small", "vit-base-16", "swin-tiny", "swin-base")
TINY = {"image": 32, "depth": 2, "width": 24, "heads": 2, "hidden": 48, "classes": 7}


def beside_the_first(results: list[Result]) -> list[str]:
    """how long ours take for a multiplication, as a multiple of what DeiT-S takes in the same run"""
    rates = {one.title: finish.products for one in results for finish in one.timings if finish.name == one.ours}
    pairs = [(name, rates.get(f"{FIRST}, {name.rpartition(', ')[2]}")) for name in rates]
    return [f"{name}: {first / rates[name]:.2f} of {FIRST} per MAC" for name, first in pairs if first]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=MODELS)
    parser.add_argument("--timm", type=Path, metavar="FOLDER")
    parser.add_argument("--authors", default="", metavar="FILE:NAME")
    parser.add_argument("--transformers", action="store_true", help="also against transformers")
    parser.add_argument("--alone", action="store_true", help="against nobody")
    works = parser.add_mutually_exclusive_group()
    works.add_argument("--infer", action="store_true", help="no training")
    works.add_argument("--train", action="store_true", help="no inference")
    parser.add_argument("--batch", type=int, help="256 to infer and 128 to train; 4 on a CPU")
    parser.add_argument("--seconds", type=float, default=4.0, help="for each")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--among", action="append", default=[], metavar="NAME", help="who races; all, if none is named")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to see that it runs")
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
    print(*beside_the_first(results), sep="\n")


if __name__ == "__main__":
    main()
