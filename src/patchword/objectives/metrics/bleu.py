"""BLEU of translations, computed by sacrebleu, with sacrebleu's signature of the settings."""

from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Literal

from patchword.core.errors import UserError

BleuWords = Literal["13a", "intl", "zh", "char"]


@dataclass(frozen=True)
class Bleu:
    """The BLEU of a set of translations.

    score: from 0 to 100. precisions: of 1-grams to 4-grams. brevity: the brevity penalty.
    ratio: length of the translations / length of the references. signature: sacrebleu's, names all settings.
    """

    score: float
    precisions: tuple[float, ...]
    brevity: float
    ratio: float
    signature: str


def require_sacrebleu() -> ModuleType:
    """Import sacrebleu; raise a UserError that names the command to install it if it is missing."""
    try:
        import sacrebleu
    except ImportError:
        raise UserError(
            "BLEU is computed by the package sacrebleu, which is not installed",
            hint="pip install 'patchword[translate]'",
        ) from None
    return sacrebleu


def bleu(written: Sequence[str], truth: Sequence[str], words: BleuWords = "13a") -> Bleu:
    """Return the BLEU of detokenised texts. words: sacrebleu's tokenizer, e.g. "zh" for Chinese."""
    measure = require_sacrebleu().BLEU(tokenize=words)
    found = measure.corpus_score(list(written), [list(truth)])
    ratio = found.sys_len / max(1, found.ref_len)
    return Bleu(found.score, tuple(found.precisions), found.bp, ratio, str(measure.get_signature()))
