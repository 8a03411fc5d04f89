"""Parquet and Arrow files as inputs of any size; their other columns keep their types in a Parquet or Arrow output."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from patchword.core.errors import UserError, nearest
from patchword.pipelines.bulk.identity import file_identity
from patchword.pipelines.bulk.rows import Row, Shard, Wanted
from patchword.recipes.text.inference.input import Columns, TextInput, checked_text

if TYPE_CHECKING:
    import pyarrow as pa

PARQUET = (".parquet",)
ARROW = (".arrow", ".feather")
SUFFIXES = (*PARQUET, *ARROW)


def require_arrow(path: Path) -> None:
    """Raise an error if pyarrow is not installed. path: the file that needs it"""
    try:
        import pyarrow  # noqa: F401  # whether it is there
    except ImportError:
        raise UserError(
            f"{path} needs pyarrow, which is not installed",
            expected="pip install 'patchword[parquet]'",
            hint="files in .csv, .tsv, .jsonl and .txt need nothing more",
        ) from None


class ArrowFile:
    """A Parquet file, or an Arrow file in its file or stream format. columns: what the model reads."""

    def __init__(self, path: Path, columns: Columns) -> None:
        require_arrow(path)
        self.path, self.columns = path, columns
        self.rows, self._total = 0, 0

    @property
    def fraction(self) -> float:
        return self.rows / self._total if self._total else 1.0

    def identity(self) -> dict[str, Any]:
        return file_identity(self.path)

    def check(self) -> None:
        import pyarrow as pa

        schema, total = self._header()
        if total == 0:
            raise UserError(f"{self.path} has no rows", expected="rows with a text")
        for name in self._names():
            if name not in schema.names:
                expected = "one of " + ", ".join(map(repr, schema.names))
                close = nearest(name, schema.names)
                hint = close if close.startswith("did") else ""
                raise UserError(f"{self.path}: there is no column {name!r}", expected=expected, hint=hint)
            kind = schema.field(name).type
            plain = kind.value_type if pa.types.is_dictionary(kind) else kind
            if not (pa.types.is_string(plain) or pa.types.is_large_string(plain) or pa.types.is_null(plain)):
                raise UserError(f"{self.path}: column {name!r} is not text", expected="strings", got=str(kind))

    def shards(self, size: int, wanted: Wanted) -> Iterator[Shard]:
        import pyarrow as pa

        self.rows, self._total = 0, self._header()[1] or 0
        held: list[pa.Table] = []
        count = begin = 0  # rows that are held, and the number of the first
        for table in self._tables(size, wanted):
            if isinstance(table, int):  # rows of shards that are not wanted
                begin, self.rows = begin + table, self.rows + table
                continue
            self.rows += len(table)
            held.append(table)
            count += len(table)
            while count >= size:
                whole = pa.concat_tables(held)
                if wanted(begin // size):
                    yield self._shard(begin, size, whole.slice(0, size))
                held, count, begin = [whole.slice(size)], count - size, begin + size
        if count and wanted(begin // size):
            yield self._shard(begin, size, pa.concat_tables(held))

    def _tables(self, size: int, wanted: Wanted) -> "Iterator[pa.Table | int]":
        """Yield the rows in order, some at a time; for those at a border of shards that no wanted shard has, how many.

        Whole groups of rows of a Parquet file are then not decoded.
        """
        import pyarrow as pa
        import pyarrow.parquet as pq

        if self.path.suffix.lower() in PARQUET:
            with pq.ParquetFile(self.path) as file:
                begin = skipped = 0
                for group in range(file.metadata.num_row_groups):
                    rows = file.metadata.row_group(group).num_rows
                    shards = range(begin // size, (begin + rows - 1) // size + 1)
                    if rows and begin % size == 0 and (begin + rows) % size == 0 and not any(map(wanted, shards)):
                        skipped = rows
                        yield skipped
                    else:
                        for batch in file.iter_batches(batch_size=size, row_groups=[group]):
                            yield pa.Table.from_batches([batch])
                    begin += rows
            return
        for batch in self._batches():
            table = pa.Table.from_batches([batch])
            for start in range(0, len(table), size):
                yield table.slice(start, size)

    def _batches(self) -> "Iterator[pa.RecordBatch]":
        import pyarrow as pa

        with pa.memory_map(str(self.path)) as file:
            try:
                reader = pa.ipc.open_file(file)
            except pa.ArrowInvalid:
                file.seek(0)
                yield from pa.ipc.open_stream(file)
                return
            for number in range(reader.num_record_batches):
                yield reader.get_batch(number)

    def _header(self) -> "tuple[pa.Schema, int | None]":
        """Return the schema and the number of rows; None if only reading to the end tells it."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            if self.path.suffix.lower() in PARQUET:
                with pq.ParquetFile(self.path) as file:
                    return file.schema_arrow, file.metadata.num_rows
            with pa.memory_map(str(self.path)) as mapped:
                try:
                    reader = pa.ipc.open_file(mapped)
                except pa.ArrowInvalid:
                    mapped.seek(0)
                    return pa.ipc.open_stream(mapped).schema, None
                return reader.schema, sum(reader.get_batch(one).num_rows for one in range(reader.num_record_batches))
        except (pa.ArrowException, OSError) as error:
            kind = "a Parquet file" if self.path.suffix.lower() in PARQUET else "an Arrow file"
            raise UserError(f"cannot read {self.path}", expected=kind, got=str(error).splitlines()[0]) from None

    def _names(self) -> list[str]:
        return [name for name in (self.columns.text, self.columns.pair) if name]

    def _shard(self, begin: int, size: int, table: "pa.Table") -> Shard:
        names = self._names()
        cells = zip(*(table.column(name).to_pylist() for name in names), strict=True)
        rows = [self._row(begin + number, row) for number, row in enumerate(cells)]
        return Shard(begin // size, begin, rows, table.drop_columns(names).combine_chunks())

    def _row(self, number: int, cells: tuple[str | None, ...]) -> Row:
        place = {"file": str(self.path), "row": number}
        try:
            texts = [
                checked_text(cell or "", f"{self.path}, row {number}, column {name!r}")
                for name, cell in zip(self._names(), cells, strict=True)
            ]
        except UserError as error:
            return Row(place, TextInput("", None, place, error=error))
        return Row(place, TextInput(texts[0], texts[1] if len(texts) > 1 else None, place))
