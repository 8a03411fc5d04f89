"""Write docs/lectures.md and docs/published-tables.md from the data of the package; `make stubs` runs it, too."""

from pathlib import Path

from patchword.core.files import write_text
from patchword.lectures.page import index_page, tables_page

DOCS = Path(__file__).resolve().parent.parent / "docs"


def files() -> dict[Path, str]:
    """Return the content of every file."""
    return {DOCS / "lectures.md": index_page(), DOCS / "published-tables.md": tables_page()}


if __name__ == "__main__":
    for path, text in files().items():
        write_text(path, text)
