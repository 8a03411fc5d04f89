"""Shards as Arrow tables, and how they are joined into one Parquet or Arrow file."""

import base64
import io
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from patchword.pipelines.bulk.answered import Answered, VectorAnswer
from patchword.pipelines.bulk.encoded import Encoded, Part
from patchword.pipelines.bulk.records import head_of
from patchword.pipelines.bulk.rows import Shard
from patchword.pipelines.bulk.work import OpenedWork
from patchword.recipes.text.inference.answers import NoAnswer

if TYPE_CHECKING:
    import pyarrow as pa


def encode(shard: Shard, answered: Answered, work: OpenedWork) -> Encoded:
    """Return the table of a shard in Arrow's file format. Its column `error` is null for rows that were read."""
    import pyarrow as pa

    columns = _table(shard, answered, work)
    table = pa.table(columns)
    content = io.BytesIO()
    with pa.ipc.new_file(content, table.schema) as writer:
        writer.write_table(table)
    return Encoded(content.getvalue())


def join_parquet(parts: Sequence[Part], path: Path, width: int) -> list[str]:
    """Write one group of rows per shard."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema, notes = _common_schema(parts)
    texts = [field.name for field in schema if pa.types.is_string(field.type) or pa.types.is_large_string(field.type)]
    with pq.ParquetWriter(path, schema, use_dictionary=texts or False) as writer:
        for part in parts:
            table = _fitted(_read(part.path), schema)
            writer.write_table(table, row_group_size=max(1, len(table)))
    return notes


def join_arrow(parts: Sequence[Part], path: Path, width: int) -> list[str]:
    """Write one record batch per shard."""
    import pyarrow as pa

    schema, notes = _common_schema(parts)
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, schema) as writer:
        for part in parts:
            writer.write_table(_fitted(_read(part.path), schema))
    return notes


def json_rows(table: "pa.Table") -> Iterator[dict[str, Any]]:
    """Yield the rows of a table as JSON has them.

    Times and decimals become text, bytes become base64, numbers that are not finite become null.
    """
    columns = {name: _values(table.column(name)) for name in table.column_names}
    for number in range(len(table)):
        yield {name: _plain(values[number]) for name, values in columns.items()}


def _values(column: "pa.ChunkedArray") -> list[Any]:
    import pyarrow as pa

    if pa.types.is_temporal(column.type):
        column = column.cast(pa.string())  # with its nanoseconds, which Python's own times do not have
    return list(column.to_pylist())


def _table(shard: Shard, answered: Answered, work: OpenedWork) -> dict[str, "pa.Array"]:
    """Return the columns: place, other columns of the input, texts, answers, error."""
    import pyarrow as pa

    places = [row.place for row in shard.rows]
    heads = [head_of(row, work.asked_as) for row in shard.rows]
    records: list[Mapping[str, Any]] = [
        {} if isinstance(one, NoAnswer) or work.width else one.record() for one in answered.answers
    ]
    errors = [one.error if isinstance(one, NoAnswer) else None for one in answered.answers]
    first, middle = _columns(places), _columns(heads) | _columns(records)
    if work.width:
        middle["vector"] = _vectors(answered, work.width)
    taken = {*first, *middle, *work.asked_as, *work.record_names, "error"}
    others = _columns([row.others for row in shard.rows])
    if shard.columns is not None:
        others = {name: shard.columns.column(name) for name in shard.columns.column_names}
    kept = {f"given_{name}" if name in taken else name: column for name, column in others.items()}
    return {**first, **kept, **middle, "error": pa.array(errors, pa.string())}


def _vectors(answered: Answered, width: int) -> "pa.Array":
    """Return the vectors as lists of a fixed size; null for a row without one."""
    import pyarrow as pa

    found = [one.vector if isinstance(one, VectorAnswer) else None for one in answered.answers]
    blank = np.zeros(width, np.float32)
    values = np.concatenate([blank if one is None else one for one in found])
    absent = pa.array([one is None for one in found])
    return pa.FixedSizeListArray.from_arrays(pa.array(values, pa.float32()), width, mask=absent)


def _columns(records: Sequence[Mapping[str, Any]]) -> dict[str, "pa.Array"]:
    names = dict.fromkeys(name for record in records for name in record)
    return {name: _array([record.get(name) for record in records]) for name in names}


def _array(values: list[Any]) -> "pa.Array":
    """Return a column; values of several types, as JSON lines can have, become text."""
    import pyarrow as pa

    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return pa.array([_text(value) for value in values], pa.string())


def _common_schema(parts: Sequence[Part]) -> "tuple[pa.Schema, list[str]]":
    """Return the schema of all parts, and notes on columns that have several types and become text."""
    import pyarrow as pa

    kinds: dict[str, pa.Field] = {}
    mixed: list[str] = []
    for part in parts:
        for field in _schema(part.path):
            known = kinds.setdefault(field.name, field)
            if known.type == field.type:
                continue
            try:
                one = pa.unify_schemas([pa.schema([known]), pa.schema([field])], promote_options="permissive").field(0)
            except (pa.ArrowInvalid, pa.ArrowTypeError):
                one = pa.field(field.name, pa.string())
                mixed.append(field.name)
            kinds[field.name] = one
    notes = [f"column {name!r} has values of several types; they are written as text" for name in dict.fromkeys(mixed)]
    names = [name for name in kinds if name != "error"]
    return pa.schema([kinds[name] for name in [*names, "error"]]), notes


def _fitted(table: "pa.Table", schema: "pa.Schema") -> "pa.Table":
    import pyarrow as pa

    columns = []
    for field in schema:
        if field.name not in table.column_names:
            columns.append(pa.nulls(len(table), field.type))
        elif (column := table.column(field.name)).type == field.type:
            columns.append(column)
        elif pa.types.is_string(field.type):
            columns.append(pa.array([_text(value) for value in column.to_pylist()], pa.string()))
        else:
            columns.append(pa.array(column.to_pylist(), field.type))
    return pa.table(columns, schema=schema)


def _schema(path: Path) -> "pa.Schema":
    import pyarrow as pa

    with pa.OSFile(str(path)) as file:
        return pa.ipc.open_file(file).schema


def _read(path: Path) -> "pa.Table":
    import pyarrow as pa

    with pa.OSFile(str(path)) as file:
        return pa.ipc.open_file(file).read_all()


def _text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(_plain(value), ensure_ascii=False)


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, Mapping):
        return {str(name): _plain(cell) for name, cell in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(cell) for cell in value]
    return str(value)
