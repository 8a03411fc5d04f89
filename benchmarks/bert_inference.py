"""Time BERT inference on texts of mixed lengths: ours sorted and packed, transformers padded.

python benchmarks/bert_inference.py --save benchmarks/results/bert_inference.json
python benchmarks/bert_inference.py --device cpu --threads 2 --texts 64 --batch 8
python benchmarks/bert_inference.py --quick
"""

import argparse
from pathlib import Path

import torch

from patchword.benchmarking.images import Setting
from patchword.benchmarking.result import write_results
from patchword.benchmarking.text_inputs import natural_lengths
from patchword.benchmarking.texts import bench_inference
from patchword.cli.models.bench import print_result
from patchword.core.device import pick_device, pick_precision

TINY = {"width": 32, "depth": 2, "heads": 2, "hidden": 64, "vocabulary": 500, "max_length": 64}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="bert-base")
    parser.add_argument("--texts", type=int, default=4096)
    parser.add_argument("--batch", type=int, default=128, help="batch size of transformers")
    parser.add_argument("--length", type=int, help="one length for all texts, instead of mixed lengths")
    parser.add_argument("--seconds", type=float, default=8.0, help="measuring time per candidate")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to check that it runs")
    parser.add_argument("--compile", action=argparse.BooleanOptionalAction, help="the default on a GPU")
    parser.add_argument("--save", type=Path)
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    device = pick_device(asked.device)
    compiled = device.type == "cuda" if asked.compile is None else asked.compile
    texts, longest, typical = (24, 64, 16) if asked.quick else (asked.texts, 512, 60)
    lengths = torch.full((texts,), asked.length) if asked.length else natural_lengths(texts, longest, typical)
    seconds, batch = (0.05, 8) if asked.quick else (asked.seconds, asked.batch)
    setting = Setting(device, pick_precision("auto", device), seconds, compiled, batch)
    name, sizes = ("bert-tiny", TINY) if asked.quick else (asked.model, {})
    result = bench_inference(name, setting, lengths, **sizes)
    print_result(result)
    if asked.save:
        write_results(asked.save, [result])


if __name__ == "__main__":
    main()
