"""The recipe kind `text`: models that are fine-tuned on texts."""

from collections.abc import Sequence

from rich.console import Console

from patchword.data.faults import Fault
from patchword.data.progress import Progress
from patchword.models import REGISTRY
from patchword.recipes.distillation.text import compressed
from patchword.recipes.recipe_kind import RecipeKind
from patchword.recipes.task import Task
from patchword.recipes.text.checks import checked_parts, contents_of
from patchword.recipes.text.evaluation import evaluate_texts
from patchword.recipes.text.recipe import TextRecipe
from patchword.recipes.text.sample_texts import text_excerpts, text_location
from patchword.recipes.text.task import TextTask, build_task
from patchword.recipes.text.tasks.all_tasks import task_spec_of
from patchword.training.guard.report import SampleNames


def _task(recipe: TextRecipe, console: Console) -> Task:
    return compressed(build_task(recipe, console), console)


def check_texts(recipe: TextRecipe) -> tuple[str, Sequence[Fault]]:
    """Read all texts of a recipe; return their counts in words, and possible mistakes."""
    spec = task_spec_of(recipe)
    parts, report = checked_parts(spec, None)
    counts = f"{len(parts.train) + len(parts.validation):,} {spec.row}s to train on and to validate"
    return f"{counts}, {len(parts.labels)} labels" if parts.labels else counts, report.doubts


def _check_data(recipe: TextRecipe, progress: Progress) -> tuple[str, Sequence[Fault]]:
    return check_texts(recipe)


def _sample_names(task: TextTask) -> SampleNames:
    return lambda piece: [
        f"{text_location(task.train, sample)} ({text})" for sample, text in text_excerpts(task.tokenizer, piece)
    ]


def _required(recipe: TextRecipe) -> str:
    """A model from the registry has no weights and no tokenizer."""
    if recipe.train:
        return ""
    model = " model=FOLDER" if recipe.model.name in REGISTRY.names() and not recipe.tokenizer else ""
    return ("train=FOLDER" if recipe.glue else "train=FILE") + model


def _metric(recipe: TextRecipe) -> str:
    return recipe.metric or task_spec_of(recipe).score


TEXT = RecipeKind(
    recipe=TextRecipe,
    build_task=_task,
    evaluate=evaluate_texts,
    check_data=_check_data,
    contents=contents_of,
    sample_names=_sample_names,
    required_settings=_required,
    metric=_metric,
    task="Text",
)
