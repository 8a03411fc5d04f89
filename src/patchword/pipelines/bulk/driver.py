"""Runs a work over all rows of an input: shard by shard, from where a killed call stopped, into one file."""

import hashlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

import torch

from patchword import __version__
from patchword.core.errors import UserError
from patchword.core.files import whole_file
from patchword.pipelines.bulk.answered import Answered
from patchword.pipelines.bulk.encoded import Encoded, Part
from patchword.pipelines.bulk.formats import Format, format_of
from patchword.pipelines.bulk.identity import model_identity
from patchword.pipelines.bulk.opening import open_source, open_work
from patchword.pipelines.bulk.parts import Finished, Parts
from patchword.pipelines.bulk.rows import Shard, Source
from patchword.pipelines.bulk.work import EmbedWork, OpenedWork, Work
from patchword.recipes.text.inference.answers import NoAnswer

ROWS = 4_096  # of a shard


@dataclass(frozen=True)
class Result:
    """A finished shard with its content."""

    finished: Finished
    content: bytes


@dataclass(frozen=True)
class State:
    """How far a call is. kept: rows that an earlier call finished. fraction: of the input; seconds: of this call."""

    rows: int
    kept: int
    fraction: float
    seconds: float


@dataclass(frozen=True)
class Summary:
    """The end of a call. broken: rows without an answer. notes: what was decided on the way."""

    rows: int
    kept: int
    broken: int
    first_error: str
    truncated: int
    seconds: float
    notes: list[str]

    @property
    def rate(self) -> float:
        """Rows per second of this call."""
        return (self.rows - self.kept) / max(self.seconds, 1e-9)


class Engine(Protocol):
    """Where shards are computed."""

    def results(self, work: Work, opened: OpenedWork, suffix: str, shards: Iterator[Shard]) -> Iterator[Result]:
        """Yield the result of every shard, in any order."""
        ...


class LocalEngine:
    """Computes one shard after the other, in this process."""

    def results(self, work: Work, opened: OpenedWork, suffix: str, shards: Iterator[Shard]) -> Iterator[Result]:
        form = format_of(Path(f"shard{suffix}"), vectors=bool(opened.width))
        for shard in shards:
            yield computed(opened, form, shard)


def computed(opened: OpenedWork, form: Format, shard: Shard) -> Result:
    """Compute one shard: the same function on every engine."""
    answered = opened.answer(shard.rows)
    encoded = form.encode(shard, answered, opened)
    return Result(_finished(shard, answered, encoded), encoded.content)


def run(
    work: Work,
    rows: Path,
    out: Path,
    *,
    size: int = ROWS,
    on_broken: Literal["skip", "stop"] = "skip",
    engine: Engine | None = None,
    report: Callable[[State], None] = lambda state: None,
    note: Callable[[str], None] = lambda text: None,
) -> Summary:
    """Compute all rows of an input into a file. Killed and called again with the same arguments, it goes on.

    size: rows of a shard. on_broken: whether a row that cannot be read gets an error, or ends the call. report: called
    after every shard. note: called with what the user should know at the beginning.
    """
    form = format_of(out, vectors=isinstance(work, EmbedWork))
    if out.resolve() == rows.resolve():
        raise UserError(f"{out} is the input", expected="another file")
    opened = open_work(work)
    source = open_source(rows, opened.columns)
    given = source.identity()
    identity = {
        "model": model_identity(work.model),
        "input": str(rows),
        **{f"input {name}": value for name, value in given.items()},
        "output": out.suffix.lower(),
        "rows of a shard": size,
        **opened.options,
    }
    versions = {"patchword": __version__, "torch": torch.__version__, "threads": torch.get_num_threads()}
    began = time.monotonic()
    with Parts.open(out, identity, versions) as (parts, same_versions):
        kept = sum(shard.rows for shard in parts.finished.values())
        if kept:
            note(f"{kept:,} rows are finished, in {parts.folder}: going on")
        if kept and not same_versions:
            note("they are of another version of patchword or torch, or of other threads: last digits may differ")
        try:
            for shard in parts.finished.values():
                _check_broken(shard, on_broken)
            count = kept
            shards = source.shards(size, lambda number: number not in parts.finished)
            for result in (engine or LocalEngine()).results(work, opened, out.suffix.lower(), shards):
                _check_broken(result.finished, on_broken)
                parts.add(result.finished, result.content)
                count += result.finished.rows
                report(State(count, kept, source.fraction, time.monotonic() - began))
            _check_all(parts, source, given, rows)
            return _joined(parts, form, out, opened.width, kept, began)
        except UserError:
            if not parts.finished:
                parts.remove()
            raise


def _check_broken(shard: Finished, on_broken: str) -> None:
    if shard.broken and on_broken == "stop":
        raise UserError(shard.first_error, hint="--on-broken skip answers the others")


def _finished(shard: Shard, answered: Answered, encoded: Encoded) -> Finished:
    errors = [one.error for one in answered.answers if isinstance(one, NoAnswer)]
    return Finished(
        shard.number,
        len(shard.rows),
        len(errors),
        answered.truncated,
        errors[0] if errors else "",
        encoded.columns,
        len(encoded.content),
        hashlib.sha256(encoded.content).hexdigest(),
    )


def _check_all(parts: Parts, source: Source, given: dict[str, Any], rows: Path) -> None:
    """Check that every row was answered exactly once, and that the input is what it was at the beginning."""
    answered = sum(shard.rows for shard in parts.finished.values())
    numbers = sorted(parts.finished)
    if source.identity() != given:
        hint = f"remove {parts.folder} and start again"
        raise UserError(f"{rows} has changed while it was read", hint=hint)
    if answered != source.rows or numbers != list(range(len(numbers))):
        hint = f"remove {parts.folder} and start again"
        raise UserError(f"{parts.folder} has {answered:,} rows", expected=f"{source.rows:,} of {rows}", hint=hint)


def _joined(parts: Parts, form: Format, out: Path, width: int, kept: int, began: float) -> Summary:
    """Join the shards into the output, and remove them."""
    shards = [parts.finished[number] for number in sorted(parts.finished)]
    total, broken = sum(shard.rows for shard in shards), sum(shard.broken for shard in shards)
    first = next((shard.first_error for shard in shards if shard.broken), "")
    if broken == total:
        parts.finished.clear()
        raise UserError(first)
    parts.check_content()
    with whole_file(out) as temporary:
        files = [Part(parts.path(shard.number), shard.rows, shard.columns) for shard in shards]
        notes = form.join(files, temporary, width)
    parts.remove()
    truncated = sum(shard.truncated for shard in shards)
    return Summary(total, kept, broken, first, truncated, time.monotonic() - began, notes)
