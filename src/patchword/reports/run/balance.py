"""The section on the class counts of the training data, and what was done about rare classes."""

from patchword.recipes.run import Run
from patchword.recipes.run_folders.records import DATA, read_record
from patchword.recipes.schema.class_balance import ClassBalance
from patchword.reports.plots import page
from patchword.reports.plots.numbers import percent


def balance_section(run: Run, recipe: ClassBalance, things: str) -> str:
    """Return the class counts of the training data; empty for runs that did not record them. things: e.g. "images"."""
    counts: dict[str, int] = read_record(run.folder, DATA).get("class_counts", {})
    present = {name: count for name, count in counts.items() if count}
    if not present:
        return ""
    large, small = max(present, key=present.__getitem__), min(present, key=present.__getitem__)
    about = f"The largest class, <b>{page.escape(large)}</b>, has {counts[large]:,} training {things}, the smallest, "
    about += f"<b>{page.escape(small)}</b>, {counts[small]:,}. {_measures(recipe)}"
    if counts[large] == counts[small]:
        about = f"Every class has {counts[large]:,} training {things}. {_measures(recipe)}"
    total = sum(counts.values())
    rows = [
        page.row(page.escape(name), f"{count:,}", percent(count / total, 1))
        for name, count in sorted(counts.items(), key=lambda pair: -pair[1])
    ]
    table = page.table(f"Training {things} per class", ("class", things, "share"), rows, kind="measures")
    return page.section("Class balance", page.paragraph(about) + page.folded("All classes", table))


def _measures(recipe: ClassBalance) -> str:
    """Return what the recipe does about rare classes."""
    if recipe.class_weights == "balanced":
        return (
            "In the training loss, a class has the weight n / (classes x its number of examples), so that all "
            "classes count the same; validation and test losses have no weights."
        )
    if recipe.sampling == "balanced":
        return (
            "Every epoch draws every class equally often: examples of rare classes repeatedly, of frequent ones only "
            "some; validation and test data are not sampled."
        )
    return "Every example is drawn equally often and has the same weight in the loss."
