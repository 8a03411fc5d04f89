"""A recipe kind: one object with everything that training, evaluation and the verbs need to know of it."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from rich.console import Console

from patchword.data.faults import Fault
from patchword.data.image.splits import Split
from patchword.data.progress import Progress
from patchword.data.sample_digests import Contents
from patchword.layers.model import ModuleWithCard
from patchword.recipes.run_folder import RunFolder
from patchword.recipes.schema.recipe import Recipe
from patchword.recipes.task import Task
from patchword.training.guard.report import SampleNames

R = TypeVar("R", bound=Recipe)
T = TypeVar("T", bound=Task)


class Evaluation(Protocol):
    """The result of a run on its test set."""

    @property
    def kind(self) -> str:
        """Return the name of the recipe kind, which selects the report of this result."""
        ...

    @property
    def model(self) -> ModuleWithCard: ...

    def lines(self) -> Sequence[str]:
        """Return the result as lines of text for the console."""
        ...

    def summary(self) -> dict[str, Any]:
        """Return the content of evaluation.json."""
        ...


# The headings of `patchword recipes`, in their order.
TASKS = ("Images", "Detection", "Segmentation", "Text", "Pretraining", "Translation", "Word vectors", "Others")


def _test_accuracy(recipe: Recipe) -> str:
    return "test accuracy"


def _no_contents(recipe: Recipe, parts: Collection[Split]) -> Mapping[Split, Contents]:
    """The fingerprint of the training data is all that is known of them."""
    return {}


@dataclass(frozen=True)
class RecipeKind(Generic[R, T]):
    """What differs between the kinds of recipes. A kind's folder has one instance of it, in kind.py.

    build_task: reads the training data and builds the model.
    evaluate: (run, recipe, device) -> the result of the run's weights on the data of the recipe.
    check_data: reads all files of a recipe; returns a summary and possible mistakes, raises one error for all faults.
    sample_names: returns the function that names the samples of a batch, e.g. by file and line.
    required_settings: the settings that the user has to give, as they are typed; empty if there are none.
    metric: what `expect.accuracy` of the recipe measures.
    contents: (recipe, splits) -> the samples as they are stored, of those splits that have files of their own.
    task: the heading of TASKS under which `patchword recipes` lists the recipes.
    """

    recipe: type[R]
    build_task: Callable[[R, Console], Task]
    evaluate: Callable[[RunFolder, R, str], Evaluation]
    check_data: Callable[[R, Progress], tuple[str, Sequence[Fault]]]
    sample_names: Callable[[T], SampleNames]
    required_settings: Callable[[R], str]
    metric: Callable[[R], str] = _test_accuracy
    contents: Callable[[R, Collection[Split]], Mapping[Split, Contents]] = _no_contents
    task: str = "Others"

    @property
    def name(self) -> str:
        """The value of the recipe's field `kind`."""
        return str(self.recipe.model_fields["kind"].default)
