"""Reads HTML pages in tests."""

from html.parser import HTMLParser

VOID = {"meta", "img", "br", "wbr", "link"}


class Page(HTMLParser):
    """Reads a page: its elements with their attributes, its text; fails where tags do not nest."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text, self.open = "", []
        self.feed(html)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data

    def pictures(self) -> list[dict[str, str]]:
        return [attributes for tag, attributes in self.elements if tag == "img"]
