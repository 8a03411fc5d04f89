"""The parts of an HTML page. Arguments called `html` are markup; all other texts are escaped here."""

import base64
import html as markup
import re
from collections.abc import Iterable, Sequence
from importlib.resources import files

# The page may use its own styles and embedded images, and nothing else: no script runs, nothing is fetched.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


# Control characters, marks that change the text direction, surrogates from undecodable file names.
_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def escape(text: object) -> str:
    """Escape a text for markup and attributes."""
    return markup.escape(_UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", str(text)))


def document(title: str, html: str) -> str:
    style = files("patchword.reports").joinpath("style.css").read_text(encoding="utf-8")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n<main>\n{html}</main>\n</body>\n</html>\n"
    )


def section(title: str, html: str) -> str:
    return f'<section id="{anchor(title)}">\n<h2>{escape(title)}</h2>\n{html}</section>\n' if html else ""


def contents(sections: Iterable[str]) -> str:
    """Return a line of links to the sections."""
    titles = re.findall(r'<section id="([^"]+)">\n<h2>(.*?)</h2>', "".join(sections))
    return "<nav>" + " ".join(f'<a href="#{place}">{title}</a>' for place, title in titles) + "</nav>\n"


def anchor(title: str) -> str:
    return re.sub(r"[^a-z]+", "-", title.lower()).strip("-")


def paragraph(html: str, kind: str = "") -> str:
    return f'<p class="{kind}">{html}</p>\n' if kind else f"<p>{html}</p>\n"


def bullets(items: Iterable[str]) -> str:
    return "<ul>\n" + "".join(f"<li>{html}</li>\n" for html in items) + "</ul>\n"


def tile(label: str, value: str, note: str = "") -> str:
    return f"<div><dt>{escape(label)}</dt><dd>{escape(value)}<small>{escape(note)}</small></dd></div>\n"


def tiles(items: Iterable[str]) -> str:
    return f'<dl class="tiles">\n{"".join(items)}</dl>\n'


def table(caption: str, head: Sequence[str], rows: Iterable[str], foot: Iterable[str] = (), kind: str = "") -> str:
    top = "".join(f'<th scope="col">{escape(name)}</th>' for name in head)
    below = "".join(foot)
    return (
        f'<div class="scroll"><table class="{kind}">\n<caption>{escape(caption)}</caption>\n'
        f"<thead><tr>{top}</tr></thead>\n<tbody>\n{''.join(rows)}</tbody>\n"
        + (f"<tfoot>\n{below}</tfoot>\n" if below else "")
        + "</table></div>\n"
    )


def row(*cells: str, kind: str = "") -> str:
    """A table row; its cells are markup, and the first is its heading."""
    opening = f'<tr class="{kind}">' if kind else "<tr>"
    return opening + f'<th scope="row">{cells[0]}</th>' + "".join(f"<td>{html}</td>" for html in cells[1:]) + "</tr>\n"


def folded(summary: str, html: str) -> str:
    return f"<details><summary>{escape(summary)}</summary>\n{html}</details>\n"


def code(text: str) -> str:
    return f"<pre><code>{escape(text)}</code></pre>\n"


def embedded(kind: str, content: bytes) -> str:
    """Return an image as a data URL."""
    return f"data:image/{kind};base64,{base64.b64encode(content).decode('ascii')}"


def figure(address: str, alternative: str, caption: str = "", kind: str = "") -> str:
    """An image or a drawing with an optional caption, which is markup."""
    below = f"<figcaption>{caption}</figcaption>" if caption else ""
    return f'<figure class="{kind}"><img src="{address}" alt="{escape(alternative)}">{below}</figure>\n'
