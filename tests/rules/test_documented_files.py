"""The files that an addition touches, as docs/architecture.md names them; other tests add a toy through these files."""

import pytest

from support.source_code import SOURCE
from support.toys.worked_examples import documented_files

ADDITIONS = {
    "a family": {
        "models/__init__.py",
        "weights/names/layouts.py",
        "analysis/cost/rules.py",
        "weights/io/building.py",
        "models/resize.py",
    },
    "a kernel": set(),
    "a fusion rule": {"fusion/rules.py"},
    "a recipe kind": {"recipes/kinds.py", "recipes/__init__.py", "reports/run/kinds.py"},
    "a verb": {"cli/app.py"},
}


@pytest.mark.parametrize("addition", ADDITIONS)
def test_the_documented_files_are_these_and_exist(addition):
    assert documented_files(addition) == ADDITIONS[addition]
    assert all((SOURCE / file).is_file() for file in ADDITIONS[addition])
