"""Pretrained models by name, against a hub on the loopback."""

import json
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch
import transformers
from huggingface_hub import constants
from PIL import Image

import patchword
from patchword.analysis.published.image import PUBLISHED
from patchword.core.errors import UserError
from patchword.models import REGISTRY
from patchword.recipes.model_choice import weights_path
from patchword.recipes.schema.fields import whole_path
from patchword.recipes.schema.recipe import ModelChoice
from patchword.recipes.text.model import open_text_model
from patchword.weights.hub import pretrained
from patchword.weights.hub.cache import cached_folder
from patchword.weights.hub.download import fetch
from patchword.weights.hub.files import choose_files, is_complete
from patchword.weights.hub.name import HubName
from support.helpers import TINY_TEXT, pixels, randomise
from support.hub.connection import connected
from support.hub.loopback_hub import LoopbackHub, Repository
from support.hub.repositories import VOCABULARY, bert, sentence_encoder, vit
from support.material import write_classes

NAME = HubName("maker", "model")
COMMIT, NEWER = "a" * 40, "b" * 40
WEIGHTS = bytes(range(256)) * 4000


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[LoopbackHub]:
    """A hub, and an empty cache."""
    with connected(monkeypatch, tmp_path / "cache") as served:
        yield served


@pytest.fixture
def simple(hub: LoopbackHub) -> Repository:
    """A repository with files that are fetched and files that are not."""
    found = Repository(
        {
            "README.md": b"read me",
            "config.json": b'{"a": 1}',
            "model.safetensors": WEIGHTS,
            "modeling_own.py": b"raise SystemExit",
            "preprocessor_config.json": b"{}",
            "pytorch_model.bin": b"\x80\x02",
            "1_Pooling/config.json": b"{}",
        }
    )
    hub.repositories["maker/model"] = found
    return found


# Names


def test_a_name_has_an_owner_a_repository_and_perhaps_a_revision():
    assert HubName.parse("hf:google/vit-base-patch16-224") == HubName("google", "vit-base-patch16-224", "main")
    assert HubName.parse("hf:a/b_c.d@refs/pr/3") == HubName("a", "b_c.d", "refs/pr/3")
    assert str(HubName.parse("hf:a/b@v1.0")) == "hf:a/b@v1.0"
    assert str(HubName.parse("hf:a/b@main")) == "hf:a/b"


@pytest.mark.parametrize(
    "text",
    [
        "hf:",
        "hf:gpt2",
        "hf:a/b/c",
        "hf:../b",
        "hf:a/..",
        "hf:a/b@",
        "hf:a/b@../../etc",
        "hf:a/b@refs/../x",
        "hf:a/b@/etc",
        "hf:/etc/passwd",
        "hf:a\\b/c",
        "hf:a/b--c",
        "hf:a/b.git",
        "hf:a/b@x/.git",
        "hf:a/b@x//y",
        "hf:a/b\n",
        "hf:a/b?x=1",
        "hf:a b/c",
        "google/vit",
    ],
)
def test_other_names_are_refused(text):
    with pytest.raises(UserError, match="not a name of a model on the hub"):
        HubName.parse(text)
    if text.startswith("hf:"):
        with pytest.raises(UserError, match="not a name of a model on the hub"):
            patchword.load(text, download=True)


def test_recipes_keep_a_name_as_it_is(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "hf:maker" / "model").mkdir(parents=True)
    assert whole_path("hf:maker/model") == "hf:maker/model"


# Downloads


def test_only_known_files_are_fetched_and_a_second_time_none(hub, simple):
    announced = []
    folder = fetch(NAME, announced.append)
    (download,) = announced
    assert download.commit == COMMIT
    assert download.size == len(WEIGHTS) + 12
    names = [file.name for file in download.files]
    assert names == ["model.safetensors", "preprocessor_config.json", "1_Pooling/config.json", "config.json"]
    assert sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()) == sorted(names)
    assert (folder / "model.safetensors").read_bytes() == WEIGHTS
    hub.requests.clear()
    assert fetch(NAME) == fetch(HubName("maker", "model", COMMIT)) == cached_folder(NAME) == folder
    assert hub.requests == []


def test_an_update_fetches_the_newer_commit(hub, simple):
    old = fetch(NAME)
    simple.files["config.json"] = b'{"newer": 1}'
    simple.revisions["main"] = NEWER
    assert fetch(NAME) == old
    hub.requests.clear()
    new = fetch(NAME, update=True)
    assert new.name == NEWER
    assert cached_folder(NAME) == new
    assert hub.fetched("model.safetensors") == [], "the weights are the same"


def test_a_revision_is_another_model(hub, simple):
    simple.revisions["v1"] = NEWER
    assert fetch(HubName("maker", "model", "v1")).name == NEWER
    assert cached_folder(NAME) is None


def test_shards_are_fetched_with_their_index(hub, simple):
    shards = {f"model-0000{index}-of-00002.safetensors": bytes([index]) * 100 for index in (1, 2)}
    index = {"weight_map": dict(zip("ab", shards, strict=True))}
    del simple.files["model.safetensors"]
    simple.files |= {**shards, "model.safetensors.index.json": json.dumps(index).encode()}
    folder = fetch(NAME)
    assert {path.name for path in folder.iterdir()} >= set(shards)
    (folder / "model-00002-of-00002.safetensors").unlink()
    assert not is_complete(folder)
    assert cached_folder(NAME) is None


def test_a_broken_connection_continues_where_it_broke(hub, simple, monkeypatch):
    monkeypatch.setattr(constants, "DOWNLOAD_CHUNK_SIZE", 1000)  # what huggingface_hub writes at once
    simple.cuts["model.safetensors"] = [500_000, 100_000]
    assert (fetch(NAME) / "model.safetensors").read_bytes() == WEIGHTS
    ranges = [request.range for request in hub.fetched("model.safetensors")]
    assert ranges[0] == ""
    assert len(ranges) == 3
    assert all(header.startswith("bytes=") for header in ranges[1:])


def test_after_an_interruption_finished_files_are_kept(hub, simple):
    simple.cuts["preprocessor_config.json"] = [0] * 20
    with pytest.raises(UserError, match="interrupted") as error:
        fetch(NAME)
    assert "the same command again" in str(error.value)
    assert cached_folder(NAME) is None
    simple.cuts.clear()
    hub.requests.clear()
    assert is_complete(fetch(NAME))
    assert hub.fetched("model.safetensors") == []


@pytest.mark.parametrize("file", ["model.safetensors", "config.json"])
def test_a_wrong_digest_removes_the_file(hub, simple, file):
    right = simple.files[file]
    simple.damaged[file] = bytes([right[0] ^ 1]) + right[1:]
    with pytest.raises(UserError, match=f"{file} of hf:maker/model is damaged and was removed"):
        fetch(NAME)
    assert cached_folder(NAME) is None
    cache = Path(constants.HF_HUB_CACHE)
    assert not [path for path in cache.rglob("*") if path.is_file() and path.read_bytes() == simple.damaged[file]]
    simple.damaged.clear()
    assert (fetch(NAME) / file).read_bytes() == right


def test_a_wrong_size_is_an_error(hub, simple):
    simple.damaged["model.safetensors"] = WEIGHTS[:-1]
    with pytest.raises(UserError, match="hf:maker/model"):
        fetch(NAME)
    assert cached_folder(NAME) is None


def test_a_listed_file_that_is_missing_is_an_error(hub, simple):
    simple.missing.add("model.safetensors")
    with pytest.raises(UserError, match="a file of hf:maker/model is missing on the hub") as error:
        fetch(NAME)
    assert "model.safetensors" in str(error.value)


@pytest.mark.parametrize(
    ("refusal", "message"),
    [
        ((403, "GatedRepo"), "hf:maker/model is gated: expected an account with access, got HTTP 403"),
        ((401, "GatedRepo"), "hf:maker/model is gated"),
        ((401, ""), "hf:maker/model may not be read"),
        ((403, ""), "hf:maker/model may not be read"),
        ((404, "RepoNotFound"), "there is no public model maker/model"),
        ((500, ""), "the hub cannot serve hf:maker/model now"),
        ((200, ""), "the download of hf:maker/model was interrupted or could not start"),
    ],
)
def test_a_refusal_is_reported(hub, simple, refusal, message):
    simple.refusal = refusal
    with pytest.raises(UserError, match=message) as error:
        fetch(NAME)
    assert ("hf auth login" in error.value.hint) == (refusal[0] not in (200, 500))


def test_an_unknown_model_or_revision_is_reported(hub, simple):
    with pytest.raises(UserError, match="there is no public model maker/modle"):
        fetch(HubName("maker", "modle"))
    with pytest.raises(UserError, match=r"maker/model has no such revision: .* got v9"):
        fetch(HubName("maker", "model", "v9"))


def test_a_listing_without_a_commit_or_digest_is_refused(hub, simple, monkeypatch):
    simple.revisions["main"] = "../../../elsewhere"
    with pytest.raises(UserError, match="cannot be verified: expected the commit"):
        fetch(NAME)
    simple.revisions["main"] = COMMIT
    monkeypatch.setattr("support.hub.loopback_hub.git_hash", lambda content: None)
    with pytest.raises(UserError, match="cannot be verified: expected size and digest of each file"):
        fetch(NAME)
    assert not Path(constants.HF_HUB_CACHE).exists()


def test_a_cache_that_cannot_be_written_is_reported(hub, simple, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "file"))
    with pytest.raises(UserError, match="cannot store hf:maker/model in "):
        fetch(NAME)


def test_pickles_are_refused_by_name(hub, simple):
    del simple.files["model.safetensors"]
    with pytest.raises(UserError, match="only pickled weights") as error:
        fetch(NAME)
    assert "pytorch_model.bin" in str(error.value)
    assert "convert it once" in str(error.value)
    assert [request for request in hub.requests if "/resolve/" in request.path] == []


def test_a_repository_without_weights_or_config_is_refused():
    with pytest.raises(UserError, match="has no weights"):
        choose_files(["README.md", "config.json", "../model.safetensors"], NAME)
    with pytest.raises(UserError, match="not a model that patchword reads"):
        choose_files(["model.safetensors"], NAME)


def test_offline_and_without_a_connection(hub, simple, monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(UserError, match="HF_HUB_OFFLINE=1"):
        fetch(NAME)
    assert hub.requests == []
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(UserError, match=r"a connection to http://127\.0\.0\.1:9"):
        fetch(NAME)


def test_offline_a_model_in_the_cache_is_found(hub, simple, monkeypatch):
    folder = fetch(NAME)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert fetch(NAME) == folder


def test_a_full_disk_is_reported_before_the_download(hub, simple, monkeypatch):
    monkeypatch.setattr("patchword.core.disk_space.free_bytes", lambda path: 1000)
    with pytest.raises(UserError, match="cannot store hf:maker/model"):
        fetch(NAME)
    assert hub.fetched("model.safetensors") == []


def test_without_the_library_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "huggingface_hub", None)
    with pytest.raises(UserError, match=r"patchword\[hub\]"):
        patchword.load("hf:maker/model")


# Nothing is fetched unless the user asks for it


def test_load_does_not_download_by_itself(hub, simple):
    with pytest.raises(UserError, match="patchword get hf:maker/model@v1"):
        patchword.load("hf:maker/model@v1")
    with pytest.raises(UserError, match=r"about 346\.0 MB to download"):
        patchword.load("hf:google/vit-base-patch16-224")
    with pytest.raises(UserError, match=r"hf:microsoft/swin-tiny-patch4-window7-224 is not on this machine"):
        patchword.create("swin-tiny", pretrained=True)
    with pytest.raises(UserError, match="patchword get hf:maker/model"):
        weights_path(ModelChoice(name="hf:maker/model"))
    with pytest.raises(UserError, match="patchword get hf:maker/model"):
        open_text_model(ModelChoice(name="hf:maker/model"))
    assert hub.requests == []


@pytest.mark.parametrize("verb", ["show", "cost", "windows"])
def test_a_verb_downloads_only_if_it_is_asked_to(hub, command, tmp_path, monkeypatch, verb):
    monkeypatch.chdir(tmp_path)
    vit(tmp_path / "vit")
    hub.repositories["maker/vit"] = Repository.of_folder(tmp_path / "vit")
    code, _, complaint = command(verb, "hf:maker/vit")
    assert code == 2
    assert "`patchword get hf:maker/vit`, or add --download" in complaint
    assert hub.requests == []
    code, printed, complaint = command(verb, "hf:maker/vit", "--download")
    assert code == 0, complaint
    assert "fetching hf:maker/vit: " in complaint
    assert "fetching" not in printed
    assert command(verb, "hf:maker/vit", "--download")[2] == ""  # it is in the cache now


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("vit", ["predict", "hf:maker/vit", "photo.png"]),
        ("bert", ["fill", "hf:maker/bert", "the [MASK] sat"]),
        ("bert", ["embed", "hf:maker/bert", "the cat", "--out", "vectors.npy"]),
        ("bert", ["similar", "hf:maker/bert", "cat", "the cat sat", "on the cat"]),
        ("vit", ["train", "finetune-images", "model=hf:maker/vit", "data=photos", "epochs=1", "device=cpu"]),
    ],
)
def test_verbs_that_read_inputs_fetch_with_download_alone(hub, command, tmp_path, monkeypatch, name, words):
    monkeypatch.chdir(tmp_path)
    {"vit": vit, "bert": bert}[name](tmp_path / name)
    hub.repositories[f"maker/{name}"] = Repository.of_folder(tmp_path / name)
    write_classes(tmp_path / "photos", count=4)
    Image.new("RGB", (40, 40)).save("photo.png")
    code, _, complaint = command(*words)
    assert code == 2
    assert "add --download" in complaint
    assert hub.requests == [], "nothing is fetched without being asked"
    code, printed, complaint = command(*words, "--download")
    assert code == 0, complaint
    assert f"fetching hf:maker/{name}: " in printed + complaint


def test_create_knows_what_can_be_pretrained():
    with pytest.raises(UserError, match="no public checkpoint is known for 'pale-tiny'"):
        patchword.create("pale-tiny", pretrained=True)
    with pytest.raises(UserError, match="swim-tiny"):
        patchword.create("swim-tiny", pretrained=True)
    with pytest.raises(UserError, match="together with pretrained=True"):
        patchword.create("swin-tiny", download=True)


# The table


def test_the_table_agrees_with_the_registry_and_with_the_published_figures():
    for model, found in pretrained.PRETRAINED.items():
        parameters = REGISTRY.find(model)[1].parameters
        assert abs(found.size / (4 * parameters) - 1) < 0.11, model  # buffers and second heads are part of some files
        assert found.score in (None, PUBLISHED[model].top1 if model in PUBLISHED else None), model
        assert found.licence
    assert len({found.name.id for found in pretrained.PRETRAINED.values()}) == len(pretrained.PRETRAINED)


def test_models_pretrained_lists_the_table(command):
    code, printed, _ = command("models", "--pretrained")
    assert code == 0
    assert "hf:microsoft/swin-tiny-patch4-window7-224" in printed
    code, printed, _ = command("models", "swin-t*", "--pretrained", "--json")
    assert json.loads(printed)[0]["checkpoint"] == "hf:microsoft/swin-tiny-patch4-window7-224"
    code, _, complaint = command("models", "pale-*", "--pretrained")
    assert code == 2
    assert "no public checkpoint" in complaint


# End to end


def test_a_vit_by_name_equals_transformers(hub, command, tmp_path):
    theirs = vit(tmp_path / "vit")
    hub.repositories["maker/vit"] = Repository.of_folder(tmp_path / "vit")
    code, printed, complaint = command("get", "hf:maker/vit")
    assert (code, complaint) == (0, "")
    assert "model.safetensors" in printed
    assert f"folder: {cached_folder(HubName('maker', 'vit'))}" in printed
    hub.requests.clear()
    ours = patchword.load("hf:maker/vit")
    images = torch.randn(2, 3, 32, 32)
    with torch.no_grad():
        torch.testing.assert_close(ours(images), theirs(images).logits, atol=1e-5, rtol=0)
    assert ours.card.labels == ("ant", "bee", "cow")
    assert ours.card.normalization.mean == (0.4, 0.5, 0.6)
    Image.new("RGB", (40, 40), "red").save(tmp_path / "red.png")
    code, printed, _ = command("predict", "hf:maker/vit", tmp_path / "red.png", "--json", "--device", "cpu")
    assert code == 0
    assert command("show", "hf:maker/vit")[0] == 0
    assert command("get", "hf:maker/vit", "--json")[0] == 0
    assert hub.requests == []


def test_one_command_fine_tunes_a_model_by_its_name(hub, command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    vit(tmp_path / "vit")
    hub.repositories["maker/vit"] = Repository.of_folder(tmp_path / "vit")
    write_classes(tmp_path / "photos", ("cat", "dog"))
    words = (
        "train",
        "finetune-images",
        "model=hf:maker/vit",
        "data=photos",
        "epochs=1",
        "device=cpu",
        "--name",
        "tuned",
    )
    code, _, complaint = command(*words)
    assert code == 2
    assert "patchword get hf:maker/vit" in complaint
    assert hub.requests == []
    assert command("get", "hf:maker/vit")[0] == 0
    code, printed, complaint = command(*words)
    assert code == 0, complaint
    assert "hf:maker/vit; new head for 2 classes" in printed
    assert "name: hf:maker/vit\n" in Path("runs/tuned/recipe.yaml").read_text()
    assert patchword.load("runs/tuned").card.normalization.mean == (0.4, 0.5, 0.6)


def test_a_bert_by_name_equals_transformers(hub, command, tmp_path):
    theirs = bert(tmp_path / "bert")
    hub.repositories["maker/bert"] = Repository.of_folder(tmp_path / "bert")
    patchword.load("hf:maker/bert", download=True)
    hub.requests.clear()
    ours, tokenizer = open_text_model(ModelChoice(name="hf:maker/bert"))
    tokens = torch.tensor([[2, 5, 6, 4, 8, 3]])
    ours.eval()
    with torch.no_grad():
        torch.testing.assert_close(ours(tokens), theirs(tokens).logits, atol=1e-5, rtol=0)
    assert tokenizer.vocabulary == len(VOCABULARY)
    assert command("fill", "hf:maker/bert", "the [MASK] sat", "--device", "cpu")[0] == 0
    assert hub.requests == []


TINY_IMAGES = {"channels": 3, "classes": 3, "patch": 4, "image": 64}
FAMILIES = {
    "deit-mini-distilled": {"channels": 3, "classes": 3},
    "swin-mini": {"channels": 3, "classes": 3},
    "cvt-mini": {"channels": 3, "classes": 3},
    "pvt-mini": TINY_IMAGES,
    "resnet-mini": TINY_IMAGES,
    "regnety-mini": {"channels": 3, "classes": 3},
    "roberta-base": {**TINY_TEXT, "head": "words"},
    "albert-base": {**TINY_TEXT, "head": "words"},
    "distilbert-base": {**TINY_TEXT, "head": "words"},
    "gpt2-small": {**TINY_TEXT, "head": "words"},
    "gpt": {**TINY_TEXT, "hidden": 128, "head": "words"},
    "ernie-base": {**TINY_TEXT, "head": "words"},
    "tinybert-4-312": {**TINY_TEXT, "head": "words"},
    "mobilebert": {**TINY_TEXT, "head": "words"},
    "bigbird-base": {**TINY_TEXT, "head": "words"},
    "xlm-en": {**TINY_TEXT, "hidden": 128, "head": "words"},
}


@pytest.mark.parametrize("model", FAMILIES)
def test_a_family_by_name_equals_transformers(hub, tmp_path, model):
    """A folder that transformers wrote, served and loaded by its name."""
    patchword.save(
        randomise(patchword.create(model, **FAMILIES[model])).eval(), tmp_path / "saved", layout="huggingface"
    )
    (architecture,) = json.loads((tmp_path / "saved" / "config.json").read_text())["architectures"]
    theirs = getattr(transformers, architecture).from_pretrained(tmp_path / "saved").eval()
    vars(theirs.config).pop("hidden_act" if model == "cvt-mini" else "", None)  # which our file has, but theirs has not
    theirs.save_pretrained(tmp_path / "theirs")
    hub.repositories["maker/model"] = Repository.of_folder(tmp_path / "theirs")
    expected = pytest.warns(UserWarning, match="the exact GELU") if model == "cvt-mini" else nullcontext()
    with expected:
        ours = patchword.load("hf:maker/model", download=True)
    side = FAMILIES[model].get("image", 28)
    inputs = pixels(2, 3, side, side) if REGISTRY.reads_images(model) else torch.arange(5, 19).reshape(2, 7)
    with torch.no_grad():
        expected = theirs(inputs).logits
        torch.testing.assert_close(ours(inputs), expected, atol=1e-5, rtol=0)
    assert expected.std() > 0.01, "the inputs make a difference"


def test_a_sentence_model_by_name_is_that_of_its_folder(hub, tmp_path):
    folder = tmp_path / "sentences"
    sentence_encoder(folder)
    hub.repositories["maker/sentences"] = Repository.of_folder(folder)
    ours, expected = patchword.load("hf:maker/sentences", download=True), patchword.load(folder)
    tokens = torch.tensor([[2, 5, 6, 7, 3]])
    with torch.no_grad():
        assert torch.equal(ours(tokens), expected(tokens))
        mean = transformers.BertModel.from_pretrained(folder).eval()(tokens).last_hidden_state.mean(1)
    torch.testing.assert_close(ours(tokens), torch.nn.functional.normalize(mean), atol=1e-5, rtol=0)


def test_create_pretrained_and_get_by_a_name_of_the_registry(hub, command, tmp_path, monkeypatch):
    theirs = vit(tmp_path / "vit")
    hub.repositories["maker/vit"] = Repository.of_folder(tmp_path / "vit")
    entry = pretrained.Checkpoint(HubName("maker", "vit"), "mit", 10**5)
    monkeypatch.setitem(pretrained.PRETRAINED, "vit-exercise", entry)
    assert command("get", "vit-exercise")[0] == 0
    ours = patchword.create("vit-exercise", pretrained=True)
    images = torch.randn(2, 3, 32, 32)
    with torch.no_grad():
        torch.testing.assert_close(ours(images), theirs(images).logits, atol=1e-5, rtol=0)
    assert patchword.create("vit-exercise", pretrained=True, classes=5)(images).shape == (2, 5)
    assert len(patchword.create("vit-exercise", pretrained=True, features=True)(images)) == 1


def test_get_reports_a_mistake_in_words(hub, command):
    code, printed, complaint = command("get", "hf:maker/nothing")
    assert (code, printed) == (2, "")
    assert "there is no public model maker/nothing" in complaint
    assert "Traceback" not in complaint
    assert command("get", "swim-tiny")[0] == 2
    assert "hf:OWNER/REPO" in command("get", "--help")[1]
