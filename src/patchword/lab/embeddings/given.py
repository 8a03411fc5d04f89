"""Texts that the user types, pastes or uploads as a table. They are kept in memory as long as the lab runs."""

import csv
import io
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

from patchword.core.card import Card
from patchword.core.errors import UserError
from patchword.data.text.formats.tables import read_table
from patchword.lab.embeddings.sets import MOST_TEXTS, ListedSet, PointSet, checked_texts

PREFIX = "given-"
MOST_BYTES = 1_000_000
MOST_COLUMNS = 1_000
_MOST_SETS = 20


class GivenTexts:
    """The last sets of texts, by the hash of their content."""

    def __init__(self) -> None:
        self._sets: OrderedDict[str, PointSet] = OrderedDict()

    def add(self, texts: Sequence[str], labels: Sequence[str] = ()) -> str:
        """Keep texts and return the id of their set."""
        if not 4 <= len(texts) <= MOST_TEXTS:
            raise UserError("the number of texts", expected=f"4 to {MOST_TEXTS}", got=len(texts))
        if labels and len(labels) != len(texts):
            raise UserError("labels", expected=f"{len(texts)}, one per text", got=len(labels))
        found = checked_texts([text.strip() for text in texts], labels)
        if empty := [row for row, text in enumerate(found.inputs, 1) if not text]:
            raise UserError(f"text {empty[0]} is empty")
        id = PREFIX + sha256(repr((found.inputs, found.labels)).encode()).hexdigest()[:12]
        self._sets[id] = found
        self._sets.move_to_end(id)
        while len(self._sets) > _MOST_SETS:
            self._sets.popitem(last=False)
        return id

    def listed(self) -> dict[str, ListedSet]:
        """Return the sets as those of a model."""
        return {id: ListedSet(id, "Your texts", partial(_kept, found)) for id, found in list(self._sets.items())}


def _kept(points: PointSet, card: Card | None) -> PointSet:
    return points


def read_given_table(content: bytes) -> tuple[list[str], list[str]]:
    """Return the texts and the labels of a CSV table with the columns text and, if it has labels, label."""
    if len(content) > MOST_BYTES:
        raise UserError("the table is too large", expected=f"at most {MOST_BYTES:,} bytes", got=f"{len(content):,}")
    if content.partition(b"\n")[0].count(b",") >= MOST_COLUMNS:
        raise UserError("the table has too many columns", expected=f"at most {MOST_COLUMNS:,}")
    with TemporaryDirectory() as folder:
        path = Path(folder) / "table.csv"
        path.write_bytes(content)
        columns = {"text": "text", "label": "label"} if _has_labels(content) else {"text": "text"}
        try:
            table = read_table(path, columns)
        except UserError as error:
            what, hint = (text.replace(f"{path}", "the table") for text in (error.what, error.hint))
            raise UserError(what, expected=error.expected, got=error.got, hint=hint) from None
    return table.columns["text"], table.columns.get("label", [])


def _has_labels(content: bytes) -> bool:
    first = io.StringIO(content[:10_000].decode("utf-8-sig", errors="replace"), newline="")
    with suppress(csv.Error):  # which read_table reports
        return "label" in [name.strip().lower() for name in next(csv.reader(first), [])]
    return False
