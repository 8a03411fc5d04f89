"""Time inference and training steps of the vision families that transformers also has, with the same weights.

python benchmarks/vision_models.py --batch 8 --seconds 10 --save benchmarks/results/vision_models.json
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import patchword
from patchword.core.device import machine, pick_device

MODELS = ("vit-base-16", "swin-tiny", "cvt-13", "pvt-small", "resnet-50", "regnety-4gf")
ROUNDS = 4  # the two are interleaved, so that other load on the machine affects both


def pair(name: str, device: torch.device) -> tuple[nn.Module, Callable[[Tensor], Tensor], nn.Module]:
    """Ours, and the peer with the same weights as a function and as a module."""
    from transformers import AutoModelForImageClassification

    torch.manual_seed(0)
    # transformers always runs CvT with the exact GELU and ignores its config file
    ours = patchword.create(name, **({"activation": "gelu"} if name.startswith("cvt") else {}))
    nn.init.normal_(ours.head.linear.weight, std=0.1)  # some heads are initialised to zero, and then all outputs agree
    with tempfile.TemporaryDirectory() as folder:
        peer = AutoModelForImageClassification.from_pretrained(patchword.save(ours, folder, layout="huggingface"))
    peer = peer.to(device).eval()
    return ours.to(device), lambda images: peer(images).logits, peer


def rate(step: Callable[[], object], batch: int, seconds: float, device: torch.device) -> float:
    """Images per second."""
    step()
    count, began = 0, time.perf_counter()
    while (spent := time.perf_counter() - began) < seconds:
        step()
        count += batch
        if device.type == "cuda":
            torch.cuda.synchronize()
    return count / spent


def training(forward: Callable[[Tensor], Tensor], images: Tensor, labels: Tensor, model: nn.Module) -> None:
    F.cross_entropy(forward(images), labels).backward()
    model.zero_grad()


def measure(name: str, batch: int, seconds: float, device: torch.device) -> dict[str, float | str]:
    ours, their_forward, theirs = pair(name, device)
    images = torch.randn(batch, 3, 224, 224, device=device)
    labels = torch.randint(1000, (batch,), device=device)
    with torch.no_grad():
        one, other = ours.eval()(images[:2]), their_forward(images[:2])
    difference = float((one - other).abs().max() / other.abs().max())
    assert difference < 1e-3, f"{name}: the two differ by {difference:.1e}"
    autocast = torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda")
    found: dict[str, float | str] = {"model": name, "difference": float(f"{difference:.1e}")}
    for kind in ("inference", "training"):
        for model in (ours, theirs):
            model.train(kind == "training")
        steps: dict[str, Callable[[], object]]
        if kind == "inference":
            steps = {"ours": lambda: ours(images), "theirs": lambda: their_forward(images)}
        else:
            steps = {
                "ours": lambda: training(ours, images, labels, ours),
                "theirs": lambda: training(their_forward, images, labels, theirs),
            }
        rates: dict[str, list[float]] = {who: [] for who in steps}
        with autocast, torch.set_grad_enabled(kind == "training"):
            for _ in range(ROUNDS):
                for who, step in steps.items():
                    rates[who].append(rate(step, batch, seconds / ROUNDS, device))
        best = {who: max(values) for who, values in rates.items()}
        found |= {f"{kind}_{who}": round(value, 1) for who, value in best.items()}
        found[f"{kind}_ratio"] = round(best["ours"] / best["theirs"], 2)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", default=MODELS)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--save", type=Path)
    options = parser.parse_args()
    device = pick_device(options.device)
    rows = []
    for name in options.models:
        rows.append(measure(name, options.batch, options.seconds, device))
        print(rows[-1], flush=True)
    precision = "bfloat16" if device.type == "cuda" else "float32"
    result = {"machine": machine(device), "batch": options.batch, "precision": precision, "images_per_second": rows}
    if options.save:
        options.save.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
