"""The index of the lectures and the published tables as pages of the documentation; tools/lectures.py writes them."""

from collections import Counter
from collections.abc import Iterable, Sequence

from patchword.analysis.published.tables.table import differences, published_tables
from patchword.lectures.index import COUNTED, Item, decks, items

_WRITTEN = "<!-- written by tools/lectures.py from {file}: change that file, then run `make stubs` -->\n"


def counts() -> str:
    """Return how many items there are, and of how many we have figures."""
    every = items()
    states = Counter(item.state for item in every)
    small, ours = (
        sum(bool(part) for part in column) for column in zip(*((i.small, i.ours) for i in every), strict=True)
    )
    return (
        f"{len(every)} items: {states['runs']} have a command that reproduces them, {ours} have figures of ours; "
        f"{states['published only']} are published only, {states['not yet']} are not there yet. "
        f"{small} have a small form that `--check` runs."
    )


def index_page() -> str:
    """Return docs/lectures.md."""
    lines = [
        _WRITTEN.format(file="src/patchword/lectures/lectures.yaml"),
        "# The lectures, item by item\n",
        "What the five decks of the lectures show, in their order: the command that reproduces it, the published",
        "figures with their source, and ours. `patchword lecture` prints the same index, `patchword lecture swin` the",
        "items with a word, and `patchword lecture --check` runs the small forms.\n",
        counts() + "\n",
        "Files such as `text.txt` and folders such as `photos` are yours; `MODEL` is a folder with trained weights.",
        "The published tables are [on a page of their own](published-tables.md), whole.",
    ]
    for deck in decks():
        lines.append(f"\n## {deck.number}. {deck.title}")
        for section in deck.sections:
            lines += [f"\n### {section.title}\n", *_table(HEAD, [_cells(item) for item in section.items])]
    return "\n".join(lines) + "\n"


HEAD = ("shown", "command", "published", "here")


def tables_page() -> str:
    """Return docs/published-tables.md."""
    lines = [
        _WRITTEN.format(file="src/patchword/analysis/published/tables/tables.yaml"),
        "# Published tables\n",
        "The tables of the papers that the lectures show, whole and as they are printed. *here* names our model, with",
        "the fields that differ; *published only* are models that patchword does not have.",
        "`patchword compare --published WORD` prints the tables with a word.",
    ]
    for table in published_tables().values():
        lines += [f"\n## {table.title}\n", *_table(table.titles, table.lines())]
        lines += [f"\n`{table.name}`. {table.source}." + (f" {_sentence(table.note)}" if table.note else "")]
    lines += [
        "\n## Figures that differ\n",
        "The same model with two figures: in two tables, or in a table and in `patchword compare`.\n",
    ]
    lines += _table(
        ("model", "figures", "why"),
        [(one.model, ", ".join(f"{where} {figure:g}" for where, figure in one.figures.items()), _sentence(one.why))
         for one in differences()],
    )  # fmt: skip
    return "\n".join(lines) + "\n"


def _cells(item: Item) -> tuple[str, ...]:
    if item.again:
        return (item.item, "(above)", "", "")
    commands = "<br>".join(f"`{command}`" for command in item.command)
    return item.item, commands, "<br>".join(_published(item)), "<br>".join(_here(item))


def _published(item: Item) -> Iterable[str]:
    table = item.published_table()
    if table is not None:
        yield f"[{table.title}](published-tables.md#{_anchor(table.title)})"
    if item.published:
        yield f"{item.published} ({item.source})"


def _here(item: Item) -> Iterable[str]:
    if item.ours:
        files = [file for file in item.result if file != COUNTED]
        yield item.ours + (f" ({', '.join(map(_link, files))})" if files else "")
    if item.state != "runs":
        yield f"*{item.state}*: {item.why}"
    if item.note:
        yield item.note


def _link(file: str) -> str:
    return f"[{file.rpartition('/')[2]}]({file.removeprefix('docs/') if file.startswith('docs/') else f'../{file}'})"


def _anchor(title: str) -> str:
    """Return the anchor that the documentation gives a heading."""
    kept = "".join(letter for letter in title.lower() if letter.isalnum() or letter in " -_")
    return "-".join(kept.split())


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:].rstrip(".") + "."


def _table(head: Sequence[str], lines: Iterable[Sequence[str]]) -> list[str]:
    rows = [head, ["---"] * len(head), *([cell.replace("|", "\\|") for cell in line] for line in lines)]
    return [f"| {' | '.join(row)} |" for row in rows]
