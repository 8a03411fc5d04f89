"""Studies of image models: families and position encodings on Fashion-MNIST; fine-tuning against scratch."""

from patchword.recipes.image.named import (
    FAMILIES,
    fashion_mnist_cswin,
    fashion_mnist_swin,
    finetune_images,
    on_fashion_mnist,
)
from patchword.recipes.schema.recipe import Expect, ModelChoice
from patchword.studies.study import Study

TOGETHER = "both studies took 10 minutes on one H200, 8 runs at a time"


def fashion_mnist_families() -> Study:
    """Every family of the course on Fashion-MNIST, with the same budget."""
    vit = on_fashion_mnist("The exercise's ViT, with the families' budget.", "vit-exercise", 0.88)
    others = {function.__name__.rsplit("_", 1)[-1]: function() for function in FAMILIES}
    return Study(
        "Every family with the same budget.",
        TOGETHER,
        {"vit": vit, **others},
    )


def fashion_mnist_positions() -> Study:
    """Swin and CSWin with each position encoding."""
    runs = {}
    for base in (fashion_mnist_swin(), fashion_mnist_cswin()):
        for scheme in ("none", "learned", "sinusoidal", "relative", "conditional", "local"):
            model = ModelChoice.model_validate({"name": base.model.name, "position": scheme})
            expect = Expect()
            family = base.model.name.removesuffix("-mini")
            runs[f"{family}-{scheme}"] = base.model_copy(update={"model": model, "expect": expect})
    return Study(
        "Swin and CSWin with each position encoding.",
        TOGETHER,
        runs,
    )


def images_pretrained_or_scratch() -> Study:
    """The same model on the same images, with pretrained or with random weights."""
    base = finetune_images().model_copy(update={"epochs": 40, "patience": 0})  # all runs are equally long
    scratch = base.model_copy(
        update={
            "model": base.model.model_copy(update={"from_scratch": True}),
            "learning_rate": 1e-3,  # higher and the same for all blocks, because there are no pretrained weights
            "layer_decay": 1.0,
        }
    )
    return Study(
        about="Pretrained weights or random ones: the same model on your images, three seeds each.",
        time="as long as six runs",
        runs={
            f"{label}-seed-{seed}": recipe.model_copy(update={"seed": seed})
            for label, recipe in (("pretrained", base), ("scratch", scratch))
            for seed in range(3)
        },
    )
