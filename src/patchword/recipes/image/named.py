"""The named recipes of image classification."""

from collections.abc import Callable

from patchword.recipes.distillation.fields import ImageTeacher
from patchword.recipes.image.recipe import YOUR_IMAGES, YOUR_TEACHER, YOUR_WEIGHTS, Augment, ImageRecipe
from patchword.recipes.schema.recipe import Expect, ModelChoice, Recipe


def fashion_mnist_vit() -> Recipe:
    """The exercise: a ViT of 4 layers, 4 heads, 4 x 4 patches and width 64 on Fashion-MNIST, trained to its best."""
    return ImageRecipe(
        about="The Fashion-MNIST exercise, trained to its best.",
        expect=Expect(accuracy=0.92, time="3 minutes on one H200 (2 with compile=true), 7 hours on 2 CPU cores"),
        model=ModelChoice(name="vit-exercise"),
        data="fashion-mnist",
        validation=0.05,
        augmentation=Augment(flip=0.5, shift=2),
        epochs=150,
        batch_size=512,
        learning_rate=2e-3,
        weight_decay=0.05,
        label_smoothing=0.1,
        ema_decay=0.999,
        precision="float32",  # at this size a GPU waits for instructions, not for arithmetic
    )


def fashion_mnist_vit_short() -> Recipe:
    """The exercise in minutes on a laptop: the same model, two passes over the data."""
    return ImageRecipe(
        about="The Fashion-MNIST exercise in minutes on a laptop.",
        expect=Expect(accuracy=0.84, time="about 5 minutes on 2 CPU cores"),
        model=ModelChoice(name="vit-exercise"),
        data="fashion-mnist",
        validation=0.05,
        epochs=2,
        batch_size=64,
        learning_rate=2e-3,
        weight_decay=0.05,
    )


def fashion_mnist_teacher() -> Recipe:
    """A ResNet of 2.8 million parameters on Fashion-MNIST, which teaches smaller models."""
    return ImageRecipe(
        about="A ResNet on Fashion-MNIST that teaches smaller models.",
        expect=Expect(accuracy=0.949, time="5 minutes on one H200 that 18 other runs share"),
        model=ModelChoice.model_validate({"name": "resnet-mini", "width": 64}),
        data="fashion-mnist",
        validation=0.05,
        augmentation=Augment(flip=0.5, shift=2, random_erasing=0.5, erasing_fill="pixel"),
        epochs=40,
        batch_size=512,
        learning_rate=2e-3,
        weight_decay=0.05,
        ema_decay=0.998,
    )


def fashion_mnist_distilled() -> Recipe:
    """The exercise's ViT, distilled from one or more teachers (--set teacher=RUN,RUN)."""
    return ImageRecipe(
        about="The Fashion-MNIST exercise, distilled from teachers.",
        expect=Expect(accuracy=0.944, time="8 minutes on one H200 that 12 other runs share"),
        model=ModelChoice(name="vit-exercise"),
        data="fashion-mnist",
        validation=0.05,
        augmentation=Augment(flip=0.5, shift=2, mixup=1.0, mix_probability=0.5),
        teacher=ImageTeacher(name=YOUR_TEACHER, kind="soft", temperature=2.0, share=0.9),
        epochs=275,
        batch_size=1024,
        learning_rate=4e-3,
        weight_decay=0.05,
        ema_decay=0.999,
    )


def digits_vit() -> Recipe:
    """A small real set that needs no download: the 8 x 8 digits of scikit-learn, in a minute."""
    return ImageRecipe(
        about="The exercise's model on the digits of scikit-learn.",
        expect=Expect(accuracy=0.93, time="a minute on 2 CPU cores"),
        model=ModelChoice.model_validate({"name": "vit-exercise", "image": 8, "patch": 2}),
        data="digits",
        epochs=40,
        batch_size=32,
        learning_rate=2e-3,
    )


def image_folder_vit() -> Recipe:
    """Your own images: a folder with one sub-folder per class, or a CSV of paths and labels (--set data=...)."""
    return ImageRecipe(
        about="A small ViT from scratch on your own images.",
        model=ModelChoice.model_validate({"name": "vit-tiny-16", "image": 64, "patch": 8, "depth": 6}),
        data=YOUR_IMAGES,
        augmentation=Augment(flip=0.5, shift=4, random_erasing=0.25),
        epochs=50,
        batch_size=64,
        learning_rate=1e-3,
        label_smoothing=0.1,
        patience=10,
    )


def finetune_images() -> Recipe:
    """Your own images, from trained weights: a run, a model folder or a file of weights (model=... data=...)."""
    return ImageRecipe(
        about="Fine-tunes trained weights on your own images.",
        model=ModelChoice(name=YOUR_WEIGHTS),
        data=YOUR_IMAGES,
        augmentation=Augment(flip=0.5, crop=0.5),
        epochs=20,
        batch_size=32,
        learning_rate=2e-4,
        weight_decay=0.05,
        layer_decay=0.75,
        label_smoothing=0.1,
        patience=5,
    )


def on_fashion_mnist(about: str, model: str, accuracy: float) -> Recipe:
    """All families have the same budget: the same images, epochs, batch size, learning rate and augmentation."""
    return ImageRecipe(
        about=about,
        expect=Expect(accuracy=accuracy, time="1 to 2 minutes on one H200, estimated from 6 epochs"),
        model=ModelChoice(name=model),
        data="fashion-mnist",
        validation=0.05,
        augmentation=Augment(flip=0.5, shift=2),
        epochs=30,
        batch_size=512,
        learning_rate=2e-3,
        weight_decay=0.05,
        label_smoothing=0.1,
        ema_decay=0.998,
        precision="float32",
    )


def fashion_mnist_deit() -> Recipe:
    """DeiT on Fashion-MNIST, without its teacher."""
    return on_fashion_mnist("A small DeiT on Fashion-MNIST, without its teacher.", "deit-mini", 0.875)


def fashion_mnist_swin() -> Recipe:
    """Swin on Fashion-MNIST: windows of 7 x 7 on 14 x 14 tokens."""
    return on_fashion_mnist("A small Swin on Fashion-MNIST.", "swin-mini", 0.88)


def fashion_mnist_cvt() -> Recipe:
    """CvT on Fashion-MNIST."""
    return on_fashion_mnist("A small CvT on Fashion-MNIST.", "cvt-mini", 0.9)


def fashion_mnist_cswin() -> Recipe:
    """CSWin on Fashion-MNIST: stripes of 2 on 14 x 14 tokens."""
    return on_fashion_mnist("A small CSWin on Fashion-MNIST.", "cswin-mini", 0.9)


def fashion_mnist_pale() -> Recipe:
    """Pale on Fashion-MNIST: pales of 7 rows and 7 columns on 14 x 14 tokens."""
    return on_fashion_mnist("A small Pale Transformer on Fashion-MNIST.", "pale-mini", 0.905)


def fashion_mnist_pvt() -> Recipe:
    """PVT on Fashion-MNIST."""
    return on_fashion_mnist("A small PVT on Fashion-MNIST.", "pvt-mini", 0.87)


def fashion_mnist_mixer() -> Recipe:
    """Mixer on Fashion-MNIST."""
    return on_fashion_mnist("A small Mixer on Fashion-MNIST.", "mixer-mini", 0.89)


def fashion_mnist_resnet() -> Recipe:
    """ResNet on Fashion-MNIST."""
    return on_fashion_mnist("A small ResNet on Fashion-MNIST.", "resnet-mini", 0.925)


def fashion_mnist_regnety() -> Recipe:
    """RegNetY on Fashion-MNIST."""
    return on_fashion_mnist("A small RegNetY on Fashion-MNIST.", "regnety-mini", 0.925)


FAMILIES: tuple[Callable[[], Recipe], ...] = (
    fashion_mnist_deit,
    fashion_mnist_swin,
    fashion_mnist_cvt,
    fashion_mnist_cswin,
    fashion_mnist_pale,
    fashion_mnist_pvt,
    fashion_mnist_mixer,
    fashion_mnist_resnet,
    fashion_mnist_regnety,
)
