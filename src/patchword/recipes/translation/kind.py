"""The recipe kind `translation`: models that are trained on sentence pairs to translate."""

from collections.abc import Sequence

from patchword.data.faults import Fault
from patchword.data.progress import Progress
from patchword.recipes.recipe_kind import RecipeKind
from patchword.recipes.text.sample_texts import excerpt
from patchword.recipes.translation.data import read_all
from patchword.recipes.translation.evaluation import evaluate_translation
from patchword.recipes.translation.recipe import TranslationRecipe
from patchword.recipes.translation.task import TranslationTask, build_task
from patchword.training.guard.report import SampleNames


def _check_data(recipe: TranslationRecipe, progress: Progress) -> tuple[str, Sequence[Fault]]:
    return ", ".join(f"{part} {len(texts):,} pairs" for part, texts in read_all(recipe).items()), ()


def _sample_names(task: TranslationTask) -> SampleNames:
    source = task.languages.source
    return lambda piece: [
        f"pair {sample + 1} ({excerpt(source.decode(piece.source.row(place)))})"
        for place, sample in enumerate(piece.samples.tolist())
    ]


def _required(recipe: TranslationRecipe) -> str:
    return "" if recipe.train else "train=FILE,FILE"


TRANSLATION = RecipeKind(
    recipe=TranslationRecipe,
    build_task=build_task,
    evaluate=evaluate_translation,
    check_data=_check_data,
    sample_names=_sample_names,
    required_settings=_required,
    task="Translation",
)
