"""Which package may import which, and no import circles."""

import ast
import subprocess
import sys
from importlib.util import find_spec

import pytest

from support.source_code import SOURCE, circles, files, graph_of, imported, module_name, tree_of

# docs/architecture.md has the same table: imports run downwards only.
ALLOWED = {
    "core": set(),
    "zoo": {"core"},
    "kernels": {"core"},
    "layers": {"core", "kernels"},
    "fusion": {"core", "kernels", "layers"},
    "models": {"core", "layers"},
    "weights": {"core", "zoo", "layers", "models"},
    "data": {"core"},
    "objectives": {"core", "layers"},
    "training": {"core"},
    "analysis": {"core", "layers", "models"},
    "lectures": {"core", "analysis"},
    "recipes": {"core", "zoo", "layers", "fusion", "models", "weights", "data", "objectives", "training"},
    "benchmarking": {"core", "layers", "fusion", "models", "weights", "data", "objectives", "training", "analysis"},
    "timing": {"core", "layers", "fusion", "models", "weights", "data", "objectives", "training", "analysis"},
    "inspection": {"core", "layers", "models", "weights", "data", "objectives", "training", "analysis", "recipes"},
    "tuning": {"core", "layers", "models", "data", "training", "analysis", "recipes"},
    "studies": {"core", "layers", "models", "data", "objectives", "analysis", "recipes", "inspection"},
    "reports": {"core", "layers", "data", "objectives", "analysis", "recipes", "timing", "inspection", "studies"},
    "pipelines": {
        *("core", "layers", "fusion", "models", "weights", "data", "objectives", "training"),
        *("analysis", "recipes", "inspection", "reports"),
    },
    "api": {
        *("core", "layers", "models", "weights", "data", "training", "recipes"),
        *("benchmarking", "tuning", "studies", "reports", "pipelines"),
    },
    "serving": {"core", "models", "weights", "data", "analysis", "recipes", "pipelines"},
    "lab": {
        *("core", "zoo", "layers", "models", "weights", "data", "training", "analysis", "recipes", "inspection"),
        *("studies", "reports", "pipelines", "serving"),
    },
}
ALLOWED["cli"] = ALLOWED.keys() - {"layers"}


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


def test_files_import_only_what_the_table_allows():
    paths = [path for path in files(SOURCE) if path.parent != SOURCE]
    unknown = {path.relative_to(SOURCE).parts[0] for path in paths} - ALLOWED.keys()
    assert not unknown, "a new sub-package needs its row in the table"
    wrong = {
        str(path.relative_to(SOURCE)): found
        for path in paths
        if (found := wrong_imports(path.relative_to(SOURCE).parts[0], tree_of(path)))
    }
    assert wrong == {}


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


# Circles


def package_graph() -> dict[str, set[str]]:
    """The sub-packages of patchword that each of them imports."""
    graph: dict[str, set[str]] = {}
    for module, names in module_graph().items():
        package = module.split(".")[1] if "." in module else module
        targets = {name.split(".")[1] for name in names if "." in name}
        graph.setdefault(package, set()).update(targets - {package})
    return graph


def module_graph() -> dict[str, set[str]]:
    """The modules that each module imports. `patchword` itself, which loads its public names when they are first used,
    is no part of it; nor is the package that a file is in, whose __init__ Python runs before."""
    trees = {module_name(path, SOURCE.parent): tree_of(path) for path in files(SOURCE)}
    del trees["patchword"]
    return graph_of(trees)


def test_packages_have_no_circle():
    assert circles(package_graph()) == []


def test_modules_have_no_circle():
    assert circles(module_graph()) == []


@pytest.mark.parametrize(
    ("sources", "expected"),
    [
        ({"p.a": "import p.b", "p.b": "from p.a import x"}, [["p.a", "p.b"]]),
        (
            {"p.a": "def late():\n    from p import b", "p.b": "import p.c.x", "p.c": "import p.a"},
            [["p.a", "p.b", "p.c"]],
        ),
        ({"p.a": "import p.b, p.c", "p.b": "import p.c", "p.c": "import torch"}, []),
        ({"p": "from p.a import x", "p.a": "import p.b", "p.b": ""}, []),
    ],
)
def test_the_checker_finds_a_circle(sources, expected):
    assert circles(graph_of({name: ast.parse(source) for name, source in sources.items()})) == expected


# What an import waits for


@pytest.mark.parametrize("module", ["patchword", "patchword.cli"])
def test_importing_does_not_wait_for_torch(module):
    spec = find_spec(module)
    if spec is None or spec.origin is None:
        pytest.skip(f"{module} is not written yet")
    script = f"import {module}, sys; print({{'torch', 'transformers', 'matplotlib'}} & sys.modules.keys() or 'none')"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "none"
