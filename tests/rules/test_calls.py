"""No file of the package may run code that it finds in a file."""

import ast

import pytest

from support.source_code import SOURCE, files, imported, tree_of

FORBIDDEN_MODULES = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve", "marshal"}
FORBIDDEN_CALLS = {"eval", "exec", "torch.load", "torch.save", "numpy.load", "np.load", "yaml.load", "yaml.unsafe_load"}
UNSAFE_OPTIONS = {"weights_only=False", "allow_pickle=True", "trust_remote_code=True", "shell=True"}


def wrong_calls(tree: ast.AST) -> list[str]:
    """What could run code found in a file."""
    wrong = [name for name in imported(tree) if name.partition(".")[0] in FORBIDDEN_MODULES]
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func) if isinstance(node.func, ast.Name | ast.Attribute) else ""
            if called in FORBIDDEN_CALLS:
                wrong.append(called)
            constants = [option for option in node.keywords if isinstance(option.value, ast.Constant)]
            wrong += [option for option in map(ast.unparse, constants) if option in UNSAFE_OPTIONS]
    return wrong


def test_no_file_runs_code_that_it_reads():
    wrong = {str(path.relative_to(SOURCE)): found for path in files(SOURCE) if (found := wrong_calls(tree_of(path)))}
    assert wrong == {}


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
