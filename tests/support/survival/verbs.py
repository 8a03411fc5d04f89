"""Ways to open a run: from Python, and each verb of the command line that reads it, in this process."""

import io
import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from unittest.mock import patch

import numpy as np
from PIL import Image

import patchword
from patchword.cli import main
from patchword.core.errors import UserError

Opened = Callable[[Path], str]  # returns what the error says, empty if there is none

TEXT = "a good film"


def from_python(kind: str) -> dict[str, Opened]:
    """Return the ways to open a run of images or texts from Python."""
    given = np.zeros((8, 8), np.uint8) if kind == "images" else TEXT
    return {
        "patchword.load": lambda folder: _said(lambda: patchword.load(folder)),
        "patchword.pipeline": lambda folder: _said(lambda: patchword.pipeline(folder, device="cpu")(given)),
    }


def verbs(kind: str) -> dict[str, Opened]:
    """Return the verbs that open a run of images or texts."""
    given: Sequence[str | Callable[[Path], str]] = [_image if kind == "images" else TEXT, "--device", "cpu"]
    found = {
        "predict": _verb("predict", str, *given),
        "evaluate": _verb("evaluate", str, "--device", "cpu"),
        "attention": _verb("attention", str, *given, "--out", _beside("attention")),
        "export": _verb("export", str, "--torch", _beside("exported.pt2")),
        "resume": _verb("train", _recipe, "--name", _name, "--runs", _beside(""), "--resume"),
        "verify": _verb("verify", str),
    }
    return found if kind == "images" else {**found, "embed": _verb("embed", str, *given, "--json")}


def _verb(*words: str | Callable[[Path], str]) -> Opened:
    def opened(folder: Path) -> str:
        return _complaint([word if isinstance(word, str) else word(folder) for word in words])

    return opened


def _complaint(words: Sequence[str]) -> str:
    """Run a verb; return its error. Another exit than with an error of the user's raises a RuntimeError."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    with redirect_stdout(out), redirect_stderr(err), patch.object(sys, "argv", ["patchword", *words]):
        try:
            main()
        except SystemExit as ended:
            code = int(ended.code or 0)
    if code == 0:
        return ""
    if code == 1 and words[0] == "verify":
        return "\n".join(line for line in out.getvalue().splitlines() if line.split()[1:2] == ["changed"])
    if code != 2 or "error: " not in err.getvalue() or "Traceback" in err.getvalue():
        raise RuntimeError(f"exit code {code}: {err.getvalue()[-500:]}")
    return err.getvalue()


def _said(opens: Callable[[], object]) -> str:
    try:
        opens()
    except UserError as error:
        return str(error)
    return ""


def _image(folder: Path) -> str:
    path = folder.parent / "image.png"
    if not path.exists():
        Image.fromarray(np.zeros((8, 8), np.uint8)).save(path)
    return str(path)


def _beside(name: str) -> Callable[[Path], str]:
    return lambda folder: str(folder.parent / name)


def _recipe(folder: Path) -> str:
    return str(folder / "recipe.yaml")


def _name(folder: Path) -> str:
    return folder.name
