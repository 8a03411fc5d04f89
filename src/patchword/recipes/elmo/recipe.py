"""The recipe of an ELMo pretrained on raw text."""

from pathlib import Path
from typing import Literal, Self

from pydantic import Field

from patchword.core.errors import UserError
from patchword.data.text.corpus.word_counts import Cutting
from patchword.recipes.recipe import Chosen, ModelChoice, Recipe
from patchword.recipes.text.recipe import Files, whole_path


class ElmoRecipe(Recipe):
    kind: Literal["elmo"] = "elmo"
    model: Chosen = ModelChoice(name="elmo-small")
    text: Files = Field((), description="text files, .jsonl files or folders of them, with commas between")
    cut: Cutting = Field(
        "marks", description="words: marks by themselves; small letters without marks (words); or cut by spaces"
    )
    words: int = Field(30_000, ge=2, description="words told apart, the most frequent; the others are one unknown word")
    drawn: int = Field(
        0, ge=0, description="words that the true one is told from, drawn in every step (ELMo: 8192); 0 is all words"
    )
    length: int = Field(50, ge=4, description="tokens read at once; a longer sentence is learned in parts")
    held_out: float = Field(0.01, gt=0, lt=0.5, description="share of the sentences kept for validation")
    epochs: int = Field(5, gt=0)
    batch_size: int = Field(8192, gt=0, description="tokens of a batch, with padding")
    learning_rate: float = Field(1e-3, gt=0, description="peak learning rate")
    warmup: float = Field(0.05, ge=0, lt=1, description="share of the run in which the rate rises")
    weight_decay: float = Field(0.01, ge=0, description="weight decay, on matrices only")

    def located(self) -> Self:
        model = self.model.model_copy(update={"name": whole_path(self.model.name)})
        return self.model_copy(update={"text": tuple(map(whole_path, self.text)), "model": model})

    def require_text(self) -> None:
        if not self.text:
            raise UserError("no texts were named", expected="text=FILE, or several with commas between")

    def files(self) -> list[Path]:
        return [Path(name) for name in self.text]


def elmo_pretrain() -> ElmoRecipe:
    return ElmoRecipe(about="A small ELMo: words by their characters, the next word and the previous (text=FILES).")
