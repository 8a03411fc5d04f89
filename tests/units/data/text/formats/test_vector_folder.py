"""Word vectors as a folder of words and one tensor."""

import numpy as np
import pytest
import torch

import patchword
from patchword.core.errors import UserError
from patchword.core.tensor_files import read_tensors
from patchword.data.text.formats.vector_folder import WORDS, is_vector_folder, read_vector_folder, write_vector_folder
from patchword.recipes.vectors.sources_models import open_source
from patchword.recipes.vectors.words import WordVectors

NAMES = ("the", "été", "\u2028", "king")


@pytest.fixture
def folder(tmp_path):
    rows = np.random.default_rng(0).standard_normal((len(NAMES), 5)).astype(np.float32)
    write_vector_folder(tmp_path / "words", NAMES, rows, torch.bfloat16)
    return tmp_path / "words"


def test_what_was_written_is_read(folder):
    words, vectors = read_vector_folder(folder)
    stored = read_tensors(folder / "model.safetensors")[0]["vectors"]
    assert words == NAMES
    assert stored.dtype == torch.bfloat16
    assert vectors.dtype == np.float32
    assert torch.equal(torch.from_numpy(vectors), stored.float())


def test_a_folder_is_word_vectors_wherever_a_file_is(folder, command):
    assert is_vector_folder(folder)
    assert not is_vector_folder(folder.parent)
    assert len(WordVectors.read(folder)) == len(NAMES)
    assert open_source(str(folder), torch.device("cpu")).width == 5
    code, printed, _ = command("vectors", "near", folder, "king", "-n", "2")
    assert (code, printed.count("\n")) == (0, 2)


def test_a_missing_word_is_an_error(folder):
    (folder / WORDS).write_text("the\nking\n", encoding="utf-8")
    with pytest.raises(UserError, match="2, width"):
        read_vector_folder(folder)


def test_a_folder_of_a_model_has_no_word_vectors(tmp_path):
    with pytest.raises(UserError, match="has no word vectors"):
        WordVectors.read(tmp_path)


def test_vectors_are_no_model(folder):
    with pytest.raises(UserError, match="word vectors, not a model"):
        patchword.load(folder)
