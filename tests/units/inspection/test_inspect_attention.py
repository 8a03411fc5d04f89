"""attend and robustness: what a user types, what is written, what is refused."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file

import patchword
from patchword.core.text import Text
from patchword.inspection.attention import look
from patchword.inspection.attention_options import AttentionOptions
from patchword.inspection.attention_texts import TextAttention, TextLayerLook
from patchword.inspection.robustness import Plan, Robustness, known_robustness, robustness
from patchword.layers import record_attention
from patchword.recipes.run import Run
from patchword.recipes.run_folders.verification import reseal
from patchword.reports.attention.text_figures import text_figures
from support.helpers import tiny_text
from support.material import everything_below, write_picture
from support.tiny_texts import vocabulary_of


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def arrays(path: Path) -> dict[str, np.ndarray]:
    with np.load(path, allow_pickle=False) as found:
        return dict(found)


# attend


def test_everything_of_a_picture_goes_into_a_folder(command, trained):
    code, output, complaint = command("attention", trained, write_picture(Path("a.png")), "--out", "seen")
    assert (code, complaint) == (0, "")
    assert "mean distance (pixels)" in output
    names = {f"{name}.{kind}" for name in ("maps", "rollout", "relevance", "distance") for kind in ("png", "svg")}
    assert {path.name for path in Path("seen").iterdir()} == names | {"attention.npz"}
    for path in Path("seen").glob("*.png"):
        with Image.open(path) as picture:
            assert min(picture.size) > 300
    found = arrays(Path("seen/attention.npz"))
    assert found["image"].shape == (1, 8, 8)
    assert found["layer_02_maps"].shape == (2, 2, 2)  # two heads, patches of 4 x 4
    assert found["layer_01_distance"].shape == (2,)
    assert found["rollout"].shape == found["relevance"].shape == (2, 2)
    assert "layer_01_weights" not in found
    svg = Path("seen/distance.svg").read_text()
    assert "mean attention distance (pixels)" in svg
    assert "layer (number)" in svg


def test_one_head_asked_by_one_pixel_as_one_picture_or_as_arrays(command, trained):
    picture = write_picture(Path("a.png"))
    words = ("--layer", 2, "--head", 1, "--at", "7,0")
    assert command("attention", trained, picture, *words, "--out", "head.svg")[0] == 0
    assert "layer 2, head 1: attention from the patch at x = 7, y = 0" in Path("head.svg").read_text()
    assert command("attention", trained, picture, *words, "--out", "head.npz")[0] == 0
    found = arrays(Path("head.npz"))
    weights = found["layer_02_weights"]  # (heads, queries, keys); the patch above on the right is token 2
    assert weights.shape == (1, 5, 5)
    assert np.allclose(found["layer_02_maps"][0].flatten(), weights[0, 2, 1:], atol=1e-6)


def test_the_mean_over_test_pictures_is_that_of_each(trained):
    run = Run(trained)
    model = run.model()
    batch = run.test_images(model.card).pixels.take(torch.arange(20))  # more than go at once
    whole = look(model, batch, AttentionOptions())
    ones = [look(model, batch[index : index + 1], AttentionOptions()) for index in range(20)]
    assert whole.images == 20
    for mean, each in [
        (whole.rollout, [one.rollout for one in ones]),
        (whole.relevance, [one.relevance for one in ones]),
        (whole.layers[1].maps, [one.layers[1].maps for one in ones]),
        (whole.layers[1].distance, [one.layers[1].distance for one in ones]),
    ]:
        assert torch.allclose(mean.float(), torch.stack(each).mean(0).float(), atol=1e-5)


def test_the_mean_over_a_set_is_told_as_json(command, trained):
    words = ("--data", "test", "--count", 30, "--distance", "--out", "far", "--json")
    code, output, _ = command("attention", trained, *words)
    answer = json.loads(output)
    assert code == 0
    assert [len(layer["distance_pixels"]) for layer in answer["layers"]] == [2, 2]
    assert answer["files"] == ["far/distance.png", "far/distance.svg", "far/attention.npz"]
    assert "mean over 30 images" in Path("far/distance.svg").read_text()


@pytest.mark.parametrize("name", ["swin-mini", "cswin-mini", "pvt-mini", "cvt-mini", "pale-mini"])
def test_a_registry_name_of_every_shape(command, name):
    assert command("attention", name, write_picture(Path("a.png")), "--rollout", "--out", "a.npz")[0] == 0
    assert arrays(Path("a.npz"))["rollout"].shape == (14, 14)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["RUN", "none.png"], "there is no image none.png"),
        (["RUN", "words.txt"], "cannot read the image words.txt"),
        (["RUN", "half.png"], "cannot read the image half.png"),
        (["RUN", "folder.png"], "folder.png is a folder"),
        (["RUN", "a.png", "--pair", "a text"], "reads images: expected no --pair"),
        (["RUN", "a.png", "--data", "test"], "two inputs"),
        (["RUN", "a.png", "--out", "words.txt/seen"], "cannot write into"),
        (["RUN"], "no image to inspect"),
        (["RUN", "a.png", "--layer", "3"], "there is no layer 3: expected 1 to 2"),
        (["RUN", "a.png", "--layer", "1", "--head", "3"], "there is no head 3: expected 1 to 2 of layer 1"),
        (["RUN", "a.png", "--at", "8,0"], "outside of the image: expected x from 0 to 7"),
        (["RUN", "a.png", "--at", "one"], "cannot read --at"),
        (["RUN", "a.png", "--relevance", "ten"], "no class 'ten'"),
        (["RUN", "a.png", "--out", "a.gif"], "ends in .png, .svg or .npz"),
        (["RUN", "a.png", "--rollout", "--distance", "--out", "one.png"], "one.png holds one figure"),
        (["RUN", "--data", "train"], "expected --data test"),
        (["mixer-mini", "a.png"], "'mixer-mini' has no attention"),
        (["resnet-mini", "a.png"], "'resnet-mini' has no attention"),
        (["vit-exercise", "--data", "test"], "vit-exercise is not a run"),
        (["bert-tiny", "a text"], "a model of the registry has no trained weights"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_mistakes_are_told_and_nothing_is_written(command, trained, words, message):
    write_picture(Path("a.png"))
    Path("words.txt").write_text("no picture")
    Path("half.png").write_bytes(Path("a.png").read_bytes()[:60])
    Path("folder.png").mkdir()
    before = everything_below(Path.cwd())
    code, output, complaint = command("attention", *(trained if word == "RUN" else word for word in words))
    assert (code, output) == (2, "")
    assert message in complaint
    assert everything_below(Path.cwd()) == before


def test_a_run_without_its_data_is_told(command, mine):
    recipe = mine / "recipe.yaml"
    recipe.write_text(recipe.read_text().replace("data: digits", "data: gone"))
    reseal(mine)
    for words in (("attention", mine, "--data", "test"), ("robustness", mine)):
        code, _, complaint = command(*words)
        assert code == 2
        assert "there is no data set 'gone'" in complaint


# robustness


def test_robustness_writes_its_figures_into_the_run_and_the_report(command, mine):
    assert command("evaluate", mine)[0] == 0
    words = ("--kinds", "contrast,noise", "--severities", "1,5", "--sizes", "8,12", "--count", "100")
    code, output, complaint = command("robustness", mine, *words)
    assert (code, complaint) == (0, "")
    assert re.search(r"contrast +[\d.]+ +[\d.]+ +[\d.]+\n", output)
    assert "mean corruption accuracy" in output
    kept = json.loads((mine / "robustness.json").read_text())
    assert list(kept["corrupted"]) == ["gaussian", "shot", "impulse", "contrast"]
    assert list(kept["corrupted"]["shot"]) == ["1", "5"]
    assert kept["images"] == 100
    assert kept["sizes"]["8"] == kept["clean_accuracy"]
    means = [sum(row.values()) / 2 for row in kept["corrupted"].values()]
    assert kept["mean_corruption_accuracy"] == pytest.approx(sum(means) / 4)
    for name in ("robustness.png", "robustness.svg", "resolution.png", "corruptions.png"):
        assert (mine / name).stat().st_size > 1000
    report = (mine / "report.html").read_text()
    assert '<section id="robustness">' in report
    assert "mean corruption accuracy" in report
    assert "severity (1 to 5)" in (mine / "robustness.svg").read_text()


@pytest.mark.usefixtures("unpainted")
def test_robustness_is_the_same_twice_and_its_clean_accuracy_is_that_of_evaluate(command, mine):
    plan = Plan(("impulse", "fog"), (5,))
    first, second = (robustness(Run(mine), plan, "cpu") for _ in range(2))
    assert first == second == known_robustness(Run(mine))
    assert command("evaluate", mine)[0] == 0
    assert first.clean == pytest.approx(json.loads((mine / "evaluation.json").read_text())["accuracy"])


def test_robustness_of_an_earlier_version_is_read(mine):
    saved = {"clean_accuracy": 0.5, "pictures": 100, "seed": 3, "corrupted": {"fog": {"5": 0.25}}, "sizes": {}}
    (mine / "robustness.json").write_text(json.dumps(saved))
    assert known_robustness(Run(mine)) == Robustness(0.5, 100, 3, {"fog": {5: 0.25}}, {})


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--kinds", "fogg"], r"no corruption is called 'fogg'\n.*'fog'"),
        (["--severities", "0-3"], r"cannot read --severities: expected numbers from 1 to 5"),
        (["--severities", "five"], r"cannot read --severities"),
        (["--kinds", "none"], r"nothing to measure: expected some --kinds, or --sizes"),
        (["--sizes", "9"], r"9 x 9 cannot be cut into patches of 4 x 4"),
    ],
)
def test_robustness_refuses(command, mine, words, message):
    before = everything_below(mine)
    code, output, complaint = command("robustness", mine, *words)
    assert (code, output) == (2, "")
    assert re.search(message, complaint)
    assert everything_below(mine) == before


@pytest.mark.usefixtures("unpainted")
def test_what_is_not_tried_again_stays_while_the_weights_are_the_same(command, mine):
    assert command("evaluate", mine)[0] == 0
    assert command("robustness", mine, "--kinds", "fog", "--severities", "2", "--count", "50")[0] == 0
    fog = json.loads((mine / "robustness.json").read_text())["corrupted"]
    assert command("robustness", mine, "--kinds", "none", "--sizes", "12", "--count", "50")[0] == 0
    both = json.loads((mine / "robustness.json").read_text())
    assert (both["corrupted"], list(both["sizes"])) == (fog, ["12"])
    assert command("robustness", mine, "--kinds", "none", "--sizes", "12", "--count", "40")[0] == 0  # other pictures
    assert json.loads((mine / "robustness.json").read_text())["corrupted"] == {}
    weights = load_file(mine / "model.safetensors")
    save_file({name: tensor * 1.5 for name, tensor in weights.items()}, mine / "model.safetensors")
    reseal(mine)
    assert command("evaluate", mine)[0] == 0
    assert "changed after its robustness was measured" in (mine / "report.html").read_text()


def test_a_model_that_is_no_run_is_told(command):
    patchword.save(patchword.create("vit-exercise"), Path("model"))
    assert "is not a run" in command("robustness", "model")[2]


# Texts


@pytest.fixture
def words(tmp_path) -> Path:
    """A model of texts with a class head, and its tokenizer."""
    tokenizer = vocabulary_of(["the", "film", "was", "good"], tmp_path / "words")
    model = tiny_text(vocabulary=tokenizer.vocabulary, head="classes", classes=3)
    patchword.save(model, tmp_path / "words")
    return tmp_path / "words"


def test_a_text_is_looked_at_token_by_token(command, words):
    code, output, complaint = command("attention", words, "The film was good", "--out", "seen")
    assert (code, complaint) == (0, "")
    assert "mean distance (tokens)" in output
    found = arrays(Path("seen/attention.npz"))
    assert found["tokens"].tolist() == ["[CLS]", "the", "film", "was", "good", "[SEP]"]
    assert found["layer_02_weights"].shape == (4, 6, 6)
    assert np.allclose(found["layer_02_weights"].sum(-1), 1, atol=1e-5)
    assert np.allclose(found["rollout"].sum(-1), 1, atol=1e-5)
    assert found["relevance"].shape == (6,)
    with torch.no_grad(), record_attention(model := patchword.load(words)) as maps:
        model(Text(torch.tensor([[2, 5, 6, 7, 8, 3]])))
    half = [0.5 * maps[layer].weights[0].mean(0) + 0.5 * torch.eye(6) for layer in (0, 1)]
    assert np.allclose(found["rollout"], half[1] @ half[0], atol=1e-5)
    assert np.allclose(found["layer_01_weights"], maps[0].weights[0], atol=1e-6)


def test_one_layer_of_a_text_has_the_lines_of_its_heads(command, words):
    options = ("--layer", 1, "--head", 2, "--out", "one")
    assert command("attention", words, "the film", "--pair", "was good", *options)[0] == 0
    assert {path.name for path in Path("one").glob("*.svg")} == {"maps.svg", "heads.svg"}
    assert "query token" in Path("one/heads.svg").read_text()
    assert arrays(Path("one/attention.npz"))["layer_01_weights"].shape == (1, 7, 7)
    assert command("attention", words, "the film", "--layer", 1, "--out", "all")[0] == 0
    assert "panel's largest" in Path("all/maps.svg").read_text()


def test_special_tokens_are_hidden_in_figures_and_kept_in_arrays(command, words):
    options = ("--layer", 1, "--head", 2, "--hide-special", "--out", "one")
    assert command("attention", words, "the film", *options)[0] == 0
    svg = Path("one/maps.svg").read_text()
    assert "film" in svg
    assert "[CLS]" not in svg
    assert arrays(Path("one/attention.npz"))["layer_01_weights"].shape == (1, 4, 4)


def test_special_tokens_belong_to_texts(command, trained):
    code, _, complaint = command("attention", trained, write_picture(Path("a.png")), "--hide-special")
    assert code == 2
    assert "expected no --hide-special" in complaint


def test_the_lines_of_heads_that_look_alike_do_not_hide_each_other():
    weights = torch.eye(3).expand(4, 3, 3)
    seen = TextAttention("model", ("a", "b", "c"), (TextLayerLook(1, (1, 2, 3, 4), weights, torch.zeros(4)),))
    lines = text_figures(seen, ["maps"])["heads"].axes[0].collections
    starts = [float(line.get_segments()[0][0][1]) for line in lines]
    assert len(set(starts)) == 4
    assert max(map(abs, starts)) < 0.5  # each stays in its row


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["the film", "--layer", "3"], "there is no layer 3"),
        (["the film", "--at", "1,1"], "a text has no pixels"),
        (["the film", "--relevance", "7"], "the model has no class '7'"),
        (["film " * 40], "the text is too long: expected at most 24 tokens"),
        ([" "], "expected a text in quotes"),
        (["--data", "test"], "expected a text in quotes"),
        (["a.png"], "reads texts: expected a text in quotes, got the image a.png"),
    ],
)
def test_mistakes_about_texts(command, words, given, message):
    write_picture(Path("a.png"))
    code, _, complaint = command("attention", words, *given)
    assert code == 2
    assert message in complaint
