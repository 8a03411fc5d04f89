"""Options of `train` for the fields that are changed most, and hints for the names of other libraries."""

import pytest

import patchword
from patchword.cli.training.field_options import FIELDS, as_settings
from patchword.core.errors import UserError
from patchword.recipes import RECIPES, find_recipe
from patchword.studies import STUDIES
from support.material import TINY_MODEL


@pytest.mark.parametrize(
    ("recipe", "option", "setting"),
    [
        ("digits-vit", "--epochs", "epochs=3"),
        ("digits-vit", "--learning-rate", "learning_rate=3"),
        ("digits-vit", "--batch-size", "batch_size=3"),
        ("digits-vit", "--image-size", "model.image=3"),
        ("finetune-images", "--image-size", "model.image=3"),
        ("detr", "--image-size", "model.min_size=3"),
        ("segment-images", "--image-size", "crop=3"),
        ("digits-vit", "--data", "data=3"),
        ("classify-text", "--data", "train=3"),
        ("bert-pretrain", "--data", "text=3"),
        ("digits-vit", "--seed", "seed=3"),
        ("digits-vit", "--device", "device=3"),
        ("digits-vit", "--model", "model=3"),
    ],
)
def test_an_option_is_a_field(recipe, option, setting):
    assert as_settings(find_recipe(recipe), {option: "3"}, []) == [setting]


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_takes_the_options_but_image_size(name):
    options = [option for option in FIELDS if option != "--image-size"]
    assert len(as_settings(find_recipe(name), dict.fromkeys(options, "3"), [])) == len(options)


def test_a_recipe_without_images_has_no_image_size():
    with pytest.raises(UserError, match="a recipe of the kind text has no field for --image-size 3"):
        as_settings(find_recipe("classify-text"), {"--image-size": "3"}, [])


def test_an_option_must_not_contradict_a_setting(command):
    recipe = find_recipe("digits-vit")
    assert as_settings(recipe, {"--epochs": "3"}, [" epochs = 3"]) == ["epochs=3"]
    for typed in (["epochs=4"], ["--set", "epochs=4"]):
        code, _, message = command("train", "digits-vit", "--epochs", "3", *typed)
        assert (code, message.splitlines()[0]) == (2, "error: --epochs 3 contradicts epochs=4: expected one of them")


def test_a_wrong_value_has_the_message_of_the_field(command):
    code, _, message = command("train", "digits-vit", "--epochs", "many")
    assert (code, message) == (2, "error: recipe field 'epochs': expected a whole number, greater than 0, got many\n")


def test_a_run_is_trained_with_options(command):
    words = ["--epochs", "1", "--batch-size", "512", "--image-size", "4", "--seed", "7", "--name", "run"]
    code, _, message = command("train", "digits-vit", *words, *TINY_MODEL)
    assert code == 0, message
    recipe = patchword.Run("runs/run").recipe()
    assert (recipe.epochs, recipe.batch_size, recipe.seed) == (1, 512, 7)
    assert recipe.model.overrides()["image"] == 4


def test_a_study_takes_the_options():
    recipe = next(iter(STUDIES["fashion-mnist-families"]().runs.values()))
    assert as_settings(recipe, {"--epochs": "2"}, []) == ["epochs=2"]


def test_the_options_have_their_own_panel(command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    _, printed, _ = command("train", "--help")
    panel = printed.partition("Fields of the recipe, as options")[2].splitlines()[1:]
    rows = [line for line in panel if line.startswith("│")]
    assert (len(rows), {line.split()[1] for line in rows}) == (len(FIELDS), FIELDS.keys())


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("train digits-vit --lr 1", "--learning-rate"),
        ("train digits-vit --imgsz 1", "--image-size"),
        ("train digits-vit --img-size 1", "--image-size"),
        ("train digits-vit --batch 1", "--batch-size"),
        ("train digits-vit --bs 1", "--batch-size"),
        ("train digits-vit --num-epochs 1", "--epochs"),
        ("train digits-vit --wd 1", "give it as a field: weight_decay=VALUE"),
        ("train digits-vit --workers 1", "as many threads as"),
        ("train digits-vit --optimizer sgd", "AdamW"),
        ("train digits-vit --pretrained", "model=hf:OWNER/REPO"),
        ("bench vit-base-16 --batch 3", "--batch-size"),
        ("cost vit-base-16 --img-size 3", "--set image=VALUE"),
        ("recipes cat digits-vit --lr 3", "No such option: --lr"),
    ],
)
def test_an_option_of_another_library_gets_a_hint(command, words, hint):
    code, _, message = command(*words.split())
    assert code == 2
    assert hint in " ".join(message.replace("│", " ").split())


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        *(("lr", "'learning_rate'"), ("epoch", "'epochs'"), ("imgsz", "'model.image'"), ("img_size", "'model.image'")),
        *(("pretrained", "hf:OWNER/REPO"), ("batch", "'batch_size'"), ("workers", "threads"), ("optimizer", "AdamW")),
        *(("weights", "hf:OWNER/REPO"), ("num_classes", "comes from the data"), ("mixup", "'augmentation.mixup'")),
        *(("warmup_steps", "fraction of the run"), ("max_steps", "epochs=NUMBER"), ("gpus", "--processes NUMBER")),
    ],
)
def test_python_gives_the_same_hints(name, hint):
    with pytest.raises(UserError, match=f"a recipe has no field '{name}'") as caught:
        patchword.train("digits-vit", **{name: 1})
    assert hint in str(caught.value)


@pytest.mark.parametrize(
    ("recipe", "name", "meant"),
    [
        *(("detr", "imgsz", "model.min_size"), ("segment-images", "imgsz", "crop")),
        *(("classify-text", "data", "train"), ("bert-pretrain", "data", "text")),
        ("finetune-images", "img_size", "model.image"),
    ],
)
def test_a_hint_names_the_field_of_the_kind(recipe, name, meant):
    with pytest.raises(UserError, match=f"has no field '{name}'\ndid you mean '{meant}'"):
        find_recipe(recipe).with_settings([f"{name}=1"])


@pytest.mark.parametrize(
    ("field", "meant"),
    [("img_size", "image"), ("num_classes", "classes"), ("embed_dim", "width"), ("num_heads", "heads")],
)
def test_the_fields_of_a_model_get_hints(command, field, meant):
    with pytest.raises(UserError, match=f"model 'vit-tiny-16' has no field '{field}'\ndid you mean '{meant}'"):
        patchword.create("vit-tiny-16", **{field: 3})
    assert f"did you mean '{meant}'?" in command("cost", "vit-tiny-16", "--set", f"{field}=3")[2]
