"""The effect of distillation on a DeiT, in the form of the lectures' table."""

from collections.abc import Sequence

from patchword.recipes.distillation.fields import ImageTeacher
from patchword.recipes.image.named import fashion_mnist_deit
from patchword.recipes.image.recipe import Augment
from patchword.recipes.schema.recipe import Expect, ModelChoice, Recipe
from patchword.studies.spread import Spread
from patchword.studies.study import Result, Study

TEACHER = "{teacher}"  # given on the command line


def deit_distillation() -> Study:
    """DeiT without a teacher, with soft and hard distillation, and with a distillation token."""
    soft = ImageTeacher(name=TEACHER, kind="soft", temperature=3.0, share=0.9)
    hard = ImageTeacher(name=TEACHER, kind="hard", share=0.5)
    return Study(
        "A small DeiT without a teacher, and with each kind of distillation.",
        "at most 14 minutes per seed on one H200 (3 to 4 per run, six at a time)",
        {
            "soft": _student("deit-mini", soft),
            "hard": _student("deit-mini", hard),
            "token": _student("deit-mini-distilled", hard.model_copy(update={"token": "distillation"})),
            "none": _student("deit-mini", ImageTeacher()),  # last, so that an unsuitable teacher is reported at once
        },
        conclusion=table,
        asks={"teacher": "the run or the weights to learn from, e.g. runs/fashion-mnist-resnet"},
    )


def _student(model: str, teacher: ImageTeacher) -> Recipe:
    """Trains longer than the families, with flips only: a student that does not overfit gains little from a teacher."""
    about = "A small DeiT with or without a teacher."
    chosen = {"about": about, "expect": Expect(), "model": ModelChoice(name=model), "teacher": teacher}
    return fashion_mnist_deit().model_copy(update={**chosen, "augmentation": Augment(flip=0.5), "epochs": 90})


# rows of the lectures' table: what it is called there, the run, and the measure of that run
ROWS = (
    ("no distillation", "none", "accuracy"),
    ("soft distillation", "soft", "accuracy"),
    ("hard distillation", "hard", "accuracy"),
    ("distillation token, class embedding at test", "token", "class_token"),
    ("distillation token, distillation embedding at test", "token", "distillation_token"),
    ("distillation token, both at test", "token", "accuracy"),
)


def table(results: Sequence[Result]) -> str:
    """Return the accuracies per kind of distillation and per token; for several seeds, mean and standard deviation."""
    lines = []
    for title, run, measure in ROWS:
        found = [r.measures[measure] for r in results if r.run.partition("-seed-")[0] == run and measure in r.measures]
        if found:
            spread = Spread.of(found)
            more = "" if spread.deviation is None else f" (standard deviation {spread.deviation:.2%})"
            lines.append(f"{title}: {spread.mean:.2%}{more}")
    return "\n".join(lines)
