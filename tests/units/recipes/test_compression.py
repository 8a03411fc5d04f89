"""Runs with a teacher and runs in 8 bits: from settings to a saved model, restarted exactly, and what is refused."""

import json
import random
from pathlib import Path

import pytest
import torch

import patchword
from patchword.layers.quantize import is_quantised
from patchword.recipes import find_recipe
from patchword.recipes.distillation.task import MAP, TaughtTask
from patchword.recipes.evaluation import evaluate
from patchword.recipes.run import Run
from patchword.recipes.schema.recipe import Recipe
from patchword.recipes.train import build_task, train
from support.material import settings, silent
from support.tiny_texts import assert_the_same_run, refusal, stop_after, vocabulary_of, write_table

FILLER = ["the", "film", "was", "seen", "by", "a", "man", "who", "sat", "near", "my", "old", "friend", "on", "day"]
SIZES = ("model=bert-tiny", "model.heads=2", "model.dropout=0", "model.attention_dropout=0", "model.pool=mean")
COMMON = (
    *SIZES,
    "device=cpu",
    "warmup=0",
    "learning_rate=1e-2",
    "batch_size=8",
    "length=24",
    "train=texts.csv",
    "tokenizer=words",
)
LARGE = ("model.width=32", "model.depth=4", "model.hidden=64")
SMALL = ("model.width=16", "model.depth=2", "model.hidden=32")


def write_texts(path: str = "texts.csv", count: int = 64) -> None:
    generator = random.Random(0)
    rows = []
    for number in range(count):
        label = ("bad", "good")[number % 2]
        words = [*generator.sample(FILLER, generator.randint(2, 8)), label]
        generator.shuffle(words)
        rows.append((" ".join(words), label))
    write_table(Path(path), rows)


def recipe(*words: str) -> Recipe:
    return find_recipe("classify-text").with_settings([*COMMON, *words])


@pytest.fixture(scope="module")
def prepared(tmp_path_factory) -> Path:
    """Texts, a tokenizer and a teacher."""
    folder = tmp_path_factory.mktemp("prepared")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        vocabulary_of([*FILLER, "good", "bad"], Path("words"))
        write_texts()
        assert train(recipe(*LARGE, "epochs=2"), Path("teacher"), silent())
    return folder


@pytest.fixture(autouse=True)
def _there(prepared, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("texts.csv", "words", "teacher"):
        Path(name).symlink_to(prepared / name)


EVERYTHING = ("teacher=teacher", "teacher.own=0.5", "teacher.hard=0.1", "teacher.states=0.1", "teacher.scores=0.01")


def test_a_student_learns_everything_there_is_and_is_saved_without_the_map():
    chosen = recipe(*SMALL, *EVERYTHING, "teacher.attention=1", "epochs=2")
    task = build_task(chosen, silent())
    assert isinstance(task, TaughtTask)
    assert [type(weighted.lesson).__name__ for weighted in task.lessons] == [
        "SoftTargets",
        "HardTargets",
        "SameStates",
        "SameScores",
        "SameAttention",
    ]
    assert [weighted.weight for weighted in task.lessons] == [1.0, 0.1, 0.1, 0.01, 1.0]
    assert not any(parameter.requires_grad for parameter in task.teacher.parameters())
    assert not task.teacher.training
    assert getattr(task.model, MAP).weight.shape == (32, 16)
    assert train(chosen, Path("student"), silent())
    student = Run(Path("student")).model()  # nothing unexpected in it
    assert not hasattr(student, MAP)
    assert evaluate(Run(Path("student")), "cpu").judged.measures["accuracy"] > 0.8


def test_a_run_with_a_teacher_and_one_in_8_bits_go_on_bit_by_bit(monkeypatch):
    for name, words in (("taught", (*SMALL, *EVERYTHING)), ("small", (*SMALL, "quantise=true", "quantise_after=3"))):
        chosen = recipe(*words, "epochs=2")
        assert train(chosen, Path(name), silent())
        stop_after(monkeypatch, 5)
        assert not train(chosen, Path(f"{name}-again"), silent())
        stop_after(monkeypatch, 0)
        assert train(chosen, Path(f"{name}-again"), silent(), resume=True)
        assert_the_same_run(Path(f"{name}-again"), Path(name))


def test_layers_alone_are_scored_by_how_close_they_are():
    words = ("teacher=teacher", "teacher.own=0", "teacher.soft=0", "teacher.states=1", "teacher.scores=1")
    assert train(recipe(*SMALL, *words, "epochs=3"), Path("first"), silent())
    records = Run(Path("first")).metrics()
    closeness = [record["validation_closeness"] for record in records]
    assert closeness[-1] > closeness[0]
    assert all(value == -record["validation_loss"] for value, record in zip(closeness, records, strict=True))
    assert "validation_accuracy" in records[0]
    second = ("model=first", "teacher=teacher", "teacher.own=0", "teacher.temperature=1")
    chosen = find_recipe("classify-text").with_settings(
        [*(word for word in COMMON if not word.startswith("model")), *second, "epochs=2"]
    )
    assert train(chosen, Path("second"), silent())
    assert Run(Path("second")).metrics()[-1]["validation_accuracy"] > 0.8


def test_a_student_begins_with_layers_of_its_teacher():
    words = ("model.width=32", "model.depth=2", "model.hidden=64", "teacher=teacher", "teacher.begin=layers")
    task = build_task(recipe(*words), silent())
    teacher = patchword.load("teacher")
    for own, other in ((0, 0), (1, 3)):
        pairs = zip(
            task.model.encoder.blocks[own].parameters(), teacher.encoder.blocks[other].parameters(), strict=True
        )
        assert all(torch.equal(a, b) for a, b in pairs)
    assert torch.equal(task.model.head.linear.weight, teacher.head.linear.weight)


@pytest.mark.usefixtures("quick_onnx")
def test_a_run_in_8_bits_tells_what_it_costs_and_is_loaded_as_it_was():
    assert train(recipe(*SMALL, "quantise=true", "epochs=2"), Path("small"), silent())
    model = patchword.load("small")
    assert is_quantised(model)
    assert model.state_dict()["head.linear.quantised.input"] > 0
    found = evaluate(Run(Path("small")), "cpu")
    output = json.loads(Path("small/evaluation.json").read_text())["compression"]
    assert [file["name"] for file in output["files"]] == ["float32", "int8"]
    assert output["files"][1]["score"] == pytest.approx(found.judged.measures["accuracy"], abs=0.2)
    assert output["difference"] < 0.1
    assert any("times as fast" in line for line in found.lines())
    plain = patchword.load("small", head="tags", classes=4)  # another head begins in float32
    assert not is_quantised(plain)


def test_a_student_in_8_bits_learns_from_a_teacher():
    task = build_task(recipe(*SMALL, "teacher=teacher", "teacher.states=1", "quantise=true"), silent())
    assert is_quantised(task.model.encoder)
    assert not is_quantised(getattr(task.model, MAP))
    assert not is_quantised(task.teacher)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("teacher=nowhere", "expected the folder of a run or of a model, got nowhere"),
        ("teacher=teacher teacher.soft=0", "all distillation losses have the weight 0"),
        ("teacher=teacher teacher.direction=1", "expected a model of width 32"),
        ("teacher=teacher teacher.scores=1 model.heads=4", "expected 2 heads, as the teacher has, got 4"),
        ("teacher=teacher teacher.states=1 teacher.layers=[1,5]", "expected 2 numbers from 1 to 4"),
        (
            "teacher=teacher teacher.states=1 model.depth=3",
            "3 student layers cannot be paired evenly with 4 teacher layers",
        ),
        ("teacher=teacher teacher.begin=layers", "has other shapes than its teacher's"),
        ("teacher=teacher teacher.states=1 compile=true", "compile=true hides the layers"),
        ("teacher=teacher label=other", "was trained on another task"),
        ("quantise=true activation_checkpointing=true", "expected activation_checkpointing=false"),
        ("teacher=teacher teacher.temperatur=2", "a recipe has no field 'teacher.temperatur'"),
    ],
)
def test_what_cannot_be_done_is_refused_before_anything_is_written(command, words, reason):
    if "label=other" in words:
        text = Path("texts.csv").read_text().splitlines()
        Path("texts.csv").unlink()
        lines = [f"{line},{number % 3}" if number else f"{line},other" for number, line in enumerate(text)]
        Path("texts.csv").write_text("\n".join(lines) + "\n")
    output = refusal(command, "train", "classify-text", *settings(*COMMON, *SMALL, *words.split()))
    assert reason in output


def test_pretraining_learns_from_a_teacher_as_distilbert_did():
    lines = [". ".join([" ".join([FILLER[number % 4]] * 4)] * 4) for number in range(40)]  # one word a story
    Path("stories.txt").write_text("\n".join(lines) + "\n")
    fixed = ("text=stories.txt", "documents=line", "cache=tokens", "held_out=0.2", "length=24", "tokenizer=words")
    fixed += ("model=bert-tiny", "model.heads=2", "model.width=32", "model.hidden=64", "sentences=packed", "device=cpu")
    base = find_recipe("bert-pretrain")
    assert train(base.with_settings([*fixed, "model.depth=4", "epochs=1", "batch_size=8"]), Path("large"), silent())
    words = ("teacher=large", "teacher.own=2", "teacher.soft=5", "teacher.direction=1", "teacher.begin=layers")
    chosen = base.with_settings([*fixed, "model.depth=2", "epochs=8", "batch_size=8", "learning_rate=3e-3", *words])
    task = build_task(chosen, silent())
    assert [weighted.weight for weighted in task.lessons] == [5.0, 1.0]
    assert train(chosen, Path("student"), silent())
    assert torch.equal(task.model.embedding.words.weight, patchword.load("large").embedding.words.weight)
    losses = [record["loss"] for record in Run(Path("student")).metrics()]
    assert losses[-1] < 0.9 * losses[0]
    own = base.with_settings([*fixed, "model.depth=2", *words, "teacher.own=0", "teacher.soft=0", "teacher.states=1"])
    assert build_task(own, silent()).validate().score < 0
