"""A hook of MkDocs: files of the repository that the documentation links to become a part of the site.

A page of docs/ links to a file outside of docs/ by a relative path, such as `../src/patchword/models/vision/vit.py`,
so that the link works in the repository. The site has no such path: the hook adds the file under `source/` and
changes the link. A link to a file that does not exist stays as it is, and MkDocs reports it.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

LINK = re.compile(r"\]\(\.\./(?P<path>[^)#\s]+)(?P<anchor>#[^)\s]*)?\)")
FOLDER = "source"


def outside(markdown: str, root: Path) -> set[str]:
    """Paths of the existing files outside of docs/ that a page links to."""
    return {match["path"] for match in LINK.finditer(markdown) if (root / match["path"]).is_file()}


def site_path(path: str) -> str:
    """Where a file lies in the site: Python and Markdown are shown as pages, all else is copied."""
    return f"{FOLDER}/{path}.md" if Path(path).suffix in (".py", ".md") else f"{FOLDER}/{path}"


def as_page(path: str, text: str) -> str:
    """The page that shows a source file; the fence is longer than any fence inside."""
    fence = "`" * max(4, 1 + max((len(ticks) for ticks in re.findall(r"`+", text)), default=0))
    language = {".py": "python", ".md": "markdown"}[Path(path).suffix]
    return f"# `{path}`\n\n{fence}{language}\n{text.rstrip()}\n{fence}\n"


def rewrite(markdown: str, root: Path) -> str:
    """A page with its links outside of docs/ changed to the copies in the site."""
    there = outside(markdown, root)

    def change(match: re.Match[str]) -> str:
        return f"]({site_path(match['path'])})" if match["path"] in there else match[0]

    return LINK.sub(change, markdown)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    from mkdocs.structure.files import File, InclusionLevel

    root = Path(config.docs_dir).parent
    pages = [file for file in files.documentation_pages() if "/" not in file.src_uri]
    for path in sorted(set().union(*(outside(page.content_string, root) for page in pages))):
        target = site_path(path)
        if target.endswith(".md"):
            content = as_page(path, (root / path).read_text(encoding="utf-8"))
            files.append(File.generated(config, target, content=content, inclusion=InclusionLevel.NOT_IN_NAV))
        else:
            files.append(File.generated(config, target, abs_src_path=str(root / path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    return markdown if "/" in page.file.src_uri else rewrite(markdown, Path(config.docs_dir).parent)
