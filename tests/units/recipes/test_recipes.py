import pytest
import torch
import yaml
from pydantic import BaseModel

from patchword.core.errors import UserError
from patchword.data.augmentation.augmentation import Augmentation
from patchword.data.image.named_datasets import DATASETS
from patchword.data.text.formats.glue import GLUE
from patchword.models import REGISTRY
from patchword.models.detection import create_detector
from patchword.models.segmentation import create_segmenter
from patchword.recipes import RECIPES, find_recipe
from patchword.recipes.detection.recipe import DetectionRecipe
from patchword.recipes.image.recipe import Augment, ImageDataRecipe, ImageRecipe
from patchword.recipes.kinds import KINDS
from patchword.recipes.schema.reading import read_recipe, recipe_from
from patchword.recipes.schema.recipe import field_names
from patchword.recipes.segmentation.recipe import SegmentationRecipe
from patchword.recipes.text.recipe import TextRecipe
from patchword.recipes.train import build_task
from support.material import silent

BASE = ImageRecipe()
OF_IMAGES = [name for name in RECIPES if isinstance(find_recipe(name), ImageDataRecipe)]
FROM_WEIGHTS = "finetune-images"  # its model is the user's
OF_OBJECTS = [name for name in RECIPES if isinstance(find_recipe(name), DetectionRecipe)]
OF_PIXELS = [name for name in RECIPES if isinstance(find_recipe(name), SegmentationRecipe)]
OF_TEXTS = [name for name in RECIPES if name not in (*OF_IMAGES, *OF_OBJECTS, *OF_PIXELS)]


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_can_be_built_written_and_read(name, tmp_path):
    recipe = find_recipe(name)
    assert recipe.about
    if name in OF_OBJECTS:
        with torch.device("meta"):
            create_detector(recipe.model.name, **recipe.model.overrides())
    elif name in OF_PIXELS:
        with torch.device("meta"):
            create_segmenter(recipe.model.name, **recipe.model.overrides())
    elif name != FROM_WEIGHTS:
        assert REGISTRY.reads_images(recipe.model.name) == (name in OF_IMAGES)
        REGISTRY.configure(recipe.model.name, recipe.model.overrides())
    path = tmp_path / "recipe.yaml"
    path.write_text(recipe.to_yaml())
    assert read_recipe(path) == recipe
    assert read_recipe(path).to_yaml() == recipe.to_yaml()


@pytest.mark.parametrize("name", [name for name in OF_IMAGES if name != FROM_WEIGHTS])
def test_a_recipe_of_images_has_a_set_and_a_size_that_fits(name):
    recipe = find_recipe(name)
    config = REGISTRY.configure(recipe.model.name, recipe.model.overrides())
    assert config.image % getattr(config, "patch", 1) == 0
    assert recipe.data in {*DATASETS, "digits", "images"}


@pytest.mark.parametrize("name", OF_TEXTS)
def test_a_recipe_of_texts_fits_its_model_and_waits_for_files(name):
    recipe = find_recipe(name)
    config = REGISTRY.configure(recipe.model.name, recipe.model.overrides())
    if hasattr(recipe, "length") and hasattr(config, "max_length"):
        assert recipe.length <= config.max_length
    assert not (recipe.train if hasattr(recipe, "train") else recipe.text)
    assert recipe.expect.accuracy == 0  # it depends on the texts


def test_there_is_a_recipe_for_every_task_on_texts():
    assert {"bert-pretrain", "classify-text", "tag", "squad"} <= set(OF_TEXTS)
    assert {find_recipe(f"glue-{task}").glue for task in GLUE} == set(GLUE)
    tasks = {recipe.task for name in OF_TEXTS if isinstance(recipe := find_recipe(name), TextRecipe)}
    assert tasks == {"classes", "number", "tags", "span"}  # several labels are a setting of classify-text


def test_files_of_a_pretraining_are_listed_with_commas():
    recipe = find_recipe("bert-pretrain").with_settings(["text=one.txt, two"])
    assert recipe.text == ("one.txt", "two")
    assert recipe_from(yaml.safe_load(recipe.to_yaml())) == recipe


def test_files_are_named_by_their_whole_paths(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("train.csv", "words"):
        (tmp_path / name).touch()
    recipe = find_recipe("classify-text").with_settings(["train=train.csv", "tokenizer=words", "validation=0.2"])
    located = recipe.located()
    assert (located.train, located.tokenizer) == (str(tmp_path / "train.csv"), str(tmp_path / "words"))
    assert (located.validation, located.test, located.model.name) == ("0.2", "", "bert-mini")
    assert located.located() == located


@pytest.mark.parametrize("name", [name for name in OF_IMAGES if find_recipe(name).data != "images"])
def test_a_recipe_of_a_known_set_says_what_to_expect(name):
    recipe = find_recipe(name)
    assert recipe.expect.accuracy > 0.5
    assert "minute" in recipe.expect.time


def test_the_exercise_is_left_as_it_was_set():
    for name in ("fashion-mnist-vit", "fashion-mnist-vit-short"):
        recipe = find_recipe(name)
        assert (recipe.model.name, recipe.model.overrides(), recipe.data) == ("vit-exercise", {}, "fashion-mnist")


def test_the_yaml_has_every_field():
    values = yaml.safe_load(BASE.to_yaml())
    assert values.keys() == ImageRecipe.model_fields.keys()


def test_a_recipe_without_fields_is_the_default():
    assert recipe_from({}) == BASE
    assert recipe_from({"model": "vit-tiny-16"}).model.name == "vit-tiny-16"


def test_the_fields_of_augmentation_are_those_of_its_code():
    assert Augment.model_fields.keys() == Augmentation.__dataclass_fields__.keys()
    assert Augmentation(**Augment().model_dump()) == Augmentation()


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("epochs=3", 3),
        ("epochs= 3", 3),
        (" epochs =3", 3),
        ("learning_rate=1e-3", 1e-3),
        ("learning_rate=2E-4", 2e-4),
        ("learning_rate=0.5", 0.5),
        ("learning_rate=1", 1.0),
        ("augmentation.flip=0.25", 0.25),
        ("augmentation.shift=2", 2),
        ("expect.time=2 minutes", "2 minutes"),
        ("data=my/pictures", "my/pictures"),
        ("data=C:/pictures=old", "C:/pictures=old"),
        ("data=3d-shapes", "3d-shapes"),
        ("device=cuda:1", "cuda:1"),
        ("compile=true", True),
        ("precision=bfloat16", "bfloat16"),
        ("save_minutes=0", 0.0),
        ("about=the best, at last", "the best, at last"),
    ],
)
def test_a_field_is_set(setting, value):
    found = BASE.with_settings([setting])
    for part in setting.split("=")[0].strip().split("."):
        found = getattr(found, part)
    assert found == value
    assert type(found) is type(value)


def test_the_model_is_set_by_its_name_and_its_fields():
    recipe = BASE.with_settings(["model.depth=2", "model=vit-tiny-16", "model.image=[32, 64]", "model.drop_path=1e-1"])
    assert recipe.model.name == "vit-tiny-16"
    assert recipe.model.overrides() == {"depth": 2, "image": [32, 64], "drop_path": 0.1}
    assert REGISTRY.configure(recipe.model.name, recipe.model.overrides()).image == (32, 64)


def test_the_last_setting_counts_and_the_base_stays():
    assert BASE.with_settings(["epochs=3", "epochs=4"]).epochs == 4
    assert ImageRecipe() == BASE


@pytest.mark.parametrize("data", ["2024", "1e5", "on"])
def test_a_folder_may_be_called_anything(data):
    assert BASE.with_settings([f"data={data}"]).data == data


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("epoch=3", r"a recipe has no field 'epoch'\ndid you mean 'epochs'"),
        ("augmentation.flop=1", r"has no field 'augmentation\.flop'\ndid you mean 'augmentation\.flip'"),
        ("augment.flip=1", r"has no field 'augment'\ndid you mean 'augmentation"),
        ("epochs=many", r"recipe field 'epochs': expected a whole number, greater than 0, got many$"),
        ("epochs=1.5", r"recipe field 'epochs': expected a whole number, .*, got 1\.5$"),
        ("epochs=0", r"recipe field 'epochs': .*greater than 0, got 0$"),
        ("epochs=", r"recipe field 'epochs': .*, got ''$"),
        (f"epochs={10**20}", r"recipe field 'epochs': expected at most 281,474,976,710,656, got 1000"),
        (f"batch_size={10**20}", r"recipe field 'batch_size': expected at most 281,474,976,710,656"),
        ("learning_rate=-1e-3", r"recipe field 'learning_rate': expected a number, greater than 0, got -1e-3$"),
        ("learning_rate=nan", r"recipe field 'learning_rate'"),
        ("validation=1", r"recipe field 'validation': expected a number, greater than 0 and less than 1, got 1$"),
        ("validation=0", r"recipe field 'validation': .*greater than 0"),
        ("augmentation.flip=2", r"recipe field 'augmentation\.flip': .*0 or more and 1 at most, got 2$"),
        ("augmentation=3", r"recipe field 'augmentation': expected none, light, deit, .*, or fields: flip, .* got 3$"),
        ("precision=half", r"recipe field 'precision': expected auto or float32 or bfloat16, got half$"),
        ("device=foo", r"recipe field 'device': expected auto, cpu, cuda \(cuda:1 is the second\) or mps, got foo$"),
        ("compile=perhaps", r"recipe field 'compile': expected true or false, got perhaps$"),
        ("model=", r"recipe field 'model\.name'"),
        ("epochs", r"cannot set 'epochs': expected field=value, e\.g\. epochs=3"),
        ("epochs.most=3", r"recipe field 'epochs' has no inner fields: got epochs\.most"),
        ("=3", r"a recipe has no field ''"),
        ("data=", r"recipe field 'data': expected a text, not empty, got ''$"),
        ("drop_path=0.1", r"a recipe has no field 'drop_path'\ndid you mean 'model\.drop_path'"),
        (
            "activation_checkpointing=maybe",
            r"recipe field 'activation_checkpointing': expected true, false, or stages such as \[0, 1\], got maybe",
        ),
        ("activation_checkpointing=[-1]", r"recipe field 'activation_checkpointing': expected true, false, or stages"),
    ],
)
def test_a_wrong_setting_is_explained(setting, message):
    with pytest.raises(UserError, match=message):
        BASE.with_settings([setting])


def test_an_infinite_rate_is_refused():
    with pytest.raises(UserError, match="recipe field 'learning_rate'"):
        BASE.with_settings(["learning_rate=inf"])


def test_an_unknown_field_of_the_model_names_the_nearest():
    recipe = BASE.with_settings(["model.dept=2"])
    with pytest.raises(UserError, match=r"model 'vit-exercise' has no field 'dept'\ndid you mean 'depth'"):
        REGISTRY.configure(recipe.model.name, recipe.model.overrides())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("epochs: [1", r"cannot read the recipe .*recipe\.yaml: got "),
        (b"\xff\xfe", r"cannot read the recipe"),
        ("- epochs", r"is not a recipe: expected YAML with fields, got list"),
        ("", r"is not a recipe: expected YAML with fields, got NoneType"),
        ("epochs: !!python/object/apply:os.system ['true']", r"cannot read the recipe"),
        ("batches: 3", r"has no field 'batches'\ndid you mean 'batch_size'"),
        ("1: 2", r"recipe"),
        (None, r"cannot read the recipe .*: got .*No such file"),
    ],
)
def test_a_wrong_file_is_explained(tmp_path, text, message):
    path = tmp_path / "recipe.yaml"
    if text is not None:
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(UserError, match=message):
        read_recipe(path)


def test_an_unknown_recipe_names_the_nearest():
    with pytest.raises(UserError, match=r"no recipe is called 'fashion-mnist'\ndid you mean 'fashion-mnist-vit'"):
        find_recipe("fashion-mnist")


def test_field_names_reach_inside():
    names = field_names(ImageRecipe)
    assert {"epochs", "augmentation.flip", "expect.accuracy", "model"} <= set(names)
    assert "augmentation" not in names


def test_another_model_brings_its_own_sizes():
    recipe = find_recipe("image-folder-vit").with_settings(["model=resnet-18", "data=mine"])
    assert (recipe.model.name, recipe.model.overrides()) == ("resnet-18", {})
    assert find_recipe("image-folder-vit").with_settings(["model=vit-tiny-16"]).model.overrides()["depth"] == 6


def test_a_changed_recipe_does_not_expect_what_the_old_one_gave():
    recipe = find_recipe("fashion-mnist-swin")
    assert recipe.with_settings(["device=cpu", "compile=true"]).expect == recipe.expect
    assert recipe.with_settings(["epochs=30"]).expect == recipe.expect
    assert recipe.with_settings(["epochs=1"]).expect.accuracy == 0
    assert recipe.with_settings(["epochs=1", "expect.accuracy=0.5"]).expect.accuracy == 0.5


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_every_field_has_a_description(kind):
    def without(model, outer=""):
        for name, field in model.model_fields.items():
            if not field.description:
                yield f"{outer}{name}"
            if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
                yield from without(field.annotation, f"{outer}{name}.")

    assert list(without(kind.recipe)) == []


@pytest.mark.parametrize(
    ("name", "why"), [("translation", "have other architectures"), ("elmo-pretrain", ".hdf5 file")]
)
def test_recipes_whose_models_are_not_on_the_hub_refuse_its_names(name, why):
    recipe = find_recipe(name).with_settings(["model=hf:maker/model"])
    with pytest.raises(UserError, match="this recipe takes no models of the hub") as caught:
        build_task(recipe, silent())
    assert why in str(caught.value)
