"""Files made to run code, to fill the memory or to confuse: nothing runs, and each is one clear error."""

import importlib
import io
import json
import pickle
import sys
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from patchword.core.errors import UserError
from patchword.core.files import parse_json, read_json
from patchword.core.formats.safe_yaml import parse_yaml
from patchword.recipes.schema.reading import read_recipe
from patchword.weights import load, save
from support.helpers import tiny, tiny_text
from support.material import write_classes
from support.tiny_texts import refusal, write_table

CANARY = "canary"  # what every gadget would make in the folder one is in
COMMAND = f"touch {CANARY}"
PYTHON = f"open('{CANARY}', 'w').close()"
GADGETS: dict[str, tuple[str, tuple[object, ...]]] = {
    "os": ("os system", (COMMAND,)),
    "posix": ("posix system", (COMMAND,)),
    "popen": ("os popen", (COMMAND,)),
    "mkdir": ("os mkdir", (CANARY,)),
    "eval": ("builtins eval", (PYTHON,)),
    "exec": ("builtins exec", (PYTHON,)),
    "open": ("builtins open", (CANARY, "w")),
    "io": ("io open", (CANARY, "w")),
    "codecs": ("codecs open", (CANARY, "w")),
    "call": ("subprocess call", (["touch", CANARY],)),
    "run": ("subprocess run", (["touch", CANARY],)),
    "Popen": ("subprocess Popen", (["touch", CANARY],)),
    "check_output": ("subprocess check_output", (["touch", CANARY],)),
    "getoutput": ("subprocess getoutput", (COMMAND,)),
    "spawn": ("pty spawn", (["touch", CANARY],)),
    "timeit": ("timeit timeit", (PYTHON, "pass", time.perf_counter, 1)),
    "profile": ("cProfile run", (PYTHON,)),
    "trace": ("bdb Bdb.run", (None, PYTHON)),
    "runpy": ("runpy run_path", ("evil.py",)),
    "resolve": ("pkgutil resolve_name", ("os:system",)),
    "import": ("importlib import_module", ("evil",)),
    "numpy": ("numpy savetxt", (CANARY, [1.0])),
    "torch": ("torch save", ([1], CANARY)),
    "pathlib": ("pathlib Path.touch", (Path(CANARY),)),
}


def gadget(name: str) -> bytes:
    """A pickle that calls a function when it is opened."""
    function, arguments = GADGETS[name]
    module, _, inner = function.partition(" ")
    head = b"\x80\x04" + b"\x8c" + bytes([len(module)]) + module.encode() + b"\x8c" + bytes([len(inner)])
    return head + inner.encode() + b"\x93" + pickle.dumps(arguments, 3)[2:-1] + b"R."


def zipped(content: bytes, name: str = "archive/data.pkl") -> bytes:
    """As torch.save writes it."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(name, content)
        archive.writestr("archive/version", "3\n")
    return file.getvalue()


def npy(content: bytes) -> bytes:
    """An .npy of objects, whose array is a pickle."""
    header = "{'descr': '|O', 'fortran_order': False, 'shape': (1,), }"
    header += " " * (63 - (len(header) + 10) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + content


def polyglot(content: bytes) -> bytes:
    """A sound .safetensors file with a pickle inside its header and a zip behind its end."""
    header = json.dumps({"__metadata__": {"x": content.hex()}}).encode()
    return len(header).to_bytes(8, "little") + header + zipped(content)


WRAPPERS = {
    "model.pt": bytes,
    "model.pth": zipped,
    "pytorch_model.bin": zipped,
    "model.ckpt": bytes,
    "model.joblib": bytes,
    "model.pkl": bytes,
    "model.safetensors": bytes,
    "other.safetensors": zipped,
    "poly.safetensors": polyglot,
    "model.npy": npy,
    "model.npz": lambda content: zipped(npy(content), "weights.npy"),
    "weights.hdf5": bytes,
    "vectors.bin": bytes,
    "vectors.txt": bytes,
    ".metadata": bytes,
    "tokenizer.json": bytes,
    "config.json": bytes,
    "recipe.yaml": bytes,
}
ENTRANCES: dict[str, tuple[str, ...]] = {
    "cost": ("cost", "{}"),
    "show": ("show", "{}"),
    "export": ("export", "{}", "--torch", "x.pt2"),
    "predict": ("predict", "{}", "a text"),
    "evaluate": ("evaluate", "{}"),
    "embed": ("embed", "{}", "a text"),
    "fill": ("fill", "{}", "the [MASK]"),
    "generate": ("generate", "{}", "a"),
    "translate": ("translate", "{}", "a"),
    "similar": ("similar", "{}", "a", "a b"),
    "attention": ("attention", "{}", "a text"),
    "recipe": ("train", "{}"),
    "model": ("train", "classify-text", "model={}", "train=a.csv"),
    "tokenizer": ("train", "classify-text", "tokenizer={}", "train=a.csv"),
    "teacher": ("train", "deit-distillation", "teacher={}", "data=pets"),
    "vectors": ("train", "over-vectors", "vectors={}", "train=a.csv"),
    "data": ("train", "image-folder-vit", "data={}"),
    "texts": ("train", "classify-text", "train={}"),
    "check": ("data", "check", "{}"),
    "near": ("vectors", "near", "{}", "word"),
    "pieces": ("tokenizer", "show", "{}", "a text"),
}


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder to be in, with data of the user's and a module that would be imported."""
    monkeypatch.chdir(tmp_path)
    write_table(tmp_path / "a.csv", [["a good one", "x"], ["a bad one", "y"]] * 6)
    write_classes(tmp_path / "pets", count=10)
    (tmp_path / "evil.py").write_text(PYTHON)
    return tmp_path


@pytest.mark.parametrize("name", ["os", "exec", "open", "run", "timeit", "import", "pathlib", "numpy"])
def test_the_gadgets_do_run_where_they_are_let(here, monkeypatch, name):
    """The control: without it the tests below would prove nothing."""
    monkeypatch.syspath_prepend(str(here))
    pickle.loads(gadget(name))
    assert (here / CANARY).exists()


def tried(here, command, entrance, numbers):
    """Gadgets in files of different kinds, given as the file and as the folder it lies in."""
    for number in numbers:
        name, kind = list(GADGETS)[number % len(GADGETS)], list(WRAPPERS)[number % len(WRAPPERS)]
        folder = here / f"{number}-{kind}"
        folder.mkdir()
        (folder / kind).write_bytes(WRAPPERS[kind](gadget(name)))
        given = folder if number % 2 else folder / kind
        refusal(command, *(word.replace("{}", str(given)) for word in ENTRANCES[entrance]))
    assert not (here / CANARY).exists()


@pytest.mark.parametrize("entrance", ENTRANCES)
def test_no_entrance_runs_a_file(here, command, entrance):
    """Some of them here, others at the next entrance; below all of them at each."""
    start = list(ENTRANCES).index(entrance) * 5
    tried(here, command, entrance, range(start, start + 5))


@pytest.mark.slow
@pytest.mark.parametrize("entrance", ENTRANCES)
def test_no_entrance_runs_any_file(here, command, entrance):
    tried(here, command, entrance, range(len(GADGETS) * 3))


@pytest.mark.parametrize("kind", WRAPPERS)
def test_load_opens_no_gadget(here, kind):
    (here / "saved").mkdir()
    for name in GADGETS:
        (here / "saved" / kind).write_bytes(WRAPPERS[kind](gadget(name)))
        for given in (here / "saved" / kind, here / "saved"):
            with pytest.raises(UserError):
                load(given)
    assert not (here / CANARY).exists()


# Configurations


@pytest.fixture
def saved(here):
    save(tiny(), here / "saved")
    return here / "saved"


@pytest.mark.parametrize(
    "entry",
    [
        {"auto_map": {"AutoModel": "evil--evil.Model"}},
        {"_attn_implementation_internal": "evil/kernels"},
        {"custom_pipelines": {"x": {"impl": "evil.Pipe"}}},
        {"inner": [{"_target_": "os.system", "command": COMMAND}]},
    ],
)
def test_a_config_that_names_code_is_refused(saved, entry):
    config = read_json(saved / "config.json")
    (saved / "config.json").write_text(json.dumps(config | entry))
    with pytest.raises(UserError, match=r"requests code to run"):
        load(saved)


@pytest.mark.parametrize(
    ("kind", "place", "reason"),
    [
        ("evil.Transformer", "", r"code that comes with the folder.*got evil\.Transformer"),
        ("evil.deep.Pooling", "", r"code that comes with the folder"),
        ("os.system", "", r"lists unsupported modules.*system"),
        ("evil/evil--evil.Transformer", "", r"lists unsupported modules.*names of modules"),
        (f"{PYTHON}.Transformer", "", r"lists unsupported modules.*names of modules"),
        (["os", "Transformer"], "", r"lists unsupported modules.*names of modules"),
        ("models.Transformer", "..", r"lists unsupported modules.*subfolders of its folder"),
        ("models.Transformer", "/etc", r"lists unsupported modules.*subfolders of its folder"),
        ("models.Transformer", None, r"lists unsupported modules.*subfolders of its folder"),
    ],
)
def test_modules_that_cannot_be_understood_are_refused(saved, monkeypatch, kind, place, reason):
    plant(saved, monkeypatch)
    (saved / "modules.json").write_text(json.dumps([{"type": kind, "path": place}]))
    with pytest.raises(UserError, match=reason):
        load(saved)
    assert not Path(CANARY).exists()


def test_modules_are_never_imported(here, monkeypatch):
    """The name is understood by its last word alone; the code that could be imported under it is not."""
    save(tiny_text(), here / "saved", layout="huggingface")
    plant(here, monkeypatch)
    modules = [{"type": "evil.Transformer", "path": ""}, {"type": "evil.deep.Pooling", "path": "1_Pooling"}]
    (here / "saved" / "modules.json").write_text(json.dumps(modules))
    (here / "saved" / "1_Pooling").mkdir()
    (here / "saved" / "1_Pooling" / "config.json").write_text('{"pooling_mode": "cls"}')
    assert load(here / "saved").card.config["pool"] == "first"
    assert not Path(CANARY).exists()
    importlib.import_module("evil")  # it would have run
    assert Path(CANARY).exists()


def plant(folder, monkeypatch) -> None:
    """A module that runs when it is imported, and can be."""
    (folder / "evil.py").write_text(PYTHON)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, "evil", raising=False)


ODD = [None, "x", "os.system", -1, 0, 10**30, 1e400, float("nan"), [], [1, 2, 3], {"a": 1}, True, [[]], 10**9]


@pytest.mark.parametrize("model", ["picture", "text"])
@pytest.mark.parametrize("odd", ODD, ids=repr)
def test_odd_sizes_in_a_card_are_errors_or_are_harmless(here, model, odd):
    save(tiny() if model == "picture" else tiny_text(), here / "m")
    card = read_json(here / "m" / "config.json")
    for field in card["config"]:
        changed = {**card, "config": {**card["config"], field: odd}}
        (here / "m" / "config.json").write_text(json.dumps(changed))
        try:
            load(here / "m")
        except UserError as error:
            assert len(str(error)) < 10_000  # noqa: PT017  most are errors, some mean nothing to the tensors


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[" * 100_000,
        '{"a": ' * 50_000,
        '{"model": ' + "9" * 5000 + "}",
        '{"model": "x", "model": "y"}',
        '{"labels": ["\\ud800"]}',
        '"words"',
        "[]",
        "null",
        "\x00",
        '{"library": "patchword"}',
        '{"library": "patchword", "model": "vit", "config": 3, "labels": 4, "preparation": []}',
        '{"model_type": ["bert"]}',
        '{"id2label": {"0": "a"}, "model_type": "vit", "hidden_size": "x"}',
    ],
    ids=range(14),
)
@pytest.mark.parametrize(
    "file",
    ["config.json", "model.safetensors.index.json", "modules.json", "preprocessor_config.json"],
)
def test_json_that_is_no_configuration_is_one_error(saved, command, file, text):
    (saved / file).write_text(text)
    (saved / "vocab.txt").unlink(missing_ok=True)
    for words in (("show", saved), ("tokenizer", "show", saved, "a")):
        code, _, complaint = command(*words)
        assert code == 0 or complaint.startswith("error: ")
    if file == "config.json":
        with pytest.raises(UserError):
            load(saved)


def test_json_is_read_in_one_way_only():
    assert parse_json('{"a": [1, "\\ud83d\\ude00"]}') == {"a": [1, "\N{GRINNING FACE}"]}
    for text in ('{"a": 1, "a": 2}', '["\\ud800"]', "[" * 100_000):
        with pytest.raises(ValueError, match=r".+"):
            parse_json(text)


LAUGHS = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{name}: &{name} [{','.join([f'*{before}'] * 9)}]\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    "text",
    [
        f"!!python/object/apply:os.system ['{COMMAND}']",
        f"epochs: !!python/object/new:subprocess.Popen [['touch', {CANARY}]]",
        f"model: !!python/name:os.system\nabout: {CANARY}",
        "kind: !!python/module:evil",
        "kind: images\nabout: !evil x",
        "kind: images\ndata: ${oc.env:HOME}\n_target_: os.system",
        LAUGHS,
        "kind: images\nabout: &a x\ndata: *a",
        "epochs: 3\nepochs: 4",
        "[" * 1_500,
        "epochs: " + "9" * 5_000,
        "about: 2001-99-99",
        "about: \x01",
        "- a\n- b",
        "? [a]\n: b",
        "kind: [images]",
        "kind: {a: b}",
        "",
    ],
    ids=range(18),
)
def test_a_recipe_is_plain_yaml(here, command, text):
    (here / "evil.yaml").write_text(text)
    with pytest.raises(UserError) as caught:
        read_recipe(here / "evil.yaml")
    assert len(str(caught.value)) < 2_000
    refusal(command, "train", "evil.yaml")
    assert not (here / CANARY).exists()


def test_plain_yaml_is_read_as_before():
    assert parse_yaml("a: [1, 2.5, x]\nb: {c: null, d: true}\n") == {"a": [1, 2.5, "x"], "b": {"c": None, "d": True}}


# Weights


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("kind", ["model.safetensors", "model.npz"])
def test_weights_that_are_not_finite_are_refused_by_name(here, value, kind):
    model = tiny()
    save(model, here / "m")
    tensors = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    tensors["head.linear.bias"][1] = value
    (here / "m" / "model.safetensors").unlink()
    if kind == "model.npz":
        np.savez(here / "m" / kind, **{name: tensor.numpy() for name, tensor in tensors.items()})
    else:
        save_file(tensors, here / "m" / kind)
    with pytest.raises(UserError, match=r"has non-finite weights in 1 of \d+ tensors[\s\S]*head\.linear\.bias: 1 of"):
        load(here / "m")


def test_a_model_without_end_is_not_begun(here):
    save(tiny(), here / "m")
    card = read_json(here / "m" / "config.json")
    (here / "m" / "config.json").write_text(json.dumps({**card, "config": {**card["config"], "depth": 10**9}}))
    with pytest.raises(UserError, match="depth"):
        load(here / "m")


def test_a_size_that_no_memory_holds_is_not_allocated_for_a_new_head(here):
    save(tiny(), here / "m")
    card = read_json(here / "m" / "config.json")
    heads = card["config"]["heads"]
    (here / "m" / "config.json").write_text(json.dumps({**card, "config": {**card["config"], "width": heads * 2**40}}))
    with pytest.raises(UserError, match=r"field .width. of model .*: expected at most 16,777,216"):
        load(here / "m", classes=7)


def test_an_npz_that_grows_without_end_is_refused(here, monkeypatch):
    from patchword.core import tensor_files as tensors

    monkeypatch.setattr(tensors, "_UNPACKED", 1000)
    np.savez_compressed(here / "a.npz", a=np.zeros(1_000_000, np.float32))
    with pytest.raises(UserError, match="more than 100 times"):
        load(here / "a.npz")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff" * 8 + b"{}",
        (2**60).to_bytes(8, "little") + b"{}",
        (2).to_bytes(8, "little") + b"{}",
        (200_000).to_bytes(8, "little") + b"[" * 200_000,
        (64).to_bytes(8, "little") + b'{"a":{"dtype":"F32","shape":[999999],"data_offsets":[0,4]}}'.ljust(64) + b"0000",
    ],
    ids=range(6),
)
def test_a_safetensors_file_that_lies_is_refused(here, content):
    (here / "model.safetensors").write_bytes(content)
    with pytest.raises(UserError):
        load(here / "model.safetensors")


def test_shards_outside_the_folder_are_refused(saved):
    for name in ("../model.safetensors", "/etc/passwd", "a/b.safetensors", "..", ""):
        (saved / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": name}}))
        with pytest.raises(UserError):
            load(saved)


@pytest.mark.parametrize("kind", ["external", "soft", "storage", "huge", "words"])
def test_hdf5_that_leads_elsewhere_is_refused(here, kind):
    h5py = pytest.importorskip("h5py")
    options = {
        "lstm": {
            "use_skip_connections": True,
            "projection_dim": 4,
            "dim": 8,
            "n_layers": 1,
            "cell_clip": 3,
            "proj_clip": 3,
        },
        "char_cnn": {
            "activation": "relu",
            "max_characters_per_token": 50,
            "embedding": {"dim": 4},
            "filters": [[1, 4]],
            "n_highway": 1,
        },
    }
    (here / "options.json").write_text(json.dumps(options))
    with h5py.File(here / "other.h5", "w") as other:
        other["char_embed"] = np.zeros((261, 4), np.float32)
    with h5py.File(here / "weights.hdf5", "w") as file:
        if kind == "external":
            file["char_embed"] = h5py.ExternalLink("other.h5", "/char_embed")
        elif kind == "soft":
            file["x"] = np.zeros((261, 4), np.float32)
            file["char_embed"] = h5py.SoftLink("/x")
        elif kind == "storage":
            file.create_dataset("char_embed", (261, 4), "f4", external=[("other.h5", 0, 261 * 16)])
        elif kind == "huge":
            file.create_dataset("char_embed", (2**40, 4), "f4", chunks=(1024, 4))
        else:
            file["char_embed"] = ["words"] * 3
    with pytest.raises(UserError, match=r"link|another file|is not in the file|cannot read"):
        load(here / "weights.hdf5")


@pytest.mark.parametrize(
    "text", [f"{'9' * 5000} 3\na 1 2 3\n", "1 2\n\xff 1 2\n", "2 3\na 1 2 nan\n", "1 1\n", "\0\0\0"]
)
def test_odd_vectors_are_one_error(here, command, text):
    for name in ("v.txt", "v.bin"):
        (here / name).write_bytes(text.encode("latin-1"))
        assert refusal(command, "vectors", "near", name, "a")


def test_a_sound_model_still_loads(saved):
    assert torch.isfinite(load(saved).head.linear.weight).all()


def test_a_header_of_very_many_tensors_is_refused(here, monkeypatch):
    from patchword.core import tensor_files as tensors

    save(tiny(), here / "m")
    length = int.from_bytes((here / "m" / "model.safetensors").read_bytes()[:8], "little")
    monkeypatch.setattr(tensors, "HEADER", length)
    load(here / "m")
    monkeypatch.setattr(tensors, "HEADER", length - 1)
    message = rf"header of .* is too long: expected at most {length - 1:,} bytes, got {length:,}\n.*PATCHWORD_HEADER="
    with pytest.raises(UserError, match=message):
        load(here / "m")
