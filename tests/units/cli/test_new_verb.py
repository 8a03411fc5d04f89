"""A new verb touches its own file and one line of cli/app.py: a toy is added through that line alone."""

from types import SimpleNamespace

import pytest

from patchword.cli.app import app
from patchword.cli.help import help_of
from patchword.core.errors import UserError
from patchword.models import REGISTRY
from support.source_code import SOURCE, files, imported, tree_of
from support.toys.worked_examples import documented_files, worked_example


def toy(name: str) -> None:
    """Print a greeting
    for a name.

    Example:

      patchword toy Ada
    """
    if name == "nobody":
        raise UserError("this name is not greeted", expected="another name", got=name, hint="try Ada")
    print(f"hello {name}")


@pytest.fixture
def registered(monkeypatch):
    """The one line that a new verb adds."""
    monkeypatch.setattr(app, "registered_commands", list(app.registered_commands))
    app.command("toy", help=help_of(toy))(toy)


def test_the_documentation_names_this_file():
    assert documented_files("a verb") == {"cli/app.py"}


def test_no_other_code_lists_the_verbs():
    """No other file imports a verb, or the file of a verb as a whole."""
    verbs = [command.callback for command in app.registered_commands]
    names = {name for verb in verbs for name in (verb.__module__, f"{verb.__module__}.{verb.__name__}")}
    found = {str(path.relative_to(SOURCE)): names & set(imported(tree_of(path))) for path in files(SOURCE)}
    assert [path for path, imports in found.items() if imports] == ["cli/app.py"]


def test_a_new_verb_runs(registered, command):
    assert command("toy", "Ada") == (0, "hello Ada\n", "")


def test_a_new_verb_is_in_the_help(registered, command):
    code, printed, _ = command("--help")
    assert code == 0
    assert "Print a greeting for a name." in printed
    code, printed, _ = command("toy", "--help")
    assert code == 0
    assert "patchword toy Ada" in printed


def test_without_the_line_there_is_no_such_verb(command):
    assert command("toy", "Ada")[0] == 2
    assert "Print a greeting" not in command("--help")[1]


def test_a_mistake_of_the_user_is_a_message(registered, command):
    code, printed, message = command("toy", "nobody")
    assert (code, printed) == (2, "")
    assert message == "error: this name is not greeted: expected another name, got nobody\n  try Ada\n"


def test_an_unknown_option_is_a_message(registered, command):
    code, _, message = command("toy", "Ada", "--loud")
    assert code == 2
    assert "No such option" in message
    assert "Traceback" not in message


def test_the_worked_example_runs(command, monkeypatch):
    (code,) = worked_example("Add a verb")
    example = SimpleNamespace()
    exec(compile(code, "count.py", "exec"), vars(example))
    monkeypatch.setattr(app, "registered_commands", list(app.registered_commands))
    app.command("count", help=help_of(example.count))(example.count)
    assert command("count", "vit-base-16")[:2] == (0, f"{REGISTRY.find('vit-base-16')[1].parameters}\n")
    code, _, message = command("count", "vit-bse-16")
    assert (code, message.splitlines()[0]) == (2, "error: no model is called 'vit-bse-16'")
