"""The .npz files of the authors of ViT and Mixer, against their formulas, written here in numpy with their axes."""

import json
import re

import numpy as np
import pytest
import torch

import patchword
from patchword.core.errors import UserError
from support.helpers import difference, pixels, tiny

WIDTH, HEADS, HIDDEN, PATCH, SIDE, CLASSES, DEPTH = 24, 3, 40, 4, 12, 5, 2
PUBLISHED = ("LayerNorm_0", "MultiHeadDotProductAttention_1", "LayerNorm_2", "MlpBlock_3")
PRESENT = ("LayerNorm_0", "MultiHeadDotProductAttention_0", "LayerNorm_1", "MlpBlock_0")
IMAGES = pixels(2, 3, SIDE, SIDE)


class Arrays(dict):
    """Random arrays by their names, large enough that no mistake can hide."""

    def __init__(self):
        super().__init__()
        self.random = np.random.default_rng(3)

    def add(self, name, *shape, inputs=1):
        self[name] = (2 * self.random.standard_normal(shape) / inputs**0.5).astype(np.float32)

    def dense(self, name, inputs, outputs):
        self.add(f"{name}/kernel", *inputs, *outputs, inputs=np.prod(inputs))
        self.add(f"{name}/bias", *outputs, inputs=9)

    def norm(self, name):
        self.add(f"{name}/scale", WIDTH, inputs=9)
        self.add(f"{name}/bias", WIDTH, inputs=9)


def vit_arrays(parts=PUBLISHED):
    """As the authors' code names and shapes them."""
    first, attention, second, feed_forward = parts
    arrays = Arrays()
    arrays.dense("embedding", (PATCH, PATCH, 3), (WIDTH,))
    arrays.add("cls", 1, 1, WIDTH)
    arrays.add("Transformer/posembed_input/pos_embedding", 1, 1 + (SIDE // PATCH) ** 2, WIDTH)
    for block in (f"Transformer/encoderblock_{index}/" for index in range(DEPTH)):
        arrays.norm(block + first)
        for part in ("query", "key", "value"):
            arrays.dense(f"{block}{attention}/{part}", (WIDTH,), (HEADS, WIDTH // HEADS))
        arrays.dense(f"{block}{attention}/out", (HEADS, WIDTH // HEADS), (WIDTH,))
        arrays.norm(block + second)
        arrays.dense(f"{block}{feed_forward}/Dense_0", (WIDTH,), (HIDDEN,))
        arrays.dense(f"{block}{feed_forward}/Dense_1", (HIDDEN,), (WIDTH,))
    arrays.norm("Transformer/encoder_norm")
    arrays.dense("head", (WIDTH,), (CLASSES,))
    return dict(arrays)


def mixer_arrays(tokens=9, token_hidden=14):
    arrays = Arrays()
    arrays.dense("stem", (PATCH, PATCH, 3), (WIDTH,))
    for block in (f"MixerBlock_{index}/" for index in range(DEPTH)):
        arrays.norm(block + "LayerNorm_0")
        arrays.dense(block + "token_mixing/Dense_0", (tokens,), (token_hidden,))
        arrays.dense(block + "token_mixing/Dense_1", (token_hidden,), (tokens,))
        arrays.norm(block + "LayerNorm_1")
        arrays.dense(block + "channel_mixing/Dense_0", (WIDTH,), (HIDDEN,))
        arrays.dense(block + "channel_mixing/Dense_1", (HIDDEN,), (WIDTH,))
    arrays.norm("pre_head_layer_norm")
    arrays.dense("head", (WIDTH,), (CLASSES,))
    return dict(arrays)


class Reader:
    """Layers in double precision, whose weights are looked up by name."""

    def __init__(self, arrays):
        self.arrays = {name: array.astype(np.float64) for name, array in arrays.items()}

    def dense(self, name, values, axes=1):
        return np.tensordot(values, self.arrays[f"{name}/kernel"], axes) + self.arrays[f"{name}/bias"]

    def norm(self, name, values):
        values = values - values.mean(-1, keepdims=True)
        values = values / np.sqrt((values**2).mean(-1, keepdims=True) + 1e-6)
        return values * self.arrays[f"{name}/scale"] + self.arrays[f"{name}/bias"]

    def feed_forward(self, name, values):
        hidden = self.dense(f"{name}/Dense_0", values)
        hidden = 0.5 * hidden * (1 + np.tanh(np.sqrt(2 / np.pi) * (hidden + 0.044715 * hidden**3)))
        return self.dense(f"{name}/Dense_1", hidden)

    def attention(self, name, values):
        query, key, value = (self.dense(f"{name}/{part}", values) for part in ("query", "key", "value"))
        scores = np.exp(np.einsum("bqhd,bkhd->bhqk", query, key) / np.sqrt(query.shape[-1]))
        mixed = np.einsum("bhqk,bkhd->bqhd", scores / scores.sum(-1, keepdims=True), value)
        return self.dense(f"{name}/out", mixed, axes=2)

    def patches(self, name, images):
        """(batch, channels, height, width) -> (batch, patches, width)"""
        batch, channels, height, width = images.shape
        cut = images.reshape(batch, channels, height // PATCH, PATCH, width // PATCH, PATCH)
        embedded = self.dense(name, cut.transpose(0, 2, 4, 3, 5, 1), axes=3)
        return embedded.reshape(batch, -1, WIDTH)


def vit_scores(arrays, parts=PUBLISHED):
    net = Reader(arrays)
    first, attention, second, feed_forward = parts
    tokens = net.patches("embedding", IMAGES.numpy().astype(np.float64))
    tokens = np.concatenate([np.repeat(net.arrays["cls"], len(tokens), 0), tokens], 1)
    tokens = tokens + net.arrays["Transformer/posembed_input/pos_embedding"]
    for block in (f"Transformer/encoderblock_{index}/" for index in range(DEPTH)):
        tokens = tokens + net.attention(block + attention, net.norm(block + first, tokens))
        tokens = tokens + net.feed_forward(block + feed_forward, net.norm(block + second, tokens))
    return torch.tensor(net.dense("head", net.norm("Transformer/encoder_norm", tokens)[:, 0])).float()


def mixer_scores(arrays):
    net = Reader(arrays)
    tokens = net.patches("stem", IMAGES.numpy().astype(np.float64))
    for block in (f"MixerBlock_{index}/" for index in range(DEPTH)):
        mixed = net.feed_forward(block + "token_mixing", net.norm(block + "LayerNorm_0", tokens).transpose(0, 2, 1))
        tokens = tokens + mixed.transpose(0, 2, 1)
        tokens = tokens + net.feed_forward(block + "channel_mixing", net.norm(block + "LayerNorm_1", tokens))
    return torch.tensor(net.dense("head", net.norm("pre_head_layer_norm", tokens).mean(1))).float()


def written(path, arrays, prefix=""):
    np.savez(path, **{prefix + name: array for name, array in arrays.items()})
    return path


def error_of(source, **options) -> UserError:
    with pytest.raises(UserError) as caught:
        patchword.load(source, **options)
    return caught.value


@pytest.fixture
def file(tmp_path):
    return written(tmp_path / "ViT.npz", vit_arrays())


@pytest.mark.parametrize("prefix", ["", "opt/target/", "params/"])
@pytest.mark.parametrize("parts", [PUBLISHED, PRESENT])
@torch.no_grad()
def test_scores_equal_the_authors_formulas(parts, prefix, tmp_path):
    arrays = vit_arrays(parts)
    model = patchword.load(written(tmp_path / "ViT.npz", arrays, prefix))
    assert difference(model(IMAGES), vit_scores(arrays, parts)) < 1e-5
    output = {"width": WIDTH, "heads": HEADS, "hidden": HIDDEN, "depth": DEPTH, "patch": PATCH, "image": SIDE}
    assert model.card.config.items() >= {**output, "classes": CLASSES, "activation": "gelu-tanh"}.items()


@pytest.mark.parametrize("kernel", ["query", "key", "value", "out"])
@torch.no_grad()
def test_the_comparison_fails_when_one_kernel_lies_the_other_way(kernel, tmp_path):
    arrays = vit_arrays()
    name = f"Transformer/encoderblock_1/MultiHeadDotProductAttention_1/{kernel}/kernel"
    turned = arrays[name].reshape(WIDTH, WIDTH).T.reshape(arrays[name].shape)
    model = patchword.load(written(tmp_path / "ViT.npz", arrays | {name: turned}))
    assert difference(model(IMAGES), vit_scores(arrays)) > 1e-3


@torch.no_grad()
def test_exact_gelu_gives_other_scores(file):
    arrays = dict(np.load(file))
    assert difference(patchword.load(file, activation="gelu")(IMAGES), vit_scores(arrays)) > 1e-5


@torch.no_grad()
def test_a_mixer_of_its_authors(tmp_path):
    arrays = mixer_arrays()
    model = patchword.load(written(tmp_path / "Mixer.npz", arrays))
    assert difference(model(IMAGES), mixer_scores(arrays)) < 1e-5
    output = {"width": WIDTH, "token_hidden": 14, "hidden": HIDDEN, "depth": DEPTH, "patch": PATCH, "image": SIDE}
    assert model.card.config.items() >= output.items()


@pytest.mark.parametrize("arrays", [vit_arrays(), vit_arrays(PRESENT), mixer_arrays()], ids=["vit", "linen", "mixer"])
def test_saved_for_the_authors_the_arrays_are_the_same_again(arrays, tmp_path):
    model = patchword.load(written(tmp_path / "theirs.npz", arrays, "params/"))
    folder = patchword.save(model, tmp_path / "again", layout="authors")
    assert sorted(path.name for path in folder.iterdir()) == ["config.json", "model.npz"]
    saved = dict(np.load(folder / "model.npz"))
    for other, name in zip(PRESENT, PUBLISHED, strict=True):  # which are written, whichever were read
        arrays = {re.sub(rf"(block_\d+)/{other}/", rf"\1/{name}/", key): array for key, array in arrays.items()}
    assert saved.keys() == arrays.keys()
    assert [name for name in saved if not np.array_equal(saved[name], arrays[name])] == []


@pytest.mark.parametrize("image", [16, (12, 20)])
def test_a_folder_for_the_authors_loads_here(image, tmp_path):
    model = tiny(activation="gelu-tanh", image=image, patch=4, channels=1)
    folder = patchword.save(model, tmp_path, layout="authors")
    for source in (folder, folder / "model.npz"):
        again = patchword.load(source)
        assert again.card.config == model.card.config
        images = pixels(2, 1, 16, 20)
        assert torch.equal(again(images), model(images))


@pytest.mark.parametrize("change", [{"activation": "gelu"}, {"position": "sinusoidal"}, {"norm_eps": 1e-5}])
def test_what_the_authors_code_cannot_compute_is_refused(change, tmp_path):
    model = tiny(**{"activation": "gelu-tanh", **change})
    with pytest.raises(UserError, match="authors has no model like"):
        patchword.save(model, tmp_path / "model", layout="authors")
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize(("first", "second"), [("authors", "patchword"), ("patchword", "authors")])
def test_a_folder_holds_the_last_model_alone(first, second, tmp_path):
    was, now = tiny(seed=1, activation="gelu-tanh"), tiny(seed=2, activation="gelu-tanh")
    patchword.save(was, tmp_path, layout=first)
    patchword.save(now, tmp_path, layout=second)
    assert len(list(tmp_path.iterdir())) == 2
    assert torch.equal(patchword.load(tmp_path).head.linear.weight, now.head.linear.weight)


def test_a_full_disk_leaves_the_old_file(tmp_path, monkeypatch):
    model = tiny(activation="gelu-tanh")
    patchword.save(model, tmp_path, layout="authors")
    before = (tmp_path / "model.npz").read_bytes()

    def fail(file, **arrays):
        file.write(b"half of it")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez", fail)
    with pytest.raises(UserError, match="No space left"):
        patchword.save(tiny(seed=5, activation="gelu-tanh"), tmp_path, layout="authors")
    assert (tmp_path / "model.npz").read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 2


@torch.no_grad()
def test_the_position_table_is_resized(file):
    resized, plain, images = patchword.load(file, image=(20, 24)), patchword.load(file), pixels(2, 3, 20, 24)
    assert resized.stages[0].positions.table.shape[1] == 1 + 5 * 6
    assert difference(resized(images), plain(images)) < 1e-5


@torch.no_grad()
def test_the_layer_of_pre_training_is_left_out_and_said(file, tmp_path):
    extra = {"pre_logits/kernel": np.eye(WIDTH, dtype=np.float32), "pre_logits/bias": np.zeros(WIDTH, np.float32)}
    with pytest.warns(UserWarning, match="pre_logits is dropped"):
        model = patchword.load(written(tmp_path / "21k.npz", vit_arrays() | extra))
    assert torch.equal(model(IMAGES), patchword.load(file)(IMAGES))


def test_a_trainers_state_beside_the_model_is_left_alone(tmp_path):
    arrays = {f"opt/target/{name}": array for name, array in vit_arrays().items()}
    arrays |= {"opt/state/step": np.array(7), "opt/state/param_states/cls/momentum": np.zeros((1, 1, WIDTH))}
    assert patchword.load(written(tmp_path / "state.npz", arrays)).card.config["heads"] == HEADS


def test_bfloat16_is_read(tmp_path):
    """numpy has no such type and keeps its bytes."""
    model = patchword.load(written(tmp_path / "whole.npz", vit_arrays()))
    kernel = torch.tensor(vit_arrays()["head/kernel"]).bfloat16()
    half = {"head/kernel": kernel.view(torch.int16).numpy().view("V2")}
    again = patchword.load(written(tmp_path / "half.npz", vit_arrays() | half))
    assert torch.equal(again.head.linear.weight, model.head.linear.weight.bfloat16().float())


def test_a_model_in_bfloat16_is_written_in_float32(tmp_path):
    model = tiny(activation="gelu-tanh").bfloat16()
    folder = patchword.save(model, tmp_path, layout="authors")
    assert {array.dtype.name for array in np.load(folder / "model.npz").values()} == {"float32"}
    assert torch.equal(patchword.load(folder).head.linear.weight, model.head.linear.weight.float())


def test_an_array_of_objects_is_refused(tmp_path):
    path = written(tmp_path / "ViT.npz", vit_arrays() | {"head/bias": np.array([print, 1], dtype=object)})
    error = error_of(path)
    assert error.what == f"cannot read {path}"
    assert "Object arrays cannot be loaded" in error.got


def test_a_pickle_under_the_name_of_an_npz_is_refused(tmp_path):
    torch.save({"cls": torch.zeros(1)}, tmp_path / "ViT.npz")
    error = error_of(tmp_path / "ViT.npz")
    assert error.expected == "a whole .npz file of numbers"
    assert "data.pkl', which is no array" in error.got


def test_an_npz_under_another_name_is_still_refused(file):
    for name in ("model.safetensors", "model.pth"):
        other = file.rename(file.with_name(name))
        assert "is a pickle" in str(error_of(other))
        other.rename(file)


@pytest.mark.parametrize("kept", [0, 10, 0.5, 0.99])
def test_a_truncated_file(kept, file):
    content = file.read_bytes()
    file.write_bytes(content[: kept if isinstance(kept, int) else int(kept * len(content))])
    assert error_of(file).what == f"cannot read {file}"


def test_missing_and_surplus_arrays_are_listed_under_the_names_a_reader_knows(tmp_path):
    """As in the authors' hybrids, which have a ResNet before the patches."""
    arrays = vit_arrays() | {"conv_root/kernel": np.zeros((7, 7, 3, 64), np.float32)}
    del arrays["head/bias"]
    assert error_of(written(tmp_path / "R50+ViT.npz", arrays)).hint.splitlines() == [
        "missing     head.linear.bias (5,)",
        "unexpected  conv_root/kernel",
    ]


def test_a_damaged_file(tmp_path):
    """Wherever a byte is wrong, the answer is a model or a sentence."""
    path = written(tmp_path / "ViT.npz", vit_arrays())
    content = path.read_bytes()
    refused = 0
    for place in range(0, len(content), len(content) // 40):
        path.write_bytes(content[:place] + b"?" + content[place + 1 :])
        try:
            patchword.load(path)
        except UserError:
            refused += 1
    assert refused > 30  # each array has a checksum


def test_arrays_nobody_knows(tmp_path):
    assert "belong to no known layout" in str(error_of(written(tmp_path / "other.npz", {"a": np.zeros(1)})))


def test_labels_survive(tmp_path):
    model = tiny(activation="gelu-tanh")
    model.card = type(model.card)(**{**vars(model.card), "labels": tuple("abcdefg")})
    folder = patchword.save(model, tmp_path, layout="authors")
    assert json.loads((folder / "config.json").read_text())["label_names"] == list("abcdefg")
    assert patchword.load(folder).card.labels == tuple("abcdefg")
