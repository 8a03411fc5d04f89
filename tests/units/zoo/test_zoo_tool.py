"""tools/zoo.py: from a finished run to a model of the zoo."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from safetensors.torch import load_file

import patchword
from patchword.core.errors import UserError
from patchword.recipes.vectors.words import WordVectors
from patchword.zoo.card import read_card
from support.material import QUICK, UNSEALED
from support.source_code import load_tool

pytestmark = UNSEALED  # an entry is staged without a seal

FACTS = {
    "task": "classes of digits",
    "data": "digits of scikit-learn",
    "data_licence": "CC BY 4.0",
    "licence": "MIT",
    "limits": "It was trained for one epoch.",
    "uses": ["patchword predict zoo:tiny one.png"],
    "dtype": "bfloat16",
    "sample": {"source": "the test set", "licence": "CC BY 4.0"},
}
TINY = {**FACTS, "name": "tiny", "command": f"patchword train digits-vit {' '.join(QUICK)}"}
VECTORS = {**FACTS, "name": "words", "command": "patchword vectors train a.txt", "seed": 0, "made": "1 s on one core"}


@pytest.fixture
def tool(monkeypatch, tmp_path):
    """The tool, with a package in a temporary folder."""
    found = load_tool("zoo")
    import zoo_facts

    package = tmp_path / "package"
    monkeypatch.setattr(zoo_facts, "PACKAGE", package)
    monkeypatch.setattr(found, "HOMES", {"zoo": package / "models"})
    write_facts(package, TINY, VECTORS)
    return found


def write_facts(package: Path, *facts: dict) -> None:
    package.mkdir(exist_ok=True)
    (package / "cards.yaml").write_text(yaml.safe_dump(list(facts)))


@pytest.fixture
def sample(tool, trained, tmp_path):
    return f"data={tool.sample_images(trained, 20, tmp_path / 'images')}"


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_an_entry_is_a_run_with_smaller_weights_and_a_card(tool, trained, sample):
    folder = tool.add(trained, "tiny", [sample])
    card, weights = read_card(folder), load_file(folder / "model.safetensors")
    assert {str(one.dtype) for one in weights.values() if one.ndim > 1} == {"torch.bfloat16"}
    assert {str(one.dtype) for one in weights.values() if one.ndim == 1} == {"torch.float32"}
    assert (folder / "model.safetensors").stat().st_size < 0.7 * (trained / "model.safetensors").stat().st_size
    assert card.parameters == sum(one.numel() for one in patchword.load(trained).parameters())
    assert card.score.before == pytest.approx(patchword.evaluate(trained, device="cpu", data="digits").score, abs=1e-6)
    assert card.score.value == pytest.approx(patchword.evaluate(folder, device="cpu", data="digits").score, abs=1e-6)
    assert (card.sample.examples, card.sample.settings) == (20, {"data": "sample/labels.csv"})
    assert "It was trained for one epoch." in (folder / "README.md").read_text()
    assert not (folder / "checkpoints").exists()


def test_the_same_run_gives_the_same_bytes(tool, trained, sample):
    folder = tool.add(trained, "tiny", [sample])
    before = contents(folder)
    with pytest.raises(UserError, match="--replace"):
        tool.add(trained, "tiny", [sample])
    assert contents(tool.add(trained, "tiny", [sample], replace=True)) == before


def test_no_folder_of_the_machine_is_published():
    facts = load_tool("zoo_facts")
    recipe = {"text": ["/home/me/a.txt", "b.txt"], "train": "/d/a.en,/d/a.de", "model": {"name": "hf:maker/model"}}
    assert facts.without_folders(recipe) == {
        "text": ["a.txt", "b.txt"],
        "train": "a.en,a.de",
        "model": {"name": "hf:maker/model"},
    }


@pytest.mark.parametrize("field", ["licence", "limits", "uses", "sample"])
def test_a_fact_that_is_missing_is_named(tool, trained, sample, tmp_path, field):
    write_facts(tmp_path / "package", {name: value for name, value in TINY.items() if name != field})
    with pytest.raises(UserError, match=f"not complete.*{field}"):
        tool.add(trained, "tiny", [sample])
    assert not (tmp_path / "package" / "models").exists()


def test_a_command_of_another_run_is_an_error(tool, trained, sample, tmp_path):
    write_facts(tmp_path / "package", {**TINY, "command": f"{TINY['command']} learning_rate=0.5"})
    with pytest.raises(UserError, match=r"not the command.*learning_rate"):
        tool.add(trained, "tiny", [sample])


def test_how_a_model_is_trained_may_be_in_a_file_of_its_own(tool, tmp_path):
    import zoo_facts

    training = {"name": "tiny", "recipe": "bert-pretrain", "settings": ["text={data}/a.txt"], "licence": "CC BY-SA 4.0"}
    (tmp_path / "package" / "models.yaml").write_text(yaml.safe_dump([training]))
    write_facts(
        tmp_path / "package", {name: value for name, value in TINY.items() if name not in ("command", "licence")}
    )
    facts = zoo_facts.facts_of("tiny")
    assert facts["command"] == "patchword train bert-pretrain text=a.txt"
    assert facts["licence"] == "CC BY-SA 4.0"


def test_word_vectors_are_scored_on_analogies(tool, tmp_path):
    words = ("man", "woman", "king", "queen")
    rows = np.array([[1, 0, 0], [1, 1, 0], [1, 0, 2], [1, 1, 2]], np.float32)
    WordVectors(words, rows).save(tmp_path / "words.txt")
    (tmp_path / "questions.txt").write_text("man woman king queen\nking queen man woman\n")
    folder = tool.add_vectors(tmp_path / "words.txt", "words", [f"analogies={tmp_path / 'questions.txt'}"])
    card = read_card(folder)
    assert (card.score.value, card.score.examples, card.kind) == (1.0, 2, "word-vectors")
    assert load_file(folder / "model.safetensors")["vectors"].dtype == torch.bfloat16
    assert "recipe.yaml" not in (folder / "README.md").read_text()


def test_the_images_of_a_sample_are_those_of_the_test_set(tool, trained, tmp_path):
    labels = tool.sample_images(trained, 20, tmp_path / "images").read_text().splitlines()
    assert labels[0] == "path,label"
    assert [line.split(",")[1] for line in labels[1:]] == [f'"{digit}"' for digit in range(10) for _ in range(2)]
    assert len(list((tmp_path / "images").glob("*.png"))) == 20


def test_the_tool_prints_the_folder(tool, trained, sample, capsys, tmp_path):
    tool.main(["add", str(trained), "--name", "tiny", "--sample", sample])
    assert capsys.readouterr().out.strip().endswith("models/tiny")
    assert json.loads((tmp_path / "package" / "models" / "tiny" / "card.json").read_text())["name"] == "tiny"


def test_the_full_score_may_read_the_data_elsewhere(tool, trained, sample, tmp_path):
    scores = load_tool("zoo_scores")
    assert scores.full_score(trained, [sample]).examples == 20
    (trained_elsewhere := tmp_path / "run").mkdir()
    for name in ("model.safetensors", "config.json", "evaluation.json"):
        if (trained / name).is_file():
            (trained_elsewhere / name).write_bytes((trained / name).read_bytes())
    recipe = yaml.safe_load((trained / "recipe.yaml").read_text()) | {"data": str(tmp_path / "gone")}
    (trained_elsewhere / "recipe.yaml").write_text(yaml.safe_dump(recipe))
    with pytest.raises(UserError, match="gone"):
        scores.full_score(trained_elsewhere)
    assert scores.full_score(trained_elsewhere, ["data=digits"]).metric == "accuracy"
