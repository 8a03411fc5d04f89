"""A type checker knows every result of the public functions: mypy --strict on a user's script finds no Any."""

import os
import subprocess
import sys
from pathlib import Path

from support.source_code import ROOT

SETUP = """
import torch

import patchword

images = torch.zeros(1, 3, 224, 224)
model = patchword.create("swin-tiny", classes=10)
run = patchword.train("digits-vit", epochs=1)
p = run.pipeline()
"""
RESULTS = {
    "model": "Pyramid",
    "model(images)": "Tensor",
    "model.encode(images)": "tuple[Tensor, Grid]",
    "model.card.labels": "tuple[str, ...]",
    'patchword.create("bert-base", head="classes")': "TextModel",
    'patchword.create("swin-tiny", features=True)(images)': "list[Tensor]",
    "patchword.create(patchword.names.swin_tiny)": "Pyramid",
    "patchword.create(str(images))": "Model",
    'patchword.create("mask-rcnn", backbone="swin-tiny")(images).boxes': "Tensor",
    'patchword.load("runs/mine")': "Model",
    'patchword.load("runs/mine", "mask-rcnn", classes=7)': "Detector",
    'patchword.load("runs/mine", **{})': "Model",
    'patchword.save(model, "folder")': "Path",
    "patchword.compile(model)(images)": "Tensor",
    "patchword.list_models()": "list[str]",
    'patchword.tokenizer("runs/mine")': "Tokenizer",
    'patchword.transform(model)("cat.png")': "Tensor",
    "run": "Run",
    "run.metrics()[0]": "dict[str, float]",
    "run.evaluation().score": "float",
    "run.report": "Path",
    "run.model()": "Model",
    "patchword.evaluate(run)": "EvaluationResult",
    'patchword.bench("vit-exercise")': "Result",
    "p": "Pipeline",
    'p("cat.png")': "Predictions",
    'p("cat.png")[0].label': "str",
    'p("cat.png")[0].probability': "float",
    'p("cat.png")[0].classes': "tuple[tuple[str, float], ...]",
    'p.embed(["a text"])': "ndarray[tuple[int, int], dtype[floating[_32Bit]]]",
    'p.fill("a [MASK]")[0].fillings[0].word': "str",
    'p.answer("question", "context").answer': "str",
    'p.tag("a text")[0].words[0].tag': "str",
    'p.translate(["a text"])': "list[str]",
    'p.generate("a text")[0].text': "str",
    'p.attention("cat.png").rollout': "ndarray[tuple[int, ...], dtype[floating[_32Bit]]]",
    "p.cost().macs": "int",
    "p.labels": "tuple[str, ...]",
}


def checked(tmp_path: Path, lines: list[str]) -> tuple[int, list[str]]:
    """Run mypy on a script; return its exit code and what it says about the lines after the setup."""
    script = tmp_path / "script.py"
    script.write_text("\n".join([SETUP.strip(), *lines, ""]))
    words = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", str(script)]
    environment = os.environ | {"MYPYPATH": str(ROOT / "src")}
    found = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    return found.returncode, [line.partition("script.py:")[2] for line in found.stdout.splitlines()]


def test_every_result_has_a_type(tmp_path):
    code, notes = checked(tmp_path, [f"reveal_type({expression})" for expression in RESULTS])
    assert code == 0, notes
    assert len(notes) == len(RESULTS)
    for (expression, expected), note in zip(RESULTS.items(), notes, strict=True):
        revealed = note.partition('Revealed type is "')[2].removesuffix('"')
        assert "Any" not in revealed, expression
        assert _without_modules(revealed) == expected, expression


def test_a_mistake_is_found(tmp_path):
    code, notes = checked(tmp_path, ['p("cat.png")[0].lable', "patchword.create(3)"])
    assert code == 1
    assert "has no attribute" in notes[0]
    assert any("No overload variant" in note for note in notes)


def _without_modules(name: str) -> str:
    """Return a type without the modules of its parts."""
    word, found = "", ""
    for character in name + " ":
        if character.isidentifier() or character.isdigit():
            word += character
        elif character == "." and word:
            word = ""
        else:
            found, word = found + word + character, ""
    return found.strip()
