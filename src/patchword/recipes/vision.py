"""Recipes for pictures."""

from patchword.recipes.recipe import Augment, Expect, ModelChoice, Recipe


def fashion_mnist_vit() -> Recipe:
    """The exercise: a ViT of 4 layers, 4 heads, 4 x 4 patches and width 64 on Fashion-MNIST, trained to its best."""
    return Recipe(
        about="The Fashion-MNIST exercise, trained to its best.",
        expect=Expect(accuracy=0.92, time="3 minutes on one H200 (2 with compile=true), 7 hours on 2 CPU cores"),
        model=ModelChoice(name="vit-exercise"),
        data="fashion-mnist",
        validation=0.05,
        augmentation=Augment(flip=0.5, shift=2),
        epochs=150,
        batch=512,
        rate=2e-3,
        decay=0.05,
        smoothing=0.1,
        average=0.999,
        precision="float32",  # at this size a GPU waits for instructions, not for arithmetic
    )


def fashion_mnist_vit_short() -> Recipe:
    """The exercise in minutes on a laptop: the same model, two passes over the data."""
    return Recipe(
        about="The Fashion-MNIST exercise in minutes on a laptop.",
        expect=Expect(accuracy=0.84, time="about 5 minutes on 2 CPU cores"),
        model=ModelChoice(name="vit-exercise"),
        data="fashion-mnist",
        validation=0.05,
        epochs=2,
        batch=64,
        rate=2e-3,
        decay=0.05,
    )


def digits_vit() -> Recipe:
    """A small real set that needs no download: the 8 x 8 digits of scikit-learn, in a minute."""
    return Recipe(
        about="The exercise's model on the digits that scikit-learn carries.",
        expect=Expect(accuracy=0.93, time="a minute on 2 CPU cores"),
        model=ModelChoice.model_validate({"name": "vit-exercise", "image": 8, "patch": 2}),
        data="digits",
        epochs=40,
        batch=32,
        rate=2e-3,
    )


def image_folder_vit() -> Recipe:
    """Your own pictures: a folder with one sub-folder a class, or a CSV of paths and labels (--set data=...)."""
    return Recipe(
        about="A small ViT from scratch on your own pictures.",
        model=ModelChoice.model_validate({"name": "vit-tiny-16", "image": 64, "patch": 8, "depth": 6}),
        data="pictures",
        augmentation=Augment(flip=0.5, shift=4, erase=0.25),
        epochs=50,
        batch=64,
        rate=1e-3,
        smoothing=0.1,
        patience=10,
    )
