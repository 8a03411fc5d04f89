"""Time masked language modelling with BERT: ours, transformers with and without dropout, and a short PyTorch script.

python benchmarks/bert_training.py --save benchmarks/results/bert_training.json
python benchmarks/bert_training.py --only 128 --tokens 16384        smaller steps
python benchmarks/bert_training.py --quick          a minute on a CPU, with tiny sizes

It times full sequences of 128 and 512 tokens, then texts of natural lengths. The short script (reference_bert.py) takes
full sequences only.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import torch
from reference_bert import ReferenceBert

from patchword.benchmarking.benchmark import Candidate
from patchword.benchmarking.images import Setting
from patchword.benchmarking.result import Result, write_results
from patchword.benchmarking.text_inputs import Texts, natural_lengths
from patchword.benchmarking.texts import OURS, SAME, THEIRS, UNDROPPED, bench_masked, over_batches, training_step
from patchword.cli.models.bench import print_result
from patchword.core.device import pick_device, pick_precision
from patchword.layers.text.model import TextModel

PLAIN = "a plain script"
TINY = {"width": 32, "depth": 2, "heads": 2, "hidden": 64, "vocabulary": 500, "max_length": 64}
LENGTHS, TOKENS = (128, 512), 65_536  # tokens per sequence, tokens per step
LENGTHS_TINY, TOKENS_TINY = (16, 64), 128


def short_script(model: TextModel, texts: Texts, setting: Setting) -> Sequence[Candidate]:
    if not texts.is_even or not setting.measures(PLAIN):
        return ()
    config = model.card.config
    torch.manual_seed(0)
    sizes = {name: config[name] for name in ("vocabulary", "width", "depth", "heads", "hidden", "max_length")}
    theirs = ReferenceBert(**sizes).to(setting.device).train()
    run = setting.peer(theirs, PLAIN)
    batches = texts.packed(setting.batch, setting.device)
    step = training_step(theirs, lambda one: run(one.text.ids, one.text.predict_at, one.asked_targets), setting)
    return [over_batches(PLAIN, batches, step, 3 * texts.macs(config, words=True))]


def ratios(result: Result) -> list[str]:
    """Our speed relative to transformers, with its dropout and with equal dropout, and to the short script."""
    rate = {one.name: one.rate for one in result.timings}
    pairs = [(OURS, THEIRS), (SAME, THEIRS), (OURS, UNDROPPED), (OURS, PLAIN)]
    return [f"{one} / {other}: {rate[one] / rate[other]:.2f}" for one, other in pairs if one in rate and other in rate]


def shapes(quick: bool, tokens: int, natural: int) -> list[tuple[int, torch.Tensor]]:
    """The batch size, and the length of each text, of the three benchmarks."""
    lengths, tokens = (LENGTHS_TINY, TOKENS_TINY) if quick else (LENGTHS, tokens)
    found = [(tokens // length, torch.full((2 * tokens // length,), length)) for length in lengths]
    batch, longest, typical = (8, 64, 16) if quick else (natural, 512, 60)
    return [*found, (batch, natural_lengths(8 * batch, longest, typical))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="bert-base")
    parser.add_argument("--tokens", type=int, default=TOKENS, help="tokens per step, for full sequences")
    parser.add_argument("--natural", type=int, default=128, help="texts per step, for natural lengths")
    parser.add_argument("--seconds", type=float, default=6.0, help="measuring time per candidate")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--only", choices=["128", "512", "natural"], help="run only this benchmark")
    parser.add_argument("--among", action="append", default=[], metavar="NAME", help="time only this candidate")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to check that it runs")
    parser.add_argument("--compile", action=argparse.BooleanOptionalAction, help="the default on a GPU")
    parser.add_argument("--save", type=Path)
    asked = parser.parse_args()
    device = pick_device(asked.device)
    compiled = device.type == "cuda" if asked.compile is None else asked.compile
    among = frozenset(asked.among)
    seconds, sizes = (0.05, TINY) if asked.quick else (asked.seconds, {})
    name, results = "bert-tiny" if asked.quick else asked.model, list[Result]()
    for title, (batch, lengths) in zip(
        ("128", "512", "natural"), shapes(asked.quick, asked.tokens, asked.natural), strict=True
    ):
        if asked.only in (None, title):
            setting = Setting(device, pick_precision("auto", device), seconds, compiled, batch, train=True, among=among)
            results.append(bench_masked(name, setting, lengths, others=short_script, **sizes))
            print_result(results[-1])
            print(*ratios(results[-1]), sep="\n")
            torch.compiler.reset()
            if asked.save:
                write_results(asked.save, results)


if __name__ == "__main__":
    main()
