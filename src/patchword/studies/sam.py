"""The effect of SAM on three families, in the form of the lectures' tables.

The setting is that of "When Vision Transformers outperform ResNets without pre-training or strong data augmentations":
nothing but SAM flattens the minimum. Augmentation, label smoothing and weight averaging would, too, and are left out.
"""

from collections.abc import Sequence
from statistics import fmean

from patchword.analysis.sharpness.sharpness import SharpnessOptions
from patchword.inspection.measures import CorruptionAccuracy, LeadingEigenvalue
from patchword.inspection.robustness import Plan
from patchword.inspection.sharpness import SampleOptions
from patchword.recipes.image.recipe import ImageRecipe
from patchword.recipes.schema.recipe import ModelChoice
from patchword.studies.study import Result, Study, field_of

# the run -> its model, and SAM's rho
MODELS = {
    "vit": ("vit-exercise", 0.1),
    "resnet": ("resnet-mini", 0.1),
    "mixer": ("mixer-mini", 0.2),
}
EIGENVALUE = LeadingEigenvalue(SampleOptions(samples=2048), SharpnessOptions(eigenvalues=1, products=100))
CORRUPTION = CorruptionAccuracy(Plan(count=2000))  # all kinds at all severities


def sharpness_aware() -> Study:
    """ViT, ResNet and Mixer with and without SAM: accuracy, leading Hessian eigenvalue, corruption accuracy."""
    runs = {}
    for label, (model, rho) in MODELS.items():
        runs[label] = _run(model, 0.0)
        runs[f"{label}-sam"] = _run(model, rho)
    radii = ", ".join(f"{label} {rho:g}" for label, (_, rho) in MODELS.items())
    return Study(
        f"ViT, ResNet and Mixer with and without SAM (rho: {radii}).",
        "at most 20 minutes per seed on one H200 (2 to 5 per run, 15 at a time)",
        runs,
        conclusion=in_words,
        measured=(EIGENVALUE, CORRUPTION),
        against="SAM",
    )


def _run(model: str, rho: float) -> ImageRecipe:
    return ImageRecipe(
        about="One family with or without SAM.",
        model=ModelChoice(name=model),
        data="fashion-mnist",
        validation=0.05,
        epochs=30,
        batch_size=512,
        learning_rate=2e-3,
        weight_decay=0.05,
        precision="float32",
        sam=rho,
    )


def in_words(results: Sequence[Result]) -> str:
    """Return, per family, the factor by which SAM lowers the eigenvalue, and the changes of the accuracies."""
    groups: dict[str, list[Result]] = {}
    for result in results:
        groups.setdefault(result.run.partition("-seed-")[0], []).append(result)
    pairs = {label: (groups[label], groups[f"{label}-sam"]) for label in groups if f"{label}-sam" in groups}
    return "\n".join(_sentence(label, *pair) for label, pair in pairs.items())


def _sentence(label: str, plain: Sequence[Result], sam: Sequence[Result]) -> str:
    name = field_of(EIGENVALUE)
    before, after = _mean(plain, name), _mean(sam, name)
    lines = [f"{label}: {_factor(before, after)}"]
    for title, measure in (("test accuracy", "accuracy"), (CORRUPTION.name, field_of(CORRUPTION))):
        change = _mean(sam, measure) - _mean(plain, measure)
        lines.append(f"{title} {100 * change:+.2f} points")
    return ", ".join(lines) + "."


def _factor(before: float, after: float) -> str:
    text = f"SAM {'lowers' if after < before else 'raises'} the {EIGENVALUE.name}"
    ends = f"from {before:.4g} to {after:.4g}"
    if min(before, after) <= 0:
        return f"{text} {ends}"
    return f"{text} by a factor of {max(before, after) / min(before, after):.2f} ({ends})"


def _mean(results: Sequence[Result], measure: str) -> float:
    """Return the mean of a measure; nan if it was not measured."""
    return fmean(result.measures.get(measure, float("nan")) for result in results)
