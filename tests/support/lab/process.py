"""A lab as a process of its own, with the models of a test."""

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def running_lab(*models: Path) -> Iterator[str]:
    """Yield the address of a lab with these models, with its token."""
    command = [sys.executable, "-u", "-m", "patchword", "lab", "--no-browser", "--port", "0", *map(str, models)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            lines = []
            for line in process.stdout:
                lines.append(line)
                if found := re.search(r"http://\S+", line):
                    yield found[0]
                    break
            else:
                raise AssertionError(f"the lab named no address: {lines}")
        finally:
            process.terminate()
            process.wait(timeout=20)
