"""Layers compose modules: they call kernels by public functions and do not ask for the exact class of an object."""

import ast

import pytest

from support.source_code import SOURCE, files, imported, tree_of


def wrong_kernel_imports(tree: ast.AST) -> list[str]:
    """Imports from kernels that are not a public function or class: a name with an underscore in front, a check that a
    kernel can run, a module with Triton code, or anything of kernels.common."""
    wrong = []
    for name in imported(tree):
        parts = name.split(".")
        if parts[:2] != ["patchword", "kernels"]:
            continue
        private = any(part.startswith("_") for part in parts)
        triton = any(part == "triton" or part.endswith(("_triton", "launch", "tuning")) for part in parts)
        if private or triton or parts[-1].startswith("has_") or parts[2:3] == ["common"]:
            wrong.append(name)
    return wrong


def exact_classes(tree: ast.AST) -> list[str]:
    """Comparisons of the form `type(x) is ...`."""
    return [
        ast.unparse(node)
        for node in ast.walk(tree)
        if isinstance(node, ast.Compare)
        and isinstance(node.left, ast.Call)
        and ast.unparse(node.left.func) == "type"
        and isinstance(node.ops[0], ast.Is | ast.IsNot | ast.Eq | ast.NotEq | ast.In | ast.NotIn)
    ]


def in_layers(check) -> dict[str, list[str]]:
    """The offenders of each file of layers."""
    found = {str(path.relative_to(SOURCE)): check(tree_of(path)) for path in files(SOURCE / "layers")}
    return {path: wrong for path, wrong in found.items() if wrong}


def test_layers_import_public_functions_of_kernels_only():
    assert in_layers(wrong_kernel_imports) == {}


def test_layers_do_not_compare_classes():
    assert in_layers(exact_classes) == {}


@pytest.mark.parametrize(
    ("check", "source", "wrong"),
    [
        (wrong_kernel_imports, "from patchword.kernels.mlp.gelu import gelu", []),
        (
            wrong_kernel_imports,
            "from patchword.kernels.mlp.gelu import has_gelu_kernel",
            ["patchword.kernels.mlp.gelu.has_gelu_kernel"],
        ),
        (
            wrong_kernel_imports,
            "from patchword.kernels.common.availability import is_on_cuda",
            ["patchword.kernels.common.availability.is_on_cuda"],
        ),
        (wrong_kernel_imports, "from patchword.kernels.lstm.triton import run", ["patchword.kernels.lstm.triton.run"]),
        (exact_classes, "if type(x) is Linear: pass", ["type(x) is Linear"]),
        (exact_classes, "if isinstance(x, Linear) or x is None: pass", []),
    ],
)
def test_the_checker_finds_an_offender(check, source, wrong):
    assert check(ast.parse(source)) == wrong
