"""A pipeline of an image model: every form of an input gives the same prediction."""

import json
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import patchword
from patchword.core.errors import UserError
from patchword.pipelines import opening
from patchword.recipes import find_recipe
from support.helpers import tiny, tiny_text
from support.material import UNSEALED, sealed

LABELS = ("cat", "dog <b>", "ship")


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def model():
    found = tiny("vit-tiny-16", image=32, patch=8, classes=3)
    found.card = replace(found.card, labels=LABELS)
    return found


@pytest.fixture
def p(model):
    return patchword.pipeline(model, device="cpu")


@pytest.fixture
def photo() -> np.ndarray:
    """Larger than the model reads, and not square."""
    return np.random.default_rng(0).integers(0, 256, (48, 64, 3)).astype(np.uint8)


def expected(p, photo: np.ndarray) -> torch.Tensor:
    with torch.no_grad():
        return p.model(p.transform(photo)[None])[0].softmax(-1)


def test_every_form_of_an_image_gives_the_same_prediction(p, photo):
    Image.fromarray(photo).save("photo.png")
    pixels = torch.from_numpy(photo).permute(2, 0, 1)
    forms = ["photo.png", Path("photo.png"), Image.fromarray(photo), photo, pixels, p.transform(photo)]
    scores = expected(p, photo)
    for one, found in zip(forms, p(forms, top=3), strict=True):
        assert found.label == LABELS[int(scores.argmax())]
        assert dict(found.classes) == pytest.approx(dict(zip(LABELS, scores.tolist(), strict=True)), abs=1e-6)
        assert found.probability == found.classes[0][1] == max(probability for _, probability in found.classes)
        assert p(one)[0].label == found.label


def test_the_transform_equals_the_decoding_of_a_file(p, photo):
    Image.fromarray(photo).save("photo.png")
    assert torch.equal(p.transform("photo.png"), p.transform(photo))
    assert tuple(p.transform(photo).shape) == (3, 32, 32)
    assert p.transform(np.zeros((9, 9), np.uint8)).amax() == pytest.approx(-1)  # black, normalized by 0.5 and 0.5


def test_a_batch_of_tensors_and_a_folder_have_one_prediction_per_image(p, photo):
    Path("photos/below").mkdir(parents=True)
    for name in ("photos/a.png", "photos/below/b.png"):
        Image.fromarray(photo).save(name)
    Path("photos/notes.txt").write_text("no image")
    found = p("photos")
    assert [str(one.input) for one in found] == ["photos/a.png", "photos/below/b.png"]
    assert len(p(torch.from_numpy(photo).permute(2, 0, 1).expand(5, -1, -1, -1))) == 5
    assert len(p(["photos", photo])) == 3


def test_more_images_than_a_batch_keep_their_order(p):
    shades = [np.full((8, 8, 3), shade, np.uint8) for shade in range(0, 140)]
    found = p(shades, top=3)
    assert [one.probability for one in found[64:66]] == pytest.approx(
        [p(shade, top=3)[0].probability for shade in shades[64:66]], abs=1e-6
    )
    assert len(found) == 140
    assert found[0].probability != found[139].probability


def test_an_unreadable_image_has_an_error_in_a_list_and_raises_alone(p, photo):
    Path("broken.png").write_bytes(b"nothing")
    found = p([photo, "broken.png", photo])
    assert [bool(one.error) for one in found] == [False, True, False]
    assert found[1].error.startswith("cannot read the image broken.png")
    with pytest.raises(UserError, match=r"there is no prediction for broken\.png"):
        _ = found[1].label
    assert "broken.png" in repr(found) + found._repr_html_()
    with pytest.raises(UserError, match="cannot read the image"):
        p("broken.png")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("gone.png", "there is nothing at gone.png"),
        ([], "there are no images"),
        (np.zeros((4, 4, 3), np.float32), "float32 of shape"),
        (np.zeros((2, 4, 4, 3), np.uint8), "uint8 of shape"),
        (torch.zeros(4, 4, 3, dtype=torch.uint8).repeat(2, 1, 1), "with 1, 3 or 4 channels"),
        (torch.zeros(32, 32), "not an image"),
        (torch.zeros(3, 32, 32, dtype=torch.int64), "got int64"),
        (torch.zeros(3, 16, 16), r"expected \(3, 32, 32\)"),
        (torch.full((3, 32, 32), 255.0), "not normalized pixels"),
        (torch.full((3, 32, 32), torch.nan), "not normalized pixels"),
        (7, "got int"),
    ],
)
def test_what_is_not_an_image_is_refused(p, given, message):
    with pytest.raises(UserError, match=message):
        p(given)


def test_values_from_0_to_1_are_a_warning(p):
    with pytest.warns(UserWarning, match="read as normalized"):
        p(torch.rand(3, 32, 32))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        p(torch.rand(3, 32, 32) * 2 - 1)


# Results


def test_the_table_and_the_page_escape_what_the_user_gave(p, photo):
    Image.fromarray(photo).save("a&<i>.png")
    found = p("a&<i>.png")
    assert "dog <b>" in repr(found)
    page = found._repr_html_()
    assert "dog &lt;b&gt;" in page
    assert "<b>" not in page
    assert "a&amp;&lt;i&gt;.png" in page
    assert page.count('src="data:image/png;base64,') == 1
    assert found[0]._repr_html_() == page


def test_predictions_are_an_immutable_sequence(p, photo):
    found = p([photo] * 60)
    assert type(found[1:3]) is type(found)
    assert len(found[1:3]) == 2
    assert "and 10 more" in repr(found)
    with pytest.raises(TypeError):
        found[0] = found[1]
    with pytest.raises(UserError, match="no property 'number': expected label or probability or classes"):
        _ = found[0].number


# Embeddings, attention, cost


@pytest.mark.parametrize("name", ["vit-tiny-16", "deit-tiny-distilled", "swin-tiny", "resnet-18"])
def test_the_embedding_is_what_the_head_reads(name, photo):
    sizes = {"swin-tiny": {"width": 24, "depths": (1, 1, 1, 1)}, "resnet-18": {}}
    given = {"image": 32, "classes": 3}
    model = patchword.create(name, **given, **sizes[name]).eval() if name in sizes else tiny(name, **given)
    p, read = patchword.pipeline(model, device="cpu"), []
    with torch.no_grad():
        for part in [model.head.linear, *([model.head.distilled] if name.endswith("distilled") else [])]:
            part.register_forward_pre_hook(lambda _, inputs: read.append(inputs[0]))
        model(p.transform(photo)[None])
    found = p.embed([photo, photo])
    assert found.dtype == np.float32
    assert found.shape == (2, read[0].shape[1])
    np.testing.assert_allclose(found[0], torch.stack(read).mean(0)[0].numpy(), atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(p.embed(photo, normalize=True), axis=1), 1, atol=1e-5)


@pytest.mark.parametrize("name", ["vit-tiny-16", "cvt-13", "swin-tiny", "resnet-18", "mixer-small-16"])
def test_the_embedding_of_a_layer_is_the_output_of_its_block(name, photo):
    model = patchword.create(name, image=32, classes=3).eval()
    p = patchword.pipeline(model, device="cpu")
    outputs, inputs = [], []

    def keep(block, given, output):
        inputs.append(given[0])
        outputs.append(output)

    for stage in model.stages:
        for block in stage.blocks if hasattr(stage, "blocks") else stage.encoder.blocks:
            block.register_forward_hook(keep)
    p.embed(photo)
    hidden = [as_tokens(one) for one in [inputs[0], *outputs]]
    assert p.layers == len(outputs)
    grids = [grid for _, grid in model.states(p.transform(photo)[None])]
    for layer in (0, 1, p.layers - 1):
        expected = hidden[layer][0, grids[layer].prefix :].mean(0)
        found = p.embed(photo, layer=layer, pool="mean")
        np.testing.assert_allclose(found[0], expected.numpy(), atol=1e-5)
    np.testing.assert_array_equal(p.embed(photo, layer=-1), p.embed(photo))
    for layer, found in enumerate(p.embed_layers([photo, photo], normalize=True)):
        expected = p.embed([photo, photo], layer=layer, normalize=True)
        np.testing.assert_allclose(found, expected, atol=1e-5)


def as_tokens(state: torch.Tensor) -> torch.Tensor:
    """A convolutional block has a map."""
    return state if state.ndim == 3 else state.flatten(2).transpose(1, 2)


def test_a_layer_is_pooled_as_the_head_reads_it_where_it_has_a_cls_token(p, photo):
    states = [tokens[0] for tokens, _ in p.model.states(p.transform(photo)[None])]
    for layer in (0, 1):
        np.testing.assert_allclose(p.embed(photo, layer=layer)[0], states[layer][0].detach().numpy(), atol=1e-5)
    swin = patchword.pipeline(patchword.create("swin-tiny", image=32, classes=3), device="cpu")
    with pytest.raises(UserError, match="no \\[CLS\\]"):
        swin.embed(photo, pool="first")


def test_attention_has_maps_rollout_and_relevance(p, photo):
    found = p.attention(photo)
    assert found.layers == tuple(range(1, len(found.maps) + 1))
    assert found.maps[0].shape[1:] == found.rollout.shape == (4, 4)
    assert found.relevance is not None
    assert found.about == p(photo)[0].label
    assert p.attention(photo, layers=[2], heads=[1]).maps[0].shape == (1, 4, 4)
    assert found._repr_html_().count("<img") == 2
    with pytest.raises(UserError, match="one image"):
        p.attention([photo, photo])


def test_cost_counts_the_model(p):
    assert p.cost().parameters == sum(parameter.numel() for parameter in p.model.parameters())


# Opening


def test_a_folder_and_a_file_answer_as_the_model_does(p, photo, model):
    patchword.save(model, "saved")
    Path("runs").mkdir()
    patchword.save(model, "runs/mine")
    for source in ("saved", Path("saved"), "mine"):
        found = patchword.pipeline(source, device="cpu")
        assert found.labels == LABELS
        assert found.name == str(source)
        assert found(photo)[0].classes == p(photo)[0].classes


def test_the_verb_and_the_pipeline_agree(p, photo, model, command):
    patchword.save(model, "saved")
    Image.fromarray(photo).save("photo.png")
    code, output, _ = command("predict", "saved", "photo.png", "--json", "--top", 3, "--device", "cpu")
    record = json.loads(output)
    assert code == 0
    assert [record["label"], *(one["label"] for one in record["next"])] == [
        name for name, _ in p("photo.png")[0].classes
    ]
    assert record["probability"] == p("photo.png")[0].probability


def test_the_verb_refuses_a_text_model_without_a_tokenizer(photo, command):
    patchword.save(tiny_text(head="classes", classes=2), "words")
    Image.fromarray(photo).save("photo.png")
    code, _, complaint = command("predict", "words", "photo.png")
    assert (code, complaint.strip()) == (2, "error: 'bert-tiny' reads texts: expected a model of images")


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda p: p.fill("The [MASK]."), r"cannot fill masks.*\n.*p\(image\), p.embed, p.attention, p.cost"),
        (lambda p: p.translate("a"), "cannot translate"),
        (lambda p: p.tokenizer, "expected p.transform"),
        (lambda p: p(np.zeros((8, 8), np.uint8), question="why?"), "no pair and no question"),
        (lambda p: p(np.zeros((8, 8), np.uint8), top=0), "1 or more"),
        (lambda p: p.embed(np.zeros((8, 8), np.uint8), length=9), "no length"),
        (lambda p: p.embed(np.zeros((8, 8), np.uint8), pool="pooler"), "mean .* or first"),
        (lambda p: p.embed(np.zeros((8, 8), np.uint8), layer=99), "^layer: expected 0"),
        (lambda p: patchword.pipeline(p.model, tokenizer="folder"), "no tokenizer"),
    ],
)
def test_what_an_image_model_cannot_do_names_what_it_can(p, ask, message):
    with pytest.raises(UserError, match=message):
        ask(p)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("vit-base-16", "no trained weights"),
        ("nowhere", "there is nothing at nowhere"),
        ("hf:nobody/nothing", "is not on this machine"),
        (7, "expected a run"),
    ],
)
def test_what_cannot_be_opened(source, message):
    with pytest.raises(UserError, match=message):
        patchword.pipeline(source)


def test_a_folder_of_runs_names_them():
    for name in ("a", "b"):
        Path("study", name).mkdir(parents=True)
        Path("study", name, "recipe.yaml").write_text("")
    with pytest.raises(UserError, match="holds 2 runs: expected one of them: study/a, study/b"):
        patchword.pipeline("study")


def test_a_name_of_the_hub_is_fetched_if_asked_for(model, photo, monkeypatch):
    patchword.save(model, "cache")
    asked = []
    monkeypatch.setattr(opening, "fetch", lambda name: asked.append(str(name)) or Path("cache"))
    p = patchword.pipeline("hf:maker/vit@v1", download=True, device="cpu")
    assert asked == ["hf:maker/vit@v1"]
    assert p.name == "hf:maker/vit@v1"
    assert p(photo)[0].label in LABELS


@UNSEALED
def test_a_run_without_labels_has_features_and_no_classes(model, photo):
    patchword.save(model, "run")
    Path("run/recipe.yaml").write_text(find_recipe("image-pretrain").to_yaml(), encoding="utf-8")
    p = patchword.pipeline("run", device="cpu")
    assert p.labels == ()
    assert p.embed(photo).shape == (1, model.card.config["width"])
    assert p.attention(photo).relevance is None
    with pytest.raises(UserError, match=r"run cannot predict classes.*\n.*it can do: p\.embed"):
        p(photo)


def test_calibrated_probabilities_are_those_of_the_fitted_temperature(photo, mine):
    p = patchword.pipeline(mine, device="cpu")
    fitted = json.loads((mine / "calibration.json").read_text())
    (mine / "calibration.json").write_text(json.dumps({**fitted, "temperature": 2.5}))
    sealed(mine)
    plain, scaled = p(photo, top=10)[0], p(photo, top=10, calibrated=True)[0]
    with torch.no_grad():
        wanted = (p.model(p.transform(photo)[None])[0] / 2.5).softmax(-1)
    assert dict(scaled.classes) == pytest.approx(dict(zip(p.labels, wanted.tolist(), strict=True)), abs=1e-6)
    assert plain.label == scaled.label
    assert plain.probability > scaled.probability


def test_a_model_without_a_fitted_temperature_is_not_calibrated(p, photo, mine, command):
    with pytest.raises(UserError, match="has no fitted temperature"):
        p(photo, calibrated=True)
    Image.fromarray(photo).save("photo.png")
    assert command("predict", mine, "photo.png", "--calibrated")[0] == 0
    (mine / "calibration.json").unlink()
    sealed(mine)
    code, _, complaint = command("predict", mine, "photo.png", "--calibrated")
    assert code == 2
    assert "has no fitted temperature" in complaint
