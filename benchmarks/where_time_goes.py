"""List the GPU kernels of one step of a model by the time they take. The model is compiled as in a training run.

python benchmarks/where_time_goes.py swin-tiny infer
python benchmarks/where_time_goes.py cswin-tiny train --batch 128
python benchmarks/where_time_goes.py bert-base train --length 128 --dropout 0.1
"""

import argparse
import time
from collections import Counter
from collections.abc import Callable

import torch
from torch.profiler import ProfilerActivity, profile

from patchword.benchmarking import images, texts
from patchword.benchmarking.images import OURS, Setting
from patchword.benchmarking.text_inputs import Texts
from patchword.core.device import pick_precision
from patchword.models import REGISTRY

DEVICE = torch.device("cuda")
TOKENS = 65_536  # per step of a text model


def image_step(name: str, setting: Setting) -> Callable[[], float]:
    torch.manual_seed(0)
    with DEVICE:
        model = REGISTRY.create(name).eval()
    config = model.card.config
    pixels = torch.randn(setting.batch, config["channels"], config["image"], config["image"], device=DEVICE)
    if not setting.train:
        return images.InferenceStep(model, OURS, pixels, setting)
    labels = torch.randint(0, config["classes"], (setting.batch,), device=DEVICE)
    return images._training(model, OURS, pixels, labels, setting)


def text_step(name: str, length: int, dropout: float, setting: Setting) -> Callable[[], float]:
    model = texts._bert(name, "words", dropout, DEVICE)
    lengths = torch.full((2 * setting.batch,), length)
    return texts._train_ours(OURS, model, Texts.of(lengths, model.card.config["vocabulary"]), setting).step


def spent(step: Callable[[], float], count: int) -> float:
    torch.cuda.synchronize()
    began = time.perf_counter()
    for _ in range(count):
        step()
    torch.cuda.synchronize()
    return (time.perf_counter() - began) / count * 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("work", choices=["infer", "train"])
    parser.add_argument(
        "--batch", type=int, help="default: 256 for inference, 128 for training; text models: 65,536 tokens"
    )
    parser.add_argument("--length", type=int, default=128, help="tokens per text")
    parser.add_argument("--dropout", type=float, default=0.0, help="dropout of a text model")
    parser.add_argument("--most", type=int, default=40, help="number of kernels to list")
    asked = parser.parse_args()
    if not torch.cuda.is_available():
        parser.error("this needs a GPU")
    train, of_text = asked.work == "train", hasattr(REGISTRY.configure(asked.model, {}), "vocabulary")
    batch = asked.batch or (TOKENS // asked.length if of_text else 128 if train else 256)
    setting = Setting(DEVICE, pick_precision("auto", DEVICE), 1.0, True, batch, train)
    step = text_step(asked.model, asked.length, asked.dropout, setting) if of_text else image_step(asked.model, setting)
    for _ in range(6):
        step()
    whole = spent(step, 20)
    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        spent(step, 3)
    times, counts = Counter[str](), Counter[str]()
    for event in seen.events():
        if event.device_type.name == "CUDA":
            times[event.name] += event.device_time_total / 3e3
            counts[event.name] += 1
    print(f"{asked.model}, {asked.work}, {batch}: {whole:.2f} ms per step, {sum(times.values()):.2f} ms of kernels")
    for name, milliseconds in times.most_common(asked.most):
        print(f"{milliseconds:8.3f} {counts[name] // 3:5d} {name[:120]}")


if __name__ == "__main__":
    main()
