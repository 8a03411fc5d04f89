"""No circles: no two packages import each other, and no modules of one package do, not even inside a function."""

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import patchword

SOURCE = Path(patchword.__file__).parent


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts).removesuffix(".__init__")


MODULES = {name_of(path): path for path in SOURCE.rglob("*.py")}


def imports_of(path: Path) -> set[str]:
    """The modules of this library that a file imports, wherever the import statement is."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= inner & MODULES.keys() or {node.module}
    return found & MODULES.keys()


IMPORTS = {name: imports_of(path) - {name} for name, path in MODULES.items()}


def circle(graph: dict[str, set[str]]) -> list[str]:
    """A circle of the graph, if there is one."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_packages_have_no_circle():
    graph: dict[str, set[str]] = {}
    for name, imported in IMPORTS.items():
        if name.count("."):
            package = name.split(".")[1]
            found = {other.split(".")[1] for other in imported if other.count(".")}
            graph.setdefault(package, set()).update(found - {package})
    assert circle(graph) == []


@pytest.mark.parametrize("package", ["recipes", "inspection", "studies", "reports", "timing"])
def test_modules_have_no_circle(package):
    inside = {name for name in MODULES if name.startswith(f"patchword.{package}.")}
    assert inside
    assert circle({name: IMPORTS[name] & inside for name in inside}) == []


def test_a_circle_is_found():
    assert set(circle({"a": {"b"}, "b": {"c"}, "c": {"a"}})) == {"a", "b", "c"}
    assert circle({"a": {"b", "c"}, "b": {"c"}}) == []
