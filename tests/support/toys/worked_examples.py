"""What the documents say about adding something: the files of a table row, and the code of a worked example."""

import re
import textwrap

from support.source_code import ROOT

ROW = re.compile(r"^\| (?P<addition>an? [^|]+) \| (?P<files>.+) \|$", re.MULTILINE)
CODE = re.compile(r"^(?P<indent> *)```python\n(?P<code>.*?)^(?P=indent)```$", re.MULTILINE | re.DOTALL)


def documented_files(addition: str) -> set[str]:
    """The existing files that docs/architecture.md names in the row of this addition, e.g. "a family"."""
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    rows = {
        row["addition"]: row["files"] for row in ROW.finditer(page.partition("## What adding something touches")[2])
    }
    return set(re.findall(r"`([^`]+\.py)`", rows[addition]))


def worked_example(section: str, file: str = "CONTRIBUTING.md") -> list[str]:
    """The Python code blocks of a section of a page, e.g. "Add a verb"."""
    page = (ROOT / file).read_text(encoding="utf-8")
    _, found, rest = page.partition(f"\n## {section}\n")
    assert found, f"{file} has no section {section!r}"
    return [textwrap.dedent(block["code"]) for block in CODE.finditer(rest.partition("\n## ")[0])]
