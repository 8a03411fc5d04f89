"""Compare BERT with transformers: training steps of masked language modelling, or inference on texts of any length."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import cycle
from typing import Any

import torch
from torch import Tensor, nn

from patchword.benchmarking.benchmark import Candidate, Log, benchmark
from patchword.benchmarking.hardware_limits import measure_limits
from patchword.benchmarking.images import OURS, Setting
from patchword.benchmarking.peers import agreement, check_agreement, of_transformers
from patchword.benchmarking.result import Result
from patchword.benchmarking.text_inputs import Texts
from patchword.data.text.batching.batches import TextBatch
from patchword.layers.text.model import TextModel
from patchword.models import REGISTRY
from patchword.objectives.text import MaskedWords
from patchword.training.optimizer import adamw
from patchword.training.step import autocast

SAME, THEIRS, UNDROPPED = "patchword, dropout 0.1", "transformers", "transformers, no dropout"
_TOKENS, _TOKENS_CPU = 32_768, 2_048  # tokens per batch

_MASKED = "AutoModelForMaskedLM"

Others = Callable[[TextModel, Texts, Setting], Sequence[Candidate]]


def no_others(model: TextModel, texts: Texts, setting: Setting) -> Sequence[Candidate]:
    return ()


def bench_masked(
    name: str, setting: Setting, lengths: Tensor, log: Log = print, others: Others = no_others, **sizes: Any
) -> Result:
    """Benchmark training steps. transformers runs with its defaults: dropout 0.1, logits at every token.

    others: builds further candidates from our model, the texts and the setting.
    """
    device = setting.device
    model = _bert(name, "words", 0.0, device, **sizes)
    texts = Texts.of(lengths, model.card.config["vocabulary"])
    difference = _same_loss(model.to(device), texts, device)
    check_agreement(f"{THEIRS}: its loss", difference)
    runs = {OURS: 0.0, SAME: 0.1, THEIRS: 0.1, UNDROPPED: 0.0}
    candidates = [
        (_train_ours if who in (OURS, SAME) else _train_theirs)(
            who, _bert(name, "words", rate, device, **sizes), texts, setting
        )
        for who, rate in runs.items()
        if setting.measures(who)
    ]
    candidates += others(model, texts, setting)
    timings = benchmark(candidates, device, setting.seconds, log)
    return _result(f"{name}, masked words", name, setting, texts, timings, {THEIRS: difference}, sizes)


def bench_inference(name: str, setting: Setting, lengths: Tensor, log: Log = print, **sizes: Any) -> Result:
    """Benchmark inference to one vector per text. Our texts are sorted and packed, theirs padded in the given order."""
    device = setting.device
    ours = _bert(name, "pooled", 0.0, device, **sizes).eval()
    texts = Texts.of(lengths, ours.card.config["vocabulary"])
    theirs = of_transformers(ours, "AutoModel").to(device)
    some = Texts.of(lengths[:4], ours.card.config["vocabulary"])
    first = some.padded(4, device)[0]
    with torch.inference_mode():
        answers = ours(some.sorted(2**40, device)[0].text)[lengths[:4].argsort(descending=True, stable=True).argsort()]
        difference = agreement(answers, theirs(first.ids, attention_mask=first.mask).pooler_output)
    check_agreement(THEIRS, difference)
    narrow, other = setting.in_precision(ours), setting.in_precision(theirs)
    run, peer = setting.ours(narrow, dynamic=not texts.is_even), setting.peer(other, THEIRS)
    batches = texts.sorted(_TOKENS_CPU if device.type == "cpu" else _TOKENS, device)
    padded = texts.padded(setting.batch, device)
    macs, held = texts.macs(ours.card.config, words=False), setting.uses_cuda_graphs(OURS, dynamic=not texts.is_even)

    def embed(batch: TextBatch) -> Tensor:
        found: Tensor = run(batch.text._replace(predict_at=None))
        return found

    candidates = [
        replace(over_batches(OURS, batches, _inference(embed), macs), cuda_graphs=held),
        over_batches(THEIRS, padded, _inference(lambda batch: peer(batch.ids, attention_mask=batch.mask)), macs),
    ]
    timings = benchmark([one for one in candidates if setting.measures(one.name)], device, setting.seconds, log)
    return _result(f"{name}, reading", name, setting, texts, timings, {THEIRS: difference}, sizes)


def _bert(name: str, head: str, dropout: float, device: torch.device, **sizes: Any) -> TextModel:
    torch.manual_seed(0)  # all models start with the same weights
    with device:  # random numbers are generated much faster there
        model = REGISTRY.create(name, **{"head": head, "dropout": dropout, "attention_dropout": dropout, **sizes})
    assert isinstance(model, TextModel), "a model of texts"
    return model


def _result(
    title: str, name: str, setting: Setting, texts: Texts, timings: Any, difference: dict[str, float], sizes: Any
) -> Result:
    lengths = texts.lengths
    spread = {"texts": len(lengths), "shortest": int(lengths.min()), "longest": int(lengths.max())}
    shown = {"model": name, **sizes, **setting.described(), **spread, "mean": round(float(lengths.double().mean()), 1)}
    limits = measure_limits(setting.device, setting.precision, min(0.5, setting.seconds))
    return Result(title, "tokens", timings, OURS, setting.device, limits, difference, shown)


def _same_loss(model: TextModel, texts: Texts, device: torch.device) -> float:
    """Return the relative difference between our loss and theirs on a few texts, without dropout."""
    some, theirs = Texts.of(texts.lengths[:4], model.card.config["vocabulary"]), of_transformers(model, _MASKED)
    wide = some.padded(4, device)[0]
    with torch.no_grad():
        mine = [MaskedWords(model.eval())(one, one).loss * one.weight for one in some.packed(4, device)]
        their = theirs.to(device)(wide.ids, attention_mask=wide.mask, labels=wide.labels).loss
    return float(abs(torch.stack(mine).sum() / (wide.labels >= 0).sum() - their) / their)


def _train_ours(name: str, model: TextModel, texts: Texts, setting: Setting) -> Candidate:
    model.to(setting.device).train()
    run = setting.ours(model, dynamic=not texts.is_even)
    objective, batches = MaskedWords(run), texts.packed(setting.batch, setting.device)
    step = training_step(model, lambda batch: objective(batch, batch).loss, setting)
    found = over_batches(name, batches, step, 3 * texts.macs(model.card.config, words=True))
    return replace(found, cuda_graphs=setting.uses_cuda_graphs(name, dynamic=not texts.is_even))


def _train_theirs(name: str, model: TextModel, texts: Texts, setting: Setting) -> Candidate:
    theirs = of_transformers(model, _MASKED).to(setting.device).train()
    run, batches = setting.peer(theirs, name), texts.padded(setting.batch, setting.device)
    step = training_step(theirs, lambda one: run(one.ids, attention_mask=one.mask, labels=one.labels).loss, setting)
    return over_batches(name, batches, step, 3 * texts.macs(model.card.config, words=True))


def _inference(work: Callable[[Any], object]) -> Callable[[Any], object]:
    return torch.inference_mode()(work)


def training_step(model: nn.Module, loss: Callable[[Any], Tensor], setting: Setting) -> Callable[[Any], None]:
    optimizer = adamw(model, 1e-4, 0.01)

    def step(batch: Any) -> None:
        with autocast(setting.precision, setting.device):
            found = loss(batch)
        found.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


def over_batches(name: str, batches: Sequence[Any], work: Callable[[Any], object], macs: float) -> Candidate:
    """Return a candidate that takes one batch per step, in turn. Its work is the number of tokens without padding."""
    following = cycle(batches)

    def step() -> float:
        batch = next(following)
        work(batch)
        return float(batch.tokens)

    return Candidate(name, step, len(batches), macs)
