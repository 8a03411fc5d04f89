"""Compare a text model on the CPU in float32 and in 8-bit integers: size, milliseconds and difference of the outputs.

python benchmarks/int8.py --model bert-base --save benchmarks/results/int8.json

A registry name gives random weights, a folder its own. "learned" uses the ranges found in a few steps of
quantisation-aware training; "dynamic" computes the ranges in each call. Both are compared with float32 in ONNX Runtime
and in PyTorch.
"""

import argparse
import copy
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import onnxruntime
import torch

import patchword
from patchword.core.device import machine, pick_device
from patchword.core.text import Text
from patchword.layers.quantize import quantise
from patchword.layers.text.model import TextModel
from patchword.weights.export.export import export

ROUNDS = 8  # candidates are interleaved, so that other load on the machine affects all of them


def texts(model: TextModel, batch: int, length: int) -> Text:
    ids = torch.randint(5, model.card.config["vocabulary"], (batch, length))
    return Text(ids, torch.zeros_like(ids), torch.ones_like(ids, dtype=torch.bool))


def learned(model: TextModel) -> TextModel:
    """A copy of the model with learned ranges, as after quantisation-aware training."""
    found = copy.deepcopy(model)
    quantise(found, decay=0.5)
    for module in found.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    with torch.no_grad():
        for _ in range(4):
            found.train()(texts(model, 4, 64))
    return found.eval()


def session(path: Path, text: Text, threads: int) -> Callable[[], Any]:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 3
    opened = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    fed = {"ids": text.ids.numpy(), "segments": text.segments.numpy(), "mask": text.mask.long().numpy()}
    return lambda: opened.run(None, fed)


@torch.inference_mode()
def milliseconds(ways: dict[str, Callable[[], Any]], seconds: float) -> dict[str, dict[str, float]]:
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(ROUNDS):
        for name, run in ways.items():
            run()
            began = time.perf_counter()
            while time.perf_counter() - began < seconds / ROUNDS:
                start = time.perf_counter()
                run()
                times[name].append(1e3 * (time.perf_counter() - start))
    return {name: {"median": round(median(found), 2), "least": round(min(found), 2)} for name, found in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="bert-base", help="a registry name or a model folder")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--seconds", type=float, default=8.0, help="measuring time per candidate")
    parser.add_argument("--save", type=Path)
    words = parser.parse_args()
    torch.set_num_threads(words.threads)
    torch.manual_seed(0)
    known = Path(words.model).exists()
    model = patchword.load(words.model) if known else patchword.create(words.model)
    assert isinstance(model, TextModel), "--model must be a text model"
    model, text = model.eval(), texts(model, words.batch, words.length)
    files = {"float32": (model, False), "dynamic int8": (model, True), "learned int8": (learned(model), True)}
    with tempfile.TemporaryDirectory() as folder:
        done = {
            name: export(given, Path(folder) / f"{name}.onnx", int8=int8, tolerance=1.0)
            for name, (given, int8) in files.items()
        }
        ways = {name: session(found.path, text, words.threads) for name, found in done.items()}
        ways["torch float32"] = lambda: model(text)
        spent = milliseconds(ways, words.seconds)
    base = spent["float32"]["median"]
    result = {
        "model": f"{model.card.model}, {'its own' if known else 'random'} weights",
        "batch": words.batch,
        "length": words.length,
        "threads": words.threads,
        "megabytes": {name: round(found.size / 1e6, 2) for name, found in done.items()},
        "size_ratio": {name: round(found.size / done["float32"].size, 3) for name, found in done.items()},
        "milliseconds": spent,
        "times_as_fast": {name: round(base / found["median"], 2) for name, found in spent.items()},
        "difference": {name: float(f"{found.difference:.2g}") for name, found in done.items()},
        "machine": {**machine(pick_device("cpu")), "onnxruntime": onnxruntime.__version__},
    }
    print(json.dumps(result, indent=2))
    if words.save:
        kept = json.loads(words.save.read_text()) if words.save.is_file() else {}
        words.save.write_text(json.dumps(kept | {result["model"]: result}, indent=2) + "\n")


if __name__ == "__main__":
    main()
