"""The routes of the page Embeddings: maps of a set by layer, neighbours, word vectors, limits."""

import io
import json
from functools import cache
from importlib.util import find_spec

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load

import patchword
from patchword.lab.models import list_models
from patchword.recipes.vectors.words import WordVectors
from patchword.weights.local_path import local_path
from support.lab.page import caller, write_page

JSON = {"content-type": "application/json"}
SAMPLE = {"digits-vit": "sample", "swin-mini": "sample", "bert-mini": "topics", "elmo-mini": "topics"}


@pytest.fixture(scope="module")
def call(tmp_path_factory):
    return caller(write_page(tmp_path_factory.mktemp("page")), list_models([]))


@pytest.fixture(scope="module")
def post(call):
    def send(path: str, fields: object, status: int = 200):
        found = call(path, "POST", JSON, [json.dumps(fields).encode()])
        assert found.status == status, found.body[:500]
        return found

    return send


@cache
def pipe(name: str):
    return patchword.pipeline(f"zoo:{name}", device="cpu")


def sample_of(name: str):
    return sorted((local_path(f"zoo:{name}") / "sample").glob("*.png"))


def direct_pca(vectors: np.ndarray) -> np.ndarray:
    centred = torch.as_tensor(vectors).double() - torch.as_tensor(vectors).double().mean(0)
    left, values, _ = torch.linalg.svd(centred, full_matrices=False)
    return (left[:, :3] * values[:3]).numpy()


def mapped(post, name: str, **fields):
    content = post(f"/api/embeddings/{name}", {"set": SAMPLE[name], **fields}).body
    size = int.from_bytes(content[:8], "little")
    about = json.loads(json.loads(content[8 : 8 + size])["__metadata__"]["about"])
    return about, {key: value.numpy() for key, value in load(content).items()}


@pytest.mark.parametrize(
    ("name", "layer", "pool"),
    [("digits-vit", None, "head"), ("digits-vit", 2, "mean"), ("swin-mini", 1, "head"), ("bert-mini", 1, "head")],
)
def test_a_map_is_the_pca_of_p_embed(post, name, layer, pool):
    about, arrays = mapped(post, name, layer=layer, pool=pool)
    points = post(f"/api/embeddings/{name}/points", {"set": SAMPLE[name]}).json()
    p = pipe(name)
    given = sample_of(name) if not points["texts"] else points["texts"]
    vectors = p.embed(given, layer=layer, pool=None if pool == "head" else pool, normalize=False)
    expected = direct_pca(vectors)
    for axis in range(3):
        sign = np.sign(expected[:, axis] @ arrays["points"][:, axis])
        np.testing.assert_allclose(arrays["points"][:, axis], sign * expected[:, axis], atol=1e-4)
    np.testing.assert_allclose(arrays["norms"], np.linalg.norm(vectors, axis=1), rtol=1e-5)
    nearest = [brute_neighbours(vectors, row)[0] for row in range(len(vectors))]
    same = [points["labels"][row] == points["labels"][other] for row, other in enumerate(nearest)]
    assert about["agreement"] == pytest.approx(np.mean(same))
    assert about["layer"] == (p.layers if layer is None else layer)
    assert points["layers"] == p.layers
    assert 0 < sum(about["explained"]) <= 1 + 1e-9


def test_the_first_layer_of_a_cls_token_is_one_point(post):
    about, arrays = mapped(post, "digits-vit", layer=0)
    assert not arrays["points"].any()
    assert (about["explained"], about["agreement"]) == ([0, 0, 0], None)
    assert mapped(post, "digits-vit", layer=0, pool="mean")[1]["points"].any()


def test_the_points_have_labels_and_predictions(post):
    points = post("/api/embeddings/digits-vit/points", {"set": "sample"}).json()
    assert (points["count"], points["total"], points["classes"]) == (40, 40, [str(digit) for digit in range(10)])
    assert points["labels"] == [number // 4 for number in range(40)]
    found = pipe("digits-vit")([str(path) for path in sample_of("digits-vit")], top=1)
    assert [points["classes"][number] for number in points["predictions"]] == [one.label for one in found]
    assert points["probabilities"] == pytest.approx([one.probability for one in found], abs=1e-5)


def test_a_sprite_has_every_image(call, post):
    points = post("/api/embeddings/digits-vit/points", {"set": "sample"}).json()
    found = call("/api/embeddings/digits-vit/sprite?set=sample")
    assert found.headers["content-type"] == "image/png"
    sheet, tile, columns = np.asarray(Image.open(io.BytesIO(found.body))), points["tile"], points["columns"]
    for number in (0, 7, 39):
        row, column = divmod(number, columns)
        shown = sheet[row * tile : (row + 1) * tile, column * tile : (column + 1) * tile]
        np.testing.assert_array_equal(shown, pipe("digits-vit").transform.pixels(sample_of("digits-vit")[number])[0])
    assert call("/api/embeddings/bert-mini/sprite?set=topics").status == 404


def test_the_neighbours_equal_brute_force(post):
    asked = {"set": "sample", "layer": 2, "pool": "mean", "point": 5, "count": 4}
    found = post("/api/embeddings/digits-vit/neighbours", asked).json()["neighbours"]
    vectors = pipe("digits-vit").embed(sample_of("digits-vit"), layer=2, pool="mean")
    expected = brute_neighbours(vectors, 5)[:4]
    assert [one["point"] for one in found] == expected
    assert [one["cosine"] for one in found] == pytest.approx([cosine(vectors, 5, row) for row in expected], abs=1e-6)


def cosine(vectors: np.ndarray, row: int, other: int) -> float:
    first, second = vectors[row].astype(np.float64), vectors[other].astype(np.float64)
    return float(first @ second / np.linalg.norm(first) / np.linalg.norm(second))


def brute_neighbours(vectors: np.ndarray, row: int) -> list[int]:
    others = [other for other in range(len(vectors)) if other != row]
    return sorted(others, key=lambda other: -cosine(vectors, row, other))


def test_words_have_neighbours_and_analogies(post):
    words = WordVectors.read("zoo:word-vectors")
    near = post("/api/words/word-vectors/near", {"word": "king", "count": 5}).json()["words"]
    assert [(one["word"], one["cosine"]) for one in near] == words.near("king", 5)
    asked = {"first": "man", "second": "king", "third": "woman"}
    found = post("/api/words/word-vectors/analogy", asked).json()["words"]
    assert [(one["word"], one["cosine"]) for one in found] == words.analogy("man", "king", "woman")
    error = post("/api/words/word-vectors/near", {"word": "kingg"}, 422).json()["error"]
    assert "kingg" in error["what"]
    assert error["hint"]
    post("/api/words/bert-mini/near", {"word": "king"}, 422)


def test_the_map_of_words_is_that_of_their_vectors(post):
    points = post("/api/embeddings/word-vectors/points", {"set": "analogies"}).json()
    content = post("/api/embeddings/word-vectors", {"set": "analogies"}).body
    expected = direct_pca(WordVectors.read("zoo:word-vectors").of(points["texts"]))
    np.testing.assert_allclose(np.abs(load(content)["points"].numpy()), np.abs(expected), atol=1e-4)
    assert "plural" in points["classes"]


TEXTS = ["A dog barks.", "A cat sleeps.", "The stock fell.", "The bank pays."]


def test_typed_texts_and_tables_are_the_same_set(call, post):
    typed = post("/api/texts", {"texts": TEXTS, "labels": ["a", "a", "b", "b"]}).json()
    table = "text,label\n" + "".join(f"{text},{label}\n" for text, label in zip(TEXTS, "aabb", strict=True))
    octets = {"content-type": "application/octet-stream"}
    assert call("/api/texts", "POST", octets, [table.encode()]).json() == typed
    points = post("/api/embeddings/bert-mini/points", {"set": typed["set"]}).json()
    assert (points["texts"], points["labels"], points["classes"]) == (TEXTS, [0, 0, 1, 1], ["a", "b"])
    post("/api/embeddings/digits-vit/points", {"set": typed["set"]}, 404)
    bare = call("/api/texts", "POST", octets, [("text\n" + "\n".join(TEXTS)).encode()]).json()
    assert post("/api/embeddings/elmo-mini/points", {"set": bare["set"]}).json()["labels"] == []
    wrong = call("/api/texts", "POST", octets, [b"words,label\na,b\n"])
    assert wrong.status == 422
    assert "/tmp" not in wrong.body.decode()
    assert call("/api/texts", "POST", octets, [b"text\n" + b"a" * 1_000_000]).status == 422


@pytest.mark.parametrize(
    ("path", "fields", "status"),
    [
        ("/api/embeddings/no-model", {"set": "sample"}, 404),
        ("/api/embeddings/translator-en-de", {"set": "sample"}, 404),
        ("/api/embeddings/digits-vit", {"set": "../../etc/passwd"}, 404),
        ("/api/embeddings/digits-vit", {"set": "given-000000000000"}, 404),
        ("/api/embeddings/digits-vit", {"set": "sample", "layer": 9}, 422),
        ("/api/embeddings/digits-vit", {"set": "sample", "layer": -1}, 422),
        ("/api/embeddings/digits-vit", {"set": "sample", "pool": "max"}, 422),
        ("/api/embeddings/digits-vit", {"set": "sample", "projection": "map"}, 422),
        ("/api/embeddings/bert-mini", {"set": "topics", "pool": "mean"}, 422),
        ("/api/embeddings/digits-vit/neighbours", {"set": "sample", "point": 40}, 422),
        ("/api/embeddings/digits-vit/neighbours", {"set": "sample", "point": 0, "count": 51}, 422),
        ("/api/texts", {"texts": ["a"] * 501}, 422),
        ("/api/texts", {"texts": ["a"] * 3}, 422),
        ("/api/texts", {"texts": [*TEXTS, "  "]}, 422),
        ("/api/texts", {"texts": TEXTS, "labels": ["a"]}, 422),
        ("/api/words/word-vectors/near", {"word": "a" * 101}, 422),
    ],
)
def test_limits(post, path, fields, status):
    assert post(path, fields, status).json()["error"]["what"]


def test_every_listed_set_belongs_to_a_model_that_embeds(call):
    found = call("/api/embeddings").json()
    reads = {one["id"]: one["reads"] for one in found["models"]}
    assert reads["digits-vit"] == "images"
    assert reads["gpt-mini"] == reads["elmo-mini"] == "texts"
    assert reads["word-vectors"] == "words"
    assert "translator-en-de" not in reads
    installed = {one["id"]: not one["install"] for one in found["projections"]}
    assert installed == {"pca": True, "tsne": find_spec("sklearn") is not None, "umap": find_spec("umap") is not None}


def test_all_digits_are_mapped(post):
    pytest.importorskip("sklearn")
    points = post("/api/embeddings/digits-vit/points", {"set": "digits"}).json()
    assert points["count"] == 1797
    assert points["labels"][:10] == list(range(10))
    assert post("/api/embeddings/digits-vit/points", {"set": "test-1000"}).json()["count"] == 359
