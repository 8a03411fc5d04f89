"""The words that a masked language model predicts, one `Gap` per mask."""

from collections.abc import Sequence
from html import escape
from typing import overload

from patchword.pipelines.html import bars, row_of, table_of
from patchword.pipelines.tables import text_table
from patchword.recipes.text.inference.filling import Gap, filled


class Fillings(Sequence[Gap]):
    """The masks of a text with the most probable words of each. filled: the text with the best word at every mask.

    >>> p.fill("The [MASK] sat on the mat.")[0].fillings[0].word
    'cat'
    """

    def __init__(self, text: str, gaps: Sequence[Gap]) -> None:
        self.text, self.filled = text, filled(text, list(gaps))
        self._gaps = tuple(gaps)

    @overload
    def __getitem__(self, index: int) -> Gap: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Gap]: ...

    def __getitem__(self, index: int | slice) -> Gap | Sequence[Gap]:
        return self._gaps[index]

    def __len__(self) -> int:
        return len(self._gaps)

    def __repr__(self) -> str:
        rows = []
        for number, gap in enumerate(self._gaps, 1):
            for one in gap.fillings:
                mask = {"mask": str(number)} if len(self) > 1 else {}
                rows.append(mask | {"word": one.word, "probability": f"{one.probability:.1%}", "text": one.sentence})
        return text_table(rows)

    def _repr_html_(self) -> str:
        rows = [row_of(bars([(one.word, one.probability) for one in gap.fillings])) for gap in self._gaps]
        return table_of([row_of(f"<b>{escape(self.filled)}</b>"), *rows])
