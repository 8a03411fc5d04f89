"""Studies of fine-tuning on texts: all GLUE tasks, pretraining or from scratch, zero-shot reading."""

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

from patchword.core.errors import UserError
from patchword.data.text.formats.glue import GLUE, glue_file
from patchword.objectives.metrics.metrics import glue_score
from patchword.recipes.schema.recipe import ModelChoice, Recipe
from patchword.recipes.text.named import glue_recipe
from patchword.recipes.text.recipe import TextRecipe
from patchword.studies.study import Result, Study


def glue() -> Study:
    """All tasks of GLUE whose files exist, and the GLUE score."""
    return Study(
        about="GLUE: one model fine-tuned on every task whose files exist.",
        time="as long as its runs together",
        runs={name: glue_recipe(name)() for name in GLUE},
        missing=_missing,
        conclusion=_glue_score,
    )


def _missing(recipe: Recipe) -> str:
    assert isinstance(recipe, TextRecipe), "GLUE has text recipes"
    try:
        glue_file(recipe.glue, Path(recipe.train), "train")
    except UserError as error:
        return str(error).splitlines()[0]
    return ""


def _glue_score(results: Sequence[Result]) -> str:
    """Return the GLUE score; the seeds of a task are averaged first."""
    seeds: dict[str, list[Result]] = {}
    for result in results:
        seeds.setdefault(result.run.partition("-seed-")[0], []).append(result)
    metrics = {
        task: {name: fmean(result.measures[name] for result in found) for name in GLUE[task].metrics}
        for task, found in seeds.items()
    }
    counted = [name for name in metrics if name != "wnli"]
    if not counted:
        return ""
    return f"GLUE score over {', '.join(counted)}: {100 * glue_score(metrics):.2f} (validation parts; without WNLI)"


def pretraining_or_scratch() -> Study:
    """The same model on the same task, with pretrained or with random weights."""
    base = TextRecipe(model=ModelChoice(name="runs/bert-pretrain"), epochs=5, learning_rate=1e-4)
    fresh = base.model_copy(
        update={
            "model": ModelChoice(name="runs/bert-pretrain", from_scratch=True),
            "learning_rate": 3e-4,
        }  # higher, because there are no pretrained weights
    )
    return Study(
        about="Pretrained or from scratch: the same model on the same task, three seeds each.",
        time="as long as six runs",
        runs={
            f"{label}-seed-{seed}": recipe.model_copy(update={"seed": seed})
            for label, recipe in (("pretrained", base), ("scratch", fresh))
            for seed in range(3)
        },
    )


def zero_shot_reading() -> Study:
    """Question answering trained in one language and tested in another (Hsu, Liu and Lee, 2019)."""
    base = TextRecipe(
        model=ModelChoice(name="runs/bert-pretrain"),
        task="span",
        length=256,
        stride=96,
        batch_size=32,
        learning_rate=1e-4,
        epochs=3,
        test="{test}",
        without="{test}",
        language="chinese",
    )
    files = {"english": "{english}", "chinese": "{chinese}", "both": "{english},{chinese}"}
    return Study(
        about="Questions answered in Chinese by a model that learned to answer in English, in Chinese, or in both.",
        time="as long as three runs",
        runs={label: base.model_copy(update={"train": train}) for label, train in files.items()},
        asks={
            "english": "a file of English questions in SQuAD's format",
            "chinese": "a file of Chinese questions in the same format, e.g. DRCD's",
            "test": "the test questions, e.g. DRCD's test set",
        },
    )
