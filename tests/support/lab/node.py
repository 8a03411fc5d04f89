"""Runs the modules of the lab's page under Node: what is shipped, without a browser."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from patchword.lab.bundle import PAGE

SCRIPT = """
import {{ readFileSync, writeFileSync }} from 'node:fs'
globalThis.window = globalThis // shared parts of the page read it
const page = await import({module})
const given = JSON.parse(readFileSync({given}, 'utf8'))
const run = {function}
writeFileSync({answer}, JSON.stringify(run(page, given, readFileSync)))
"""


def run_node(folder: Path, module: str, function: str, given: Any) -> Any:
    """Call a JavaScript function (page, given, readFileSync) => JSON with a module of the page's assets."""
    node = shutil.which("node")
    if node is None:
        message = "Node is not installed: the page's own model and formulas are NOT compared with Python's"
        print(f"SKIPPED: {message}", file=sys.stderr)
        pytest.skip(message)
    (folder / "given.json").write_text(json.dumps(given))
    (folder / "package.json").write_text('{"type": "module"}')
    values = {"module": (PAGE / "assets" / module).as_uri(), "given": str(folder / "given.json")}
    paths = {name: json.dumps(value) for name, value in {**values, "answer": str(folder / "answer.json")}.items()}
    (folder / "run.mjs").write_text(SCRIPT.format(function=function, **paths))
    subprocess.run([node, "run.mjs"], cwd=folder, check=True, timeout=120)
    return json.loads((folder / "answer.json").read_text())
