import json
import resource
import sys
from dataclasses import replace
from functools import partialmethod
from pathlib import Path

import onnx
import onnxruntime
import pytest
import torch

import patchword
from patchword.core.card import Normalization
from patchword.core.errors import UserError
from patchword.recipes.image.recipe import ImageRecipe
from patchword.weights.export import export as exporting
from patchword.weights.export.export import expected_seconds, export
from support.helpers import difference, image_families, pixels, randomise, smallest, tiny

pytestmark = pytest.mark.usefixtures("quick_onnx")

NAMES = [*map(smallest, image_families()), "deit-mini-distilled"]
SHALLOW = {  # one block of every kind, since an export takes long for each
    "swin-mini": {"depths": (2,), "heads": (2,)},
    "cvt-mini": {"depths": (1, 1)},
    "resnet-mini": {"depths": (1, 1, 1)},
}


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def described(tmp_path_factory) -> onnx.ModelProto:
    """The ONNX file of a model with labels and a preparation of its own."""
    model = tiny(depth=1, image=(32, 24))
    labels = ("Größe", *"bcdefg")
    model.card = replace(model.card, labels=labels, normalization=Normalization((0.1, 0.2, 0.3), (0.4, 0.5, 0.6)))
    return onnx.load(export(model, tmp_path_factory.mktemp("described") / "model.onnx").path)


def saved(name: str, **overrides: object) -> Path:
    """A folder with large random weights, in which no mistake can hide."""
    return patchword.save(randomise(patchword.create(name, **overrides)), "saved")


def answers(path: Path, images: torch.Tensor) -> torch.Tensor:
    """What ONNX Runtime makes of a file, without any code of ours."""
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return torch.from_numpy(session.run(None, {session.get_inputs()[0].name: images.numpy()})[0])


def check(command, model: Path, *words: object, size: tuple[int, int]) -> None:
    """The verb writes an ONNX file that answers as the model does, for any batch, and nothing else."""
    code, printed, complaint = command("export", model, "--onnx", "out/model.onnx", *words)
    assert (code, complaint) == (0, "")
    assert "checked  ONNX Runtime" in printed
    assert [path.name for path in Path("out").iterdir()] == ["model.onnx"]
    loaded = patchword.load(model)
    for count in (1, 2, 7):
        images = pixels(count, loaded.card.config["channels"], *size, seed=count + 10)
        with torch.no_grad():
            assert difference(answers(Path("out/model.onnx"), images), loaded(images)) < 1e-5


# What is written


@pytest.mark.parametrize("name", SHALLOW)
def test_a_model_answers_the_same_in_onnx_runtime(command, name):
    check(command, saved(name, **SHALLOW[name]), "--size", "29x31", size=(29, 31))


@pytest.mark.slow
@pytest.mark.parametrize("size", [(28, 28), (29, 31)])
@pytest.mark.parametrize("name", NAMES)
def test_every_family_answers_the_same_in_onnx_runtime(command, name, size):
    words = ["--size", "x".join(map(str, size))]
    if name == "mixer-mini" and size != (28, 28):
        assert "one number of patches" in command("export", saved(name), "--onnx", "model.onnx", *words)[2]
        return
    check(command, saved(name), *words, size=size)


def test_the_file_says_how_to_feed_it_and_how_to_read_it(described):
    notes = {note.key: note.value for note in described.metadata_props}
    assert notes["input"].startswith("images, float32 (batch, 3, 32, 24): red, green, blue")
    assert notes["output"].startswith("scores, float32 (batch, 7): before the softmax")
    assert json.loads(notes["mean"]) == [0.1, 0.2, 0.3]
    assert json.loads(notes["std"]) == [0.4, 0.5, 0.6]
    assert json.loads(notes["labels"]) == ["Größe", *"bcdefg"]
    card = json.loads(notes["patchword"])
    assert (card["model"], card["config"]["depth"]) == ("vit-tiny-16", 1)
    assert "weights" not in notes


def test_inputs_and_outputs_have_names(described):
    def shape(value: onnx.ValueInfoProto) -> list[object]:
        return [side.dim_param or side.dim_value for side in value.type.tensor_type.shape.dim]

    (images,), (scores,) = described.graph.input, described.graph.output
    assert (images.name, shape(images)) == ("images", ["batch", 3, 32, 24])
    assert (scores.name, shape(scores)) == ("scores", ["batch", 7])


def test_a_fixed_batch_is_fixed():
    done = export(tiny(depth=1), "model.onnx", batch=2)
    assert done.batches == (2,)
    assert done.notes["input"].startswith("images, float32 (2, 3, 32, 32)")
    assert answers(Path("model.onnx"), pixels(2, 3, 32, 32)).shape == (2, 7)
    with pytest.raises(Exception, match="invalid dimensions"):
        answers(Path("model.onnx"), pixels(3, 3, 32, 32))


@pytest.mark.slow
def test_weights_too_large_for_one_file_lie_beside_it(monkeypatch):
    monkeypatch.setattr(torch.onnx.ONNXProgram, "save", partialmethod(torch.onnx.ONNXProgram.save, external_data=True))
    model = tiny(depth=1)
    done = export(model, "out/model.onnx")
    files = {path.name: path.stat().st_size for path in Path("out").iterdir()}
    assert files.keys() == {"model.onnx", "model.onnx.data"}
    assert done.size == sum(files.values())
    assert (
        difference(answers(Path("out/model.onnx"), pixels(2, 3, 32, 32)), model(pixels(2, 3, 32, 32)).detach()) < 1e-5
    )


def test_a_program_for_torch_runs_with_gradients_on_too(command):
    folder = saved("swin-mini", **SHALLOW["swin-mini"])
    code, printed, complaint = command("export", folder, "--torch", "model.pt2", "--size", "29x31")
    assert (code, complaint) == (0, "")
    assert "checked  torch.export.load" in printed
    notes = {"notes.json": ""}
    program = torch.export.load("model.pt2", extra_files=notes).module()
    assert json.loads(notes["notes.json"])["input"].startswith("images, float32 (batch, 1, 29, 31)")
    images = pixels(5, 1, 29, 31)
    assert torch.is_grad_enabled()
    assert difference(program(images), patchword.load(folder)(images)) < 1e-6


def test_a_run_is_found_by_its_name_and_its_fields_can_be_changed(command):
    patchword.save(tiny(depth=1), "runs/mine")
    Path("runs/mine/recipe.yaml").write_text(ImageRecipe().to_yaml())
    code, printed, _ = command("export", "mine", "--torch", "mine.pt2", "--set", "image=[40, 24]", "--batch-size", "2")
    assert code == 0
    assert "random" not in printed
    images = pixels(2, 3, 40, 24)
    expected = patchword.load("runs/mine", image=(40, 24))(images)
    assert difference(torch.export.load("mine.pt2").module()(images), expected) < 1e-6


def test_a_name_has_random_weights_and_says_so(command):
    code, printed, _ = command("export", "vit-exercise", "--set", "depth=1", "--torch", "model.pt2")
    assert code == 0
    assert "vit-exercise is a registry name, so its weights are random" in printed
    notes = {"notes.json": ""}
    program = torch.export.load("model.pt2", extra_files=notes).module()
    assert json.loads(notes["notes.json"])["weights"] == "random"
    assert program(pixels(1, 1, 28, 28)).any()  # a ViT's head starts as zeros, with which every file would agree


def test_the_model_is_left_as_it_was():
    model = tiny(depth=1)
    before = {name: (id(weights), weights.requires_grad) for name, weights in model.named_parameters()}
    export(model, "model.pt2")
    assert {name: (id(weights), weights.requires_grad) for name, weights in model.named_parameters()} == before


def test_a_deeper_model_is_expected_to_take_longer():
    shallow, deep = (expected_seconds(tiny(depth=depth), Path("model.onnx")) for depth in (1, 4))
    assert 0 < shallow < deep


# What is refused


@pytest.fixture
def mistaken(monkeypatch) -> Path:
    """A saved model whose export goes wrong: the graph of other weights stands for any mistake."""
    real, other = exporting.trace, tiny(depth=1, seed=5)
    monkeypatch.setattr(exporting, "trace", lambda model, inputs: real(other, inputs))
    return patchword.save(tiny(depth=1), "saved")


@pytest.mark.parametrize("words", ["--onnx out/model.onnx", "--torch out/model.pt2"])
def test_a_file_that_answers_otherwise_is_not_kept(command, mistaken, words):
    code, printed, complaint = command("export", mistaken, *words.split())
    assert code == 2
    assert "differ from the model's" in complaint
    assert "checked" not in printed
    assert not list(Path("out").iterdir())


def test_a_file_that_is_not_kept_leaves_the_one_before(command, mistaken):
    Path("model.pt2").write_text("what lay here before")
    assert command("export", mistaken, "--torch", "model.pt2")[0] == 2
    assert Path("model.pt2").read_text() == "what lay here before"
    assert sorted(path.name for path in Path.cwd().iterdir()) == ["model.pt2", "saved"]
    assert command("export", mistaken, "--torch", "model.pt2", "--tolerance", 100)[0] == 0
    assert Path("model.pt2").stat().st_size > 1000


def test_scores_that_are_no_numbers_are_not_kept():
    model = tiny(depth=1)
    with torch.no_grad():
        model.head.linear.bias[3] = float("nan")
    with pytest.raises(UserError, match="got nan"):
        export(model, "model.pt2")
    assert not list(Path.cwd().iterdir())


@pytest.mark.parametrize("suffix", [".pt2", ".onnx"])
def test_a_full_disk_is_an_error_and_leaves_nothing(tmp_path, suffix):
    """PyTorch's own writer ended the process when a file could not grow."""
    model, before = patchword.create("vit-exercise"), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
    try:
        with pytest.raises(UserError, match="cannot write"):
            export(model, tmp_path / f"model{suffix}")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("package", ["onnx", "onnxscript", "onnxruntime"])
def test_a_missing_package_is_named_with_its_extra(command, monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    code, printed, complaint = command("export", "vit-exercise", "--onnx", "model.onnx")
    assert (code, printed) == (2, "")
    assert f"error: {package} is not installed" in complaint
    assert "pip install 'patchword[onnx]'" in complaint


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("vit-exercise", "no output was chosen: expected --onnx FILE.onnx, --torch FILE.pt2 or --triton FOLDER"),
        ("vit-exercise --onnx model.pt2", "cannot export to model.pt2: expected a name that ends in .onnx"),
        ("vit-exercise --torch model.pth", "cannot export to model.pth: expected a name that ends in .pt2"),
        ("vit-exercise --torch folder.pt2", "cannot export to folder.pt2: expected a file, got a folder"),
        ("vit-exercise --torch model.pt2 --size 28", "cannot read the size '28'"),
        ("vit-exercise --torch model.pt2 --size 0x28", "cannot read the size '0x28'"),
        (
            "vit-exercise --torch model.pt2 --batch-size 0",
            "cannot read the batch '0': expected dynamic, or a number from 1",
        ),
        ("vit-exercise --torch model.pt2 --batch-size any", "cannot read the batch 'any'"),
        ("vit-exercize --torch model.pt2", "did you mean 'vit-exercise'"),
        ("vit-exercise --torch model.pt2 --set dept=1", "did you mean 'depth'"),
        ("mixer-mini --torch model.pt2 --size 32x32", "a Mixer's weights belong to one number of patches"),
        ("vit-exercise --torch file/model.pt2", "cannot make the folder file"),
    ],
)
def test_what_cannot_be_done_is_said_before_anything_is_written(command, words, reason):
    Path("folder.pt2").mkdir()
    Path("file").touch()
    code, _, complaint = command("export", *words.split())
    assert code == 2
    assert reason in complaint
    assert "Traceback" not in complaint
    assert sorted(path.name for path in Path.cwd().rglob("*")) == ["file", "folder.pt2"]
