"""The exercise with teachers: two ResNets, then the exercise's ViT that learns from both."""

from patchword.recipes.image.named import fashion_mnist_distilled, fashion_mnist_teacher
from patchword.recipes.schema.recipe import Recipe
from patchword.studies.study import Study

_APART = 1000  # between the seeds of the two teachers, so that repetitions of the study have different teachers


def exercise_distilled() -> Study:
    """The exercise's ViT, taught by two ResNets that are trained first; every seed has its own teachers."""
    return distilled(fashion_mnist_teacher(), fashion_mnist_distilled())


def distilled(teacher: Recipe, student: Recipe) -> Study:
    """Return a study of two teachers that differ in their seeds, and a student of both.

    The validation images do not depend on the seed, so no teacher has seen those that select the student.
    """
    first, second = "first-teacher", "second-teacher"
    return Study(
        "Two ResNets, and the exercise's ViT that learns from the mean of their probabilities.",
        f"two runs of {teacher.epochs} epochs, then one of {student.epochs}",
        {
            first: teacher,
            second: teacher.with_settings([f"seed={teacher.seed + _APART}"]),
            "vit": student.with_settings([f"teacher={{{first}}},{{{second}}}"]),
        },
    )
