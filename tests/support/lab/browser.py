"""A page of the lab in a real browser, and what it did there that it should not."""

import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import pytest

try:
    from playwright.sync_api import expect

    expect.set_options(timeout=20_000)  # the first count of a lab waits for imports
except ImportError:
    expect = None  # the fixture `browser` says so

__all__ = ["CHROMIUM", "Open", "Visit", "expect", "is_own", "missing"]

CHROMIUM = shutil.which("chromium") or "/usr/bin/chromium"
AXE = Path(__file__).parents[3] / "web" / "node_modules" / "axe-core" / "axe.min.js"
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


def missing(what: str) -> NoReturn:
    """Skip loudly; fail where a browser is required."""
    message = f"{what}: the pages of the lab are NOT tested in a browser"
    if os.environ.get("CI_BROWSER") == "1":
        pytest.fail(message)
    print(f"SKIPPED: {message}", file=sys.stderr)
    pytest.skip(message)


@dataclass
class Visit:
    """A page of the browser, and what it did that it should not."""

    page: Any
    errors: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)

    def violations(self) -> list[str]:
        """Return what axe-core finds, e.g. text of too little contrast."""
        if not AXE.exists():
            missing("axe-core is not installed (`make web` installs it)")
        self.page.evaluate(AXE.read_text())  # not as a script element, which the content security policy forbids
        options = {"runOnly": {"type": "tag", "values": RULES}, "resultTypes": ["violations"]}
        found = self.page.evaluate("options => axe.run(document, options)", options)
        return [f"{one['id']}: {node['html'][:120]}" for one in found["violations"] for node in one["nodes"]]

    def overflow(self) -> int:
        """Return how many pixels the page is wider than the window."""
        return int(self.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"))


Open = Callable[..., Visit]


def is_own(url: str, origin: str) -> bool:
    return url.startswith((f"{origin}/", "data:", "blob:")) or (origin.startswith("file:") and url.startswith(origin))
