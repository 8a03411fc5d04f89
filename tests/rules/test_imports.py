"""The rules of the house, read off the source: who imports whom, what is never called, how long a model file may be."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

import patchword

SOURCE = Path(patchword.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))

# docs/architecture.md has the same table: imports run downwards only.
ALLOWED = {
    "core": set(),
    "kernels": {"core"},
    "layers": {"core", "kernels"},
    "fusion": {"core", "kernels", "layers"},
    "models": {"core", "layers"},
    "weights": {"core", "layers", "models"},
    "data": {"core"},
    "objectives": {"core", "layers"},
    "training": {"core"},
    "analysis": {"core", "layers", "models"},
    "recipes": {"core", "layers", "fusion", "models", "weights", "data", "objectives", "training"},
    "bench": {"core", "layers", "fusion", "models", "weights", "data", "objectives", "training", "analysis"},
    "timing": {"core", "layers", "fusion", "models", "weights", "data", "objectives", "training", "analysis"},
    "inspection": {"core", "layers", "models", "weights", "data", "objectives", "training", "analysis", "recipes"},
    "studies": {"core", "layers", "models", "data", "objectives", "analysis", "recipes", "inspection"},
    "reports": {"core", "layers", "data", "objectives", "analysis", "recipes", "timing", "inspection", "studies"},
    "serving": {"core", "models", "weights", "data", "analysis"},
    "lab": {"core", "serving", "analysis", "reports"},
}
ALLOWED["cli"] = ALLOWED.keys() - {"layers"}

FORBIDDEN_MODULES = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve", "marshal"}
FORBIDDEN_CALLS = {"eval", "exec", "torch.load", "torch.save", "numpy.load", "np.load", "yaml.load", "yaml.unsafe_load"}
UNSAFE_OPTIONS = {"weights_only=False", "allow_pickle=True", "trust_remote_code=True", "shell=True"}


def imported(tree: ast.AST) -> Iterator[str]:
    """Every module or name an import statement fetches, wherever it stands."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{'.' * node.level}{node.module or ''}.{alias.name}" for alias in node.names)


def wrong_imports(package: str, tree: ast.AST) -> list[str]:
    """What a file of the sub-package `package` imports and may not."""
    wrong = []
    for name in imported(tree):
        root, _, rest = name.partition(".")
        target = rest.partition(".")[0]
        if name.startswith("."):
            wrong.append(f"{name} (relative)")
        elif root == "patchword" and target not in ALLOWED[package] | {package, "__version__"}:
            wrong.append(name)
    return wrong


def wrong_calls(tree: ast.AST) -> list[str]:
    """What could run code found in a file."""
    wrong = [name for name in imported(tree) if name.partition(".")[0] in FORBIDDEN_MODULES]
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            if called in FORBIDDEN_CALLS:
                wrong.append(called)
            wrong += [ast.unparse(option) for option in node.keywords if ast.unparse(option) in UNSAFE_OPTIONS]
    return wrong


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_file_keeps_the_rules(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert wrong_calls(tree) == []
    if path.parent != SOURCE:
        package = path.relative_to(SOURCE).parts[0]
        assert package in ALLOWED, "a new sub-package needs its row in the table"
        assert wrong_imports(package, tree) == []


@pytest.mark.parametrize(
    ("package", "source", "wrong"),
    [
        ("core", "import torch\nfrom patchword.core.grid import Grid", []),
        ("core", "from patchword.layers import Block", ["patchword.layers.Block"]),
        ("core", "def late():\n    import patchword.models.registry", ["patchword.models.registry"]),
        ("training", "from patchword import models", ["patchword.models"]),
        ("data", "from patchword import create\nimport patchword", ["patchword.create", "patchword"]),
        ("layers", "from patchword.kernels.window import attend", []),
        ("layers", "from .attention import core", [".attention.core (relative)"]),
        ("cli", "from patchword.layers.block import Block", ["patchword.layers.block.Block"]),
        ("cli", "from patchword.recipes import find\nfrom patchword import __version__", []),
    ],
)
def test_the_checker_finds_a_wrong_import(package, source, wrong):
    assert wrong_imports(package, ast.parse(source)) == wrong


@pytest.mark.parametrize(
    ("source", "wrong"),
    [
        ("import pickle", ["pickle"]),
        ("from pickle import loads", ["pickle.loads"]),
        ("torch.load(path, weights_only=True)", ["torch.load"]),
        ("read(path, weights_only=False)", ["weights_only=False"]),
        ("exec(text)\neval(text)", ["exec", "eval"]),
        ("model.eval()\nhint = 'torch.load(path)'", []),
    ],
)
def test_the_checker_finds_a_wrong_call(source, wrong):
    assert wrong_calls(ast.parse(source)) == wrong


@pytest.mark.parametrize("path", sorted((SOURCE / "models").rglob("*.py")), ids=lambda path: path.stem)
def test_a_model_file_is_short(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 200


@pytest.mark.parametrize("module", ["patchword", "patchword.cli"])
def test_importing_does_not_wait_for_torch(module):
    spec = find_spec(module)
    if spec is None or spec.origin is None:
        pytest.skip(f"{module} is not written yet")
    script = f"import {module}, sys; print({{'torch', 'transformers', 'matplotlib'}} & sys.modules.keys() or 'none')"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "none"
