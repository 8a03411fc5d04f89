"""The study of frozen vectors: contextual or static."""

from collections.abc import Sequence

from patchword.recipes.schema.recipe import Recipe
from patchword.recipes.vectors.recipe import OverVectorsRecipe
from patchword.recipes.vectors.sources import listed_sources
from patchword.studies.spread import Spread
from patchword.studies.study import Result, Study

SEEDS = 3
VECTORS = {
    "random": "random",
    "word2vec": "{words}",
    "cove": "{words}+{translation}",
    "elmo": "{elmo}",
    "bert": "{bert}",
}


def contextual_or_static() -> Study:
    """The same tagger and the same classifier over random, word2vec, CoVe, ELMo and BERT vectors, all frozen."""
    tags = OverVectorsRecipe(task="tags", train="{tags}", test="{tags_test}")
    classes = OverVectorsRecipe(task="classes", train="{classes}", test="{classes_test}")
    return Study(
        about="Contextual or static: the same tagger and the same classifier over five kinds of frozen vectors.",
        time="a minute or so for each source and task, on a GPU",
        runs={
            f"{task}-{label}-seed-{seed}": recipe.model_copy(update={"vectors": vectors, "seed": seed})
            for task, recipe in (("tags", tags), ("classes", classes))
            for label, vectors in VECTORS.items()
            for seed in range(SEEDS)
        },
        missing=_missing,
        conclusion=order,
        asks={
            "words": "a file of word vectors (`patchword vectors train`), or none",
            "translation": "the run of a translator, or none",
            "elmo": "the run of an ELMo, or none",
            "bert": "the run of a BERT, or none",
            "tags": "a file of tagged words, .conllu",
            "tags_test": "another file, for testing",
            "classes": "a table of texts with one class per text",
            "classes_test": "another file, for testing",
        },
        panels=("tags", "classes"),
    )


def _missing(recipe: Recipe) -> str:
    """Leave a run out if one of its vectors is given as none."""
    assert isinstance(recipe, OverVectorsRecipe), "all runs are over vectors"
    return "its vectors are none" if "none" in listed_sources(recipe.vectors) else ""


def order(results: Sequence[Result]) -> str:
    """Return the vectors of each task, ordered by score."""
    groups: dict[str, dict[str, list[float]]] = {}
    for result in results:
        task, _, label = result.run.partition("-seed-")[0].partition("-")
        groups.setdefault(task, {}).setdefault(label, []).append(result.score)
    lines = []
    for task, found in groups.items():
        means = {label: Spread.of(scores).mean for label, scores in found.items()}
        best = sorted(means, key=lambda label: -means[label])
        lines.append(f"{task}: " + " > ".join(f"{label} {100 * means[label]:.2f}" for label in best))
    return "; ".join(lines)
