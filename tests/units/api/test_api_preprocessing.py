"""patchword.tokenizer and patchword.transform."""

import numpy as np
import pytest
import torch
from PIL import Image

import patchword
from patchword.core.errors import UserError
from patchword.data.text.tokenizers.tokenizer import Tokenizer
from support.helpers import tiny, tiny_text
from support.material import write_picture

TEXTS = ["an image is worth sixteen words", "words and patches"] * 4


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Tokenizer.train_on(TEXTS, 60).save(tmp_path / "runs" / "words")
    (tmp_path / "runs" / "words" / "recipe.yaml").write_text("kind: text\n")
    return tmp_path / "runs" / "words"


def test_the_tokenizer_of_a_folder_a_file_a_run_and_a_name(folder):
    expected = [one.ids.tolist() for one in Tokenizer.read(folder).encode(TEXTS)]
    for source in (folder, str(folder), folder / "tokenizer.json", "words", patchword.Run("words")):
        assert [one.ids.tolist() for one in patchword.tokenizer(source).encode(TEXTS)] == expected


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("bert-mini", "'bert-mini' has no tokenizer: expected a run, a folder, or a name of the hub"),
        ("nothing", "there is no file nothing"),
    ],
)
def test_a_source_without_a_tokenizer_is_refused(folder, source, message):
    with pytest.raises(UserError, match=message):
        patchword.tokenizer(source)


def test_the_transform_of_a_model(tmp_path):
    model = tiny("vit-tiny-16")
    path = write_picture(tmp_path / "image.png", size=(40, 30), mode="RGB")
    transform = patchword.transform(model)
    image = transform(path)
    assert image.shape == (model.card.config["channels"], *[model.card.config["image"]] * 2)
    assert image.dtype == torch.float32
    with Image.open(path) as opened:
        assert torch.equal(transform(opened), image)
        assert torch.equal(transform(np.asarray(opened)), image)


def test_a_model_of_texts_has_no_transform():
    with pytest.raises(UserError, match="reads texts"):
        patchword.transform(tiny_text("bert-mini"))
