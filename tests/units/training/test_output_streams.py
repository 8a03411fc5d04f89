"""What a run prints: names cannot steer the terminal, and nobody needs to read it."""

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest
from rich.table import Table

from patchword.recipes.train import train
from patchword.training.console import OutlivedStream, PrintableConsole
from support.material import tiny_recipe

WRITES_ON = """
import sys
from patchword.training.console import OutlivedStream
out = OutlivedStream(sys.stdout)
for line in range(20_000):
    out.write(f"line {line}\\n")
    out.flush()
print("at the end", file=sys.stderr)
"""


def test_names_do_not_steer_the_terminal():
    shown = io.StringIO()
    console = PrintableConsole(file=shown, force_terminal=True, width=60)
    table = Table("class")
    table.add_row("shoe\x1b[2J")
    console.print(table)
    console.print("bag\x1b]0;title\x07", style="bold", highlight=False)
    assert "bag\\x1b]0;title" in shown.getvalue()
    assert "shoe\\x1" in shown.getvalue()  # as much as the column of such a name has room for
    assert "\x1b[2J" not in shown.getvalue()
    assert "\x1b[1m" in shown.getvalue()  # the console's own colours and styles are sent


def test_a_reader_that_leaves_ends_nothing():
    """As of `patchword train RECIPE | head -1`."""
    words = [sys.executable, "-c", WRITES_ON]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "line 0\n"
        process.stdout.close()
        said = process.stderr.read()
    assert process.returncode == 0
    assert said.splitlines() == [
        "the output cannot be written (Broken pipe): the run goes on, and metrics.jsonl has its lines",
        "at the end",
    ]


def test_a_run_outlives_its_reader(tmp_path, capfd):
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as unread:
        assert train(tiny_recipe(), tmp_path / "run", PrintableConsole(file=OutlivedStream(unread)))
    assert (tmp_path / "run" / "model.safetensors").is_file()
    assert "the run goes on" in capfd.readouterr().err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no /dev/full")
def test_a_full_disk_behind_the_output_is_an_error_in_one_line():
    words = [sys.executable, "-m", "patchword", "recipes"]
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, text=True)
    assert ended.returncode == 2
    assert ended.stderr.startswith("error: cannot write the output")
    assert "No space left on device" in ended.stderr
    assert "Traceback" not in ended.stderr
