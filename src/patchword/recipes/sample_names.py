"""Names of training samples, by which a person finds them: a file, a line, an excerpt."""

from patchword.recipes.distillation.task import TaughtTask
from patchword.recipes.kinds import kind_of
from patchword.recipes.task import Task
from patchword.training.guard.report import SampleNames


def sample_names(task: Task) -> SampleNames:
    """Return the function that names the samples of a batch of this task."""
    while isinstance(task, TaughtTask):
        task = task.task
    return kind_of(task.recipe).sample_names(task)
