"""The lab in a real browser: Debian's Chromium through Playwright, on the real server."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from support.lab.browser import CHROMIUM, Open, Visit, is_own, missing
from support.lab.process import running_lab


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A browser for one file: while Playwright runs, no other test of the process can run an event loop."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        missing("playwright is not installed")
    if not Path(CHROMIUM).exists():
        missing("there is no chromium (on Debian: apt-get install chromium)")
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture(scope="session")
def lab_address() -> Iterator[str]:
    """The address of a running lab, with its token."""
    with running_lab() as address:
        yield address


@pytest.fixture
def lab(browser: Any, request: pytest.FixtureRequest) -> str:
    """The address of the lab, which is started only where there is a browser."""
    return str(request.getfixturevalue("lab_address"))


@pytest.fixture
def visit(browser: Any, lab: str) -> Iterator[Open]:
    """Opens a page of the lab, e.g. "#/draw"; in the end no page may have had an error or a foreign request."""
    base = f"{urlsplit(lab).scheme}://{urlsplit(lab).netloc}"
    visits: list[tuple[Any, Visit]] = []

    def open_page(
        address: str,
        size: tuple[int, int] = (1366, 768),
        theme: str = "light",
        projector: bool = False,
        origin: str = base,
        start: str = lab,
    ) -> Visit:
        context = browser.new_context(
            viewport={"width": size[0], "height": size[1]},
            color_scheme=theme,
            permissions=["clipboard-read", "clipboard-write"],
        )
        mode = "on" if projector else "off"
        context.add_init_script(f"try {{ localStorage.setItem('patchword-lab-projector', '{mode}') }} catch {{}}")
        page = context.new_page()
        found = Visit(page)
        visits.append((context, found))
        page.on("pageerror", lambda error: found.errors.append(str(error)))
        page.on("console", lambda one: found.errors.append(one.text) if one.type in ("error", "warning") else None)
        page.on("request", lambda one: None if is_own(one.url, origin) else found.foreign.append(one.url))
        page.goto(start)
        if address:
            page.evaluate("address => { location.hash = address }", address)
        return found

    yield open_page
    for context, found in visits:
        context.close()
        assert not found.errors
        assert not found.foreign
