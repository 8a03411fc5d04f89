"""Reads the source of the package and of the tests: files, syntax trees and the modules they import."""

import ast
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import patchword

SOURCE = Path(patchword.__file__).parent
TESTS = Path(__file__).parents[1]
ROOT = TESTS.parent


def files(folder: Path, pattern: str = "*.py") -> list[Path]:
    return sorted(path for path in folder.rglob(pattern) if "__pycache__" not in path.parts)


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def imported(tree: ast.AST) -> tuple[str, ...]:
    """Every module or name that an import statement loads, at any depth of the file."""
    return tuple(_imported(tree))


def _imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{'.' * node.level}{node.module or ''}.{alias.name}" for alias in node.names)


def module_name(path: Path, root: Path) -> str:
    """The dotted name of a file below the folder that holds the top-level package."""
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def graph_of(trees: Mapping[str, ast.AST]) -> dict[str, set[str]]:
    """The modules that each module imports, lazy imports included. Only modules of `trees` count.

    `from package import name` leads to the module package.name if there is one, else to the package.
    """

    def target(name: str) -> str | None:
        while name and name not in trees:
            name = name.rpartition(".")[0]
        return name or None

    found = {module: {target(name) for name in imported(tree)} - {None, module} for module, tree in trees.items()}
    return {module: {name for name in names if name is not None} for module, names in found.items()}


def circles(graph: Mapping[str, Iterable[str]]) -> list[list[str]]:
    """The groups of nodes that all reach each other (Tarjan's strongly connected components of more than one node)."""
    index: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(node: str) -> None:
        index[node] = lowest[node] = len(index)
        stack.append(node)
        for other in graph.get(node, ()):
            if other not in index:
                visit(other)
                lowest[node] = min(lowest[node], lowest[other])
            elif other in stack:
                lowest[node] = min(lowest[node], index[other])
        if lowest[node] == index[node]:
            group = stack[stack.index(node) :]
            del stack[stack.index(node) :]
            if len(group) > 1:
                found.append(sorted(group))

    for node in graph:
        if node not in index:
            visit(node)
    return sorted(found)


def load_tool(name: str) -> ModuleType:
    """Import a file of the folder tools."""
    spec = spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    module = sys.modules[name] = module_from_spec(spec)  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module
