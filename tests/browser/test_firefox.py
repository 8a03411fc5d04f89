"""Each page opens in Firefox ESR without an error. Playwright cannot drive Debian's Firefox; puppeteer-core can."""

import json
import re
import shutil
import subprocess
from pathlib import Path

from support.lab.browser import missing

WEB = Path(__file__).parents[2] / "web"
PAGES = re.findall(r"\{ id: '(\w+)'", (WEB / "src" / "pages.ts").read_text(encoding="utf-8"))
READY = {
    **{f"#/{page}": "main .card" for page in PAGES},
    "#/cost?": "[data-check=agrees]",
    "#/draw?": "[data-figure=heads]",
    "#/cost?lesson=the-transformer.5": "[data-task]",
}


def test_every_page_opens_in_firefox(lab: str) -> None:
    firefox, node = shutil.which("firefox-esr"), shutil.which("node")
    if firefox is None or node is None or not (WEB / "node_modules" / "puppeteer-core").is_dir():
        missing("firefox-esr, node or puppeteer-core is not installed (apt-get install firefox-esr; make web)")
    command = [node, "tools/firefox.mjs", firefox, lab, json.dumps(READY)]
    done = subprocess.run(command, cwd=WEB, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {address: [] for address in READY}
