"""The published files of ELMo: what is written in their layout, by hand, is read back as it was."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from patchword.core.errors import UserError
from patchword.data.text.tokenizers.characters import CharacterReader
from patchword.models.text import elmo
from patchword.models.text.elmo import Elmo, ElmoConfig
from patchword.weights import load
from patchword.weights.names.text.elmo import read_elmo
from support.helpers import difference

h5py = pytest.importorskip("h5py")

CONFIG = ElmoConfig(
    character_width=3, filters=((1, 4), (2, 5)), width=4, cell=6, highways=2, cell_clip=2.5, output_clip=1.5
)
OPTIONS = {
    "lstm": {
        "use_skip_connections": True,
        "projection_dim": 4,
        "cell_clip": 2.5,
        "proj_clip": 1.5,
        "dim": 6,
        "n_layers": 2,
    },
    "char_cnn": {
        "activation": "relu",
        "embedding": {"dim": 3},
        "filters": [[1, 4], [2, 5]],
        "max_characters_per_token": 50,
        "n_characters": 262,
        "n_highway": 2,
    },
}
TEXT = CharacterReader()([["the", "cat"], ["a", "longer", "sentence", "here"]])


def model_of(config: ElmoConfig = CONFIG) -> Elmo:
    model = elmo.build(config).eval()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for part in (model.embedding, model.encoder):
            for parameter in part.parameters():
                parameter.copy_(0.5 * torch.randn(parameter.shape, generator=generator))
        model.embedding.characters.weight[0] = 0
    return model


def published(model: Elmo) -> dict[str, np.ndarray]:
    """The tensors as TensorFlow had them."""
    found = {"char_embed": model.embedding.characters.weight[1:]}
    for number, convolution in enumerate(model.embedding.filters):
        found[f"CNN/W_cnn_{number}"] = convolution.weight.permute(2, 1, 0)[None]  # (1, characters, inputs, filters)
        found[f"CNN/b_cnn_{number}"] = convolution.bias
    for number, highway in enumerate(model.embedding.highways):
        found |= {
            f"CNN_high_{number}/W_transform": highway.candidate.weight.T,
            f"CNN_high_{number}/b_transform": highway.candidate.bias,
            f"CNN_high_{number}/W_carry": highway.gate.weight.T,
            f"CNN_high_{number}/b_carry": highway.gate.bias,
        }
    found |= {"CNN_proj/W_proj": model.embedding.project.weight.T, "CNN_proj/b_proj": model.embedding.project.bias}
    for number, layer in enumerate(model.encoder.layers):
        for way in (0, 1):
            prefix = f"RNN_{way}/RNN/MultiRNNCell/Cell{number}/LSTMCell"
            joint = torch.cat([layer.inputs[way], layer.recurrent[way]])
            i, f, o, g = joint.split(6, 1)
            found[f"{prefix}/W_0"] = torch.cat([i, g, f, o], 1)
            i, f, o, g = layer.bias[way, 0].split(6)
            found[f"{prefix}/B"] = torch.cat([i, g, f - 1, o])
            found[f"{prefix}/W_P_0"] = layer.output[way]
    return {name: tensor.detach().numpy() for name, tensor in found.items()}


def written(folder: Path, tensors: dict[str, np.ndarray], options: dict = OPTIONS, stem: str = "lm_") -> Path:
    path = folder / f"{stem}weights.hdf5"
    with h5py.File(path, "w") as file:
        for name, tensor in tensors.items():
            file[name] = tensor
    (folder / f"{stem.removesuffix('lm_')}options.json").write_text(json.dumps(options))
    return path


@pytest.mark.parametrize("stem", ["lm_", "elmo_2x6_4_9cnn_2xhighway_"])
@torch.no_grad()
def test_what_was_written_is_read(tmp_path, stem):
    model = model_of()
    again = read_elmo(written(tmp_path, published(model), stem=stem))
    assert again.card.config == vars(CONFIG)
    assert not again.training
    found = again.state_dict()
    for name, tensor in model.state_dict().items():
        assert torch.allclose(found[name], tensor, atol=1e-6), name
    for one, other in zip(again.states(TEXT), model.states(TEXT), strict=True):
        assert difference(one, other) < 1e-5


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("RNN_0/RNN/MultiRNNCell/Cell0/LSTMCell/B", lambda tensor: tensor + np.eye(4)[2].repeat(6).astype("f4")),
        ("RNN_1/RNN/MultiRNNCell/Cell1/LSTMCell/W_0", lambda tensor: np.roll(tensor, 6, 1)),
        ("CNN_high_0/W_carry", lambda tensor: -tensor),
        ("CNN/W_cnn_1", lambda tensor: tensor[:, ::-1]),
    ],
    ids=["forget bias", "gate order", "carry sign", "order of a filter"],
)
@torch.no_grad()
def test_a_wrong_habit_is_found_out(tmp_path, name, change):
    model = model_of()
    tensors = published(model)
    again = read_elmo(written(tmp_path, tensors | {name: change(tensors[name])}))
    assert difference(again.states(TEXT)[-1], model.states(TEXT)[-1]) > 1e-3


def test_the_named_sizes_are_recognised(tmp_path):
    """Options of a published size with weights of another do not fit, and what differs is listed."""
    options = {**OPTIONS, "lstm": {**OPTIONS["lstm"], "dim": 8}}
    path = written(tmp_path, published(model_of()), options)
    with pytest.raises(UserError, match="does not fit its options: 8 tensors differ") as caught:
        read_elmo(path)
    assert "encoder.layers.0.inputs: expected (2, 4, 32), got (2, 4, 24)" in caught.value.hint


def test_a_tensor_that_is_missing_is_named(tmp_path):
    tensors = published(model_of())
    del tensors["CNN_high_1/b_carry"]
    with pytest.raises(UserError, match="expected CNN_high_1/b_carry, got no such tensor"):
        read_elmo(written(tmp_path, tensors))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({**OPTIONS, "lstm": {**OPTIONS["lstm"], "use_skip_connections": False}}, "use_skip_connections True"),
        ({**OPTIONS, "char_cnn": {**OPTIONS["char_cnn"], "activation": "gelu"}}, "expected relu or tanh, got gelu"),
        ({"lstm": {}}, "not the options of an ELMo"),
        ([], "not the options of an ELMo"),
    ],
    ids=["no residual", "activation", "nothing", "no object"],
)
def test_other_options_are_refused(tmp_path, options, message):
    with pytest.raises(UserError, match=message):
        read_elmo(written(tmp_path, published(model_of()), options))


def test_what_is_no_such_file(tmp_path):
    with pytest.raises(UserError, match="there is no file"):
        read_elmo(tmp_path / "weights.hdf5")
    path = written(tmp_path, {})
    path.write_bytes(b"nothing of the kind")
    with pytest.raises(UserError, match="expected an HDF5 file"):
        read_elmo(path)


@torch.no_grad()
def test_tanh_is_read_from_the_options(tmp_path):
    model = model_of(replace(CONFIG, activation="tanh"))
    options = {**OPTIONS, "char_cnn": {**OPTIONS["char_cnn"], "activation": "tanh"}}
    again = read_elmo(written(tmp_path, published(model), options))
    assert difference(again.states(TEXT)[0], model.states(TEXT)[0]) < 1e-5
    assert difference(again.states(TEXT)[0], model_of().states(TEXT)[0]) > 1e-3


@torch.no_grad()
def test_load_opens_the_authors_files_like_any_other(tmp_path):
    model = model_of()
    path = written(tmp_path, published(model))
    for source in (path, tmp_path):
        again = load(source)
        assert again.card == read_elmo(path).card
        assert difference(again.states(TEXT)[2], model.states(TEXT)[2]) < 1e-5
    tagger = load(tmp_path, head="tags", classes=5)
    assert tagger(TEXT).shape == (2, 6, 5)
    assert difference(tagger.states(TEXT)[2], model.states(TEXT)[2]) < 1e-5
    teller = load(path, head="words", vocabulary=11)
    assert [scores.shape[-1] for scores in teller(TEXT)] == [11, 11]
