"""Evaluation of a translator: BLEU with beam search, and the loss per token."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from patchword.core.device import pick_device
from patchword.layers import Translator
from patchword.objectives.metrics.bleu import Bleu, bleu, require_sacrebleu
from patchword.recipes.run_folder import RunFolder
from patchword.recipes.translation.data import Languages, Pairs, parted, read_files, tokenised
from patchword.recipes.translation.recipe import TranslationRecipe
from patchword.recipes.translation.run import open_translator
from patchword.recipes.translation.search import Search, in_words, translated
from patchword.recipes.translation.task import judged
from patchword.training.console import run_console


@dataclass(frozen=True)
class TranslationEvaluation:
    """The result of a translator.

    part: the evaluated data split: "test", or "validation" if there is no test file. written: the translations.
    """

    kind: ClassVar[str] = "translation"
    model: Translator
    languages: Languages
    pairs: Pairs
    written: Sequence[str]
    bleu: Bleu
    loss: float
    accuracy: float
    search: Search
    part: str

    def lines(self) -> Sequence[str]:
        """Return the result as lines of text."""
        name = self.part.capitalize()
        lines = [
            f"{name} BLEU: {self.bleu.score:.2f}",
            f"  {self.bleu.signature}, beams {self.search.beams}, penalty {self.search.penalty:g}",
            f"  precisions {' / '.join(f'{precision:.1f}' for precision in self.bleu.precisions)}, "
            f"brevity {self.bleu.brevity:.3f}, length ratio {self.bleu.ratio:.3f}",
            f"{name} loss per token: {self.loss:.4f}",
            f"{name} accuracy per token: {self.accuracy:.2%}",
        ]
        if self.part == "validation":
            lines.append("(the best epoch was chosen on these same pairs; give test=FILES for others)")
        return lines

    def summary(self) -> dict[str, Any]:
        return {
            "bleu": self.bleu.score,
            "accuracy": self.accuracy,
            "loss": self.loss,
            "signature": self.bleu.signature,
            "precisions": list(self.bleu.precisions),
            "brevity_penalty": self.bleu.brevity,
            "length_ratio": self.bleu.ratio,
            "beam": self.search.beams,
            "penalty": self.search.penalty,
            "pairs": len(self.pairs),
            "metric": "bleu",
            "part": self.part,
        }


def evaluate_translation(run: RunFolder, recipe: TranslationRecipe, device: str = "auto") -> TranslationEvaluation:
    require_sacrebleu()
    model, source, target = open_translator(run.folder)
    model, languages = model.to(pick_device(device)), Languages(source, target)
    pairs, part = _pairs(recipe, languages, int(model.card.config["max_length"]))
    search = Search(recipe.beam, recipe.penalty)
    with run_console(stderr=True).status(f"translating {len(pairs):,} texts"):
        written = in_words(languages, translated(model, languages, pairs.source, search))
    loss, accuracy = judged(model, languages, pairs)
    found = bleu(written, pairs.texts.second, recipe.bleu)
    return TranslationEvaluation(model, languages, pairs, written, found, loss, accuracy, search, part)


def _pairs(recipe: TranslationRecipe, languages: Languages, longest: int) -> tuple[Pairs, str]:
    if recipe.test:
        return tokenised(read_files(recipe, "test"), languages, longest, recipe.test), "test"
    fraction = recipe.validation_fraction()
    if fraction is None:
        return tokenised(read_files(recipe, "validation"), languages, longest, recipe.validation), "validation"
    return parted(tokenised(read_files(recipe, "train"), languages, longest, recipe.train), fraction)[1], "validation"
