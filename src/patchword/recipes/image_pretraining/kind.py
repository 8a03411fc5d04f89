"""The recipe kind `image-pretraining`: a ViT that is trained on images without labels."""

from patchword.recipes.image.checks import check_images_of, contents_of, image_names
from patchword.recipes.image_pretraining.evaluation import evaluate_pretraining
from patchword.recipes.image_pretraining.recipe import ImagePretrainingRecipe
from patchword.recipes.image_pretraining.task import ImagePretrainingTask, build_task
from patchword.recipes.recipe_kind import RecipeKind
from patchword.training.guard.report import SampleNames


def _sample_names(task: ImagePretrainingTask) -> SampleNames:
    return image_names(task.recipe, task.train.images)


IMAGE_PRETRAINING = RecipeKind(
    recipe=ImagePretrainingRecipe,
    build_task=build_task,
    evaluate=evaluate_pretraining,
    check_data=check_images_of,
    contents=contents_of,
    sample_names=_sample_names,
    required_settings=ImagePretrainingRecipe.required_settings,
    metric=lambda recipe: "test error reduction",
    task="Pretraining",
)
