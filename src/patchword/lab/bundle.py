"""The built page: files that are read once, when the lab starts, and found by their names alone."""

from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from patchword.core.errors import UserError

PAGE = Path(__file__).with_name("page")
TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
    ".woff2": "font/woff2",
}


@dataclass(frozen=True)
class Asset:
    """A file of the page."""

    content: bytes
    media_type: str


@dataclass(frozen=True)
class Bundle:
    """The page and its files by their names below `assets`."""

    index: str
    assets: dict[str, Asset]

    def text(self, name: str) -> str:
        """Return a file of `assets` as text."""
        if name not in self.assets:
            raise UserError(f"the page of the lab has no file assets/{name}", hint=BUILD)
        return self.assets[name].content.decode()


BUILD = "in a clone, build it with `make web` (needs Node.js 20 or newer); a wheel of patchword contains it"


def read_bundle(page: Path) -> Bundle:
    """Read the built page from its folder; a page that is not built is an error that names the command."""
    index = page / "index.html"
    if not index.is_file():
        raise UserError("the page of the lab is not built", expected=str(index), hint=BUILD)
    below = page / "assets"
    files = {path.relative_to(below).as_posix(): path for path in sorted(below.rglob("*")) if path.is_file()}
    assets = {
        name: Asset(path.read_bytes(), TYPES.get(PurePosixPath(name).suffix, "application/octet-stream"))
        for name, path in files.items()
    }
    return Bundle(index.read_text(encoding="utf-8"), assets)
