"""A notebook, which runs inside an event loop, and the command train bit-equal weights and score the same."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import patchword
from patchword.core.files import read_json
from patchword.recipes.schema.fields import read_value
from support.material import differing
from support.tiny.kinds import tiny_words
from support.tiny_texts import without_seconds


def test_a_notebook_and_the_command_train_the_same(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    recipe, *fields = [*tiny_words("text"), "epochs=2", "model.dropout=0.1", "seed=3"]

    values = {name: read_value(value) for name, value in (field.split("=", 1) for field in fields)}

    async def cell() -> patchword.Run:
        return patchword.train(recipe, name="notebook", quiet=True, **values)

    run = asyncio.run(cell())
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    words = [sys.executable, "-m", "patchword", "train", recipe, *fields, "--name", "command"]
    done = subprocess.run(words, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    notebook, command = run.folder, Path("runs/command")
    assert differing(notebook / "model.safetensors", command / "model.safetensors") == []
    assert read_json(notebook / "evaluation.json") == read_json(command / "evaluation.json")
    assert run.evaluation().score == patchword.Run(command).evaluation().score
    assert without_seconds(notebook) == without_seconds(command)
    assert (notebook / "recipe.yaml").read_bytes() == (command / "recipe.yaml").read_bytes()
