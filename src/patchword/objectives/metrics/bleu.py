"""BLEU of translations, as sacrebleu computes it, with the signature that says how."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from patchword.core.errors import UserError

BleuWords = Literal["13a", "intl", "zh", "char"]


@dataclass(frozen=True)
class Bleu:
    """score: from 0 to 100. brevity: the factor for texts that are too short. ratio: their length to the truth's."""

    score: float
    precisions: tuple[float, ...]
    brevity: float
    ratio: float
    signature: str


def require_sacrebleu() -> Any:
    """The package, or what to do about it."""
    try:
        import sacrebleu
    except ImportError:
        raise UserError(
            "BLEU is computed by the package sacrebleu, which is not installed",
            hint="pip install 'patchword[translate]'",
        ) from None
    return sacrebleu


def bleu(written: Sequence[str], truth: Sequence[str], words: BleuWords = "13a") -> Bleu:
    """Of whole texts as people read them (detokenised). words: how sacrebleu cuts them, "zh" for Chinese."""
    measure = require_sacrebleu().BLEU(tokenize=words)
    found = measure.corpus_score(list(written), [list(truth)])
    ratio = found.sys_len / max(1, found.ref_len)
    return Bleu(found.score, tuple(found.precisions), found.bp, ratio, str(measure.get_signature()))
