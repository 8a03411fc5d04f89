"""Texts that a pretrained causal language model generates."""

import numpy as np

from patchword.data.text.tokenizers.tokenizer import Tokenizer
from patchword.layers.text.model import TextModel
from patchword.objectives.generation.causal import CausalSteps
from patchword.objectives.generation.sampling import Sampling, generate
from patchword.recipes.pretraining.splits import CorpusSplit, DataSplit
from patchword.reports.plots import page
from patchword.reports.run.text.markup import passage

_TEXTS, _GIVEN, _NEW, _TOP_P = 4, 16, 48, 0.95


def written_section(model: TextModel, tokenizer: Tokenizer, held: DataSplit) -> str:
    """Return the section: beginnings of held-out documents, and their continuations."""
    if not model.causal or not isinstance(held, CorpusSplit):
        return ""
    prompts = [prompt for number in held.documents[:_TEXTS].tolist() if len(prompt := _beginning(held, number)) > 1]
    if not prompts:
        return ""
    steps = CausalSteps(model, prompts, never=[number for number in tokenizer.specials if number not in _ends(held)])
    found = generate(steps, Sampling(top_p=_TOP_P, seed=0), _NEW, _ends(held))
    about = f"The first {_GIVEN} tokens of held-out documents, and in bold the model's continuation, sampled from the "
    about += f"most likely tokens with a total probability of {_TOP_P:.0%} (top-p)."
    shown = []
    for prompt, text in zip(prompts, found, strict=True):
        start = tokenizer.decode(prompt[len(held.frame.before) :])
        whole = tokenizer.decode([*prompt[len(held.frame.before) :], *text.tokens])
        rest = whole.removeprefix(start)
        shown.append(passage(f"{page.escape(start)}<b>{page.escape(rest)}</b>"))
    return page.section("Generated texts", page.paragraph(about) + "".join(shown))


def _beginning(held: CorpusSplit, number: int) -> list[int]:
    corpus = held.corpus
    start, end = (int(corpus.sentences[corpus.documents[number + shift]]) for shift in (0, 1))
    return [*held.frame.before, *np.asarray(corpus.tokens[start : min(end, start + _GIVEN)], np.int64).tolist()]


def _ends(held: CorpusSplit) -> tuple[int, ...]:
    return held.frame.after
