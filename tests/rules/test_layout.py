"""How files are laid out: short model files, small folders, helpers of tests in one place."""

import ast
from collections import Counter

import pytest

from support.source_code import ROOT, SOURCE, TESTS, files, imported, tree_of

MOST_FILES = 16


def test_model_files_are_short():
    lengths = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in files(SOURCE / "models")}
    assert {str(path.relative_to(SOURCE)): length for path, length in lengths.items() if length > 200} == {}


def crowded(folders: Counter[str]) -> dict[str, int]:
    return {folder: count for folder, count in sorted(folders.items()) if count > MOST_FILES}


def test_no_folder_holds_many_files():
    """Python files side by side, without __init__.py and conftest.py."""
    paths = [path for path in [*files(SOURCE), *files(TESTS)] if path.name not in ("__init__.py", "conftest.py")]
    assert crowded(Counter(str(path.parent.relative_to(ROOT)) for path in paths)) == {}


def test_no_two_test_files_share_a_name():
    """pytest imports a test file by its name alone, and refuses the second of a name."""
    names = Counter(path.name for path in files(TESTS) if path.name.startswith("test_"))
    assert {name: count for name, count in names.items() if count > 1} == {}


def imports_of_tests(tree: ast.AST) -> list[str]:
    """The imports of a test file that lead to another test file, or to a helper that is not in tests/support."""
    return [name for name in imported(tree) if name.split(".")[0] in ("tests", "conftest") or "test_" in name]


def test_tests_import_no_tests():
    found = {str(path.relative_to(TESTS)): imports_of_tests(tree_of(path)) for path in files(TESTS)}
    assert {path: names for path, names in found.items() if names} == {}


def test_helpers_of_tests_are_in_support():
    """A file outside tests/support is a test or a conftest.py."""
    helpers = [path.relative_to(TESTS) for path in files(TESTS) if not path.name.startswith("test_")]
    assert [str(path) for path in helpers if path.parts[0] != "support" and path.name != "conftest.py"] == []


@pytest.mark.parametrize(
    ("source", "wrong"),
    [
        ("from tests.units.test_cli import run", ["tests.units.test_cli.run"]),
        ("from test_cli import run", ["test_cli.run"]),
        ("from conftest import Command", ["conftest.Command"]),
        ("from support.material import QUICK\nimport pytest", []),
    ],
)
def test_the_checker_finds_an_import_of_a_test(source, wrong):
    assert imports_of_tests(ast.parse(source)) == wrong
