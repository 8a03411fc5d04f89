"""Time training steps of the ViT of the exercise against transformers.

python benchmarks/vit_training.py --batch 64 --seconds 60 --save benchmarks/results/vit_training.json
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

Step = Callable[[], None]
ROUNDS = 6  # the two are interleaved, so that other load on the machine affects both


def models(name: str, device: torch.device) -> tuple[nn.Module, nn.Module]:
    """Ours, and the peer with the same weights."""
    from transformers import ViTForImageClassification

    torch.manual_seed(0)
    ours = patchword.create(name)
    nn.init.normal_(ours.head.linear.weight, std=0.1)  # it is initialised to zero, and then all outputs agree
    with tempfile.TemporaryDirectory() as folder:
        peer = ViTForImageClassification.from_pretrained(patchword.save(ours, folder, layout="huggingface"))
    return ours.to(device).train(), peer.to(device).train()


def stepper(model: nn.Module, forward: Callable[[Tensor], Tensor], inputs: Tensor, labels: Tensor) -> Step:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    def step() -> None:
        F.cross_entropy(forward(inputs), labels).backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def rate(step: Step, batch: int, seconds: float, device: torch.device) -> float:
    """Images per second."""
    step()
    count, began = 0, time.perf_counter()
    while (spent := time.perf_counter() - began) < seconds:
        step()
        count += batch
        if device.type == "cuda":
            torch.cuda.synchronize()
    return count / spent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="vit-exercise")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--save", type=Path)
    asked = parser.parse_args()
    device = pick_device(asked.device)
    ours, peer = models(asked.model, device)
    config = ours.card.config
    inputs = torch.randn(asked.batch, config["channels"], config["image"], config["image"], device=device)
    labels = torch.randint(0, config["classes"], (asked.batch,), device=device)
    with torch.no_grad():
        answers = ours(inputs)
        difference = float((answers - peer(inputs).logits).abs().max() / answers.std())
    assert difference < 1e-4, f"the outputs differ by {difference} of their spread"

    steps = {
        "patchword": stepper(ours, ours, inputs, labels),
        "transformers": stepper(peer, lambda images: peer(images).logits, inputs, labels),
    }
    rates: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(ROUNDS):
        for name, step in steps.items():
            rates[name].append(rate(step, asked.batch, asked.seconds / ROUNDS / 2, device))
    medians = {name: sorted(found)[len(found) // 2] for name, found in rates.items()}
    ratio = medians["patchword"] / medians["transformers"]
    for name, found in medians.items():
        print(f"{name:<14}{found:>10,.0f} images/s")
    print(f"{'ratio':<14}{ratio:>10.2f}     the outputs differ by {difference:.1e} of their spread")
    if asked.save:
        command = (
            f"python benchmarks/vit_training.py --model {asked.model} --batch {asked.batch} --seconds {asked.seconds:g}"
        )
        result = {
            "images_per_second": {name: round(found, 1) for name, found in medians.items()},
            "ratio": round(ratio, 3),
        }
        asked.save.write_text(json.dumps({**result, "command": command, "machine": machine(device)}, indent=2) + "\n")


if __name__ == "__main__":
    main()
