"""Errors in the user's data, raised at once or collected into one report.

By default the first fault is raised. Inside `collect_faults()` every fault is collected and all of them are raised
together at the end, so that a user fixes a file once and not row by row. A reader reports a fault and continues with
the next row:

    with collect_faults() as report:
        rows = report.attempt(read_table, path, columns)
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import NoReturn, ParamSpec, TypeVar

from patchword.core.errors import UserError

SHOWN = 20  # faults of each kind that a message lists
P = ParamSpec("P")
Found = TypeVar("Found")


@dataclass(frozen=True)
class Fault:
    """One error or warning about the data. `kind` groups faults of the same type in a report."""

    kind: str
    error: UserError

    @classmethod
    def of(cls, error: UserError, kind: str = "") -> "Fault":
        """Return the fault of an error; without `kind`, faults with similar messages are of the same kind."""
        return cls(kind or _kind(error.what), error)

    @property
    def line(self) -> str:
        return self._lines()[0]

    @property
    def hint(self) -> str:
        return " ".join(self._lines()[1:])

    def _lines(self) -> list[str]:
        return str(self.error).splitlines() or [""]


class DataError(UserError):
    """All faults of some data. `faults` has every one; the message lists the first of each kind, then the doubts."""

    def __init__(self, faults: Sequence[Fault], doubts: Sequence[Fault] = ()) -> None:
        self.faults = tuple(faults)
        kinds = len({fault.kind for fault in faults})
        count = "1 fault" if len(faults) == 1 else f"{len(faults):,} faults"
        what = f"{count} in the data{f', of {kinds} kinds' if kinds > 1 else ''}"
        super().__init__(what, hint="\n".join([*fault_lines(faults), *note_lines(doubts)]))


@dataclass(frozen=True)
class SkipRule:
    """Faulty samples are skipped, see `patchword.data.skipping`.

    most: the largest fraction of a file or data split that is skipped. hint: how the user raises it.
    """

    most: float = 0.05
    hint: str = ""


@dataclass
class FaultReport:
    """The faults found so far.

    doubts: warnings, which raise nothing. rule: which faulty samples are skipped; None: each is a fault. skipped: those
    that are skipped.
    """

    faults: list[Fault] = field(default_factory=list)
    doubts: list[Fault] = field(default_factory=list)
    rule: SkipRule | None = None
    skipped: list[Fault] = field(default_factory=list)

    def add(self, error: UserError, kind: str = "") -> None:
        if isinstance(error, DataError):
            self.faults += error.faults
        else:
            self.faults.append(Fault.of(error, kind))

    def attempt(self, work: Callable[P, Found], *arguments: P.args, **named: P.kwargs) -> Found | None:
        """Return the result of `work`, or None if it raised a UserError, which is then added to the report."""
        try:
            return work(*arguments, **named)
        except UserError as error:
            self.add(error)
            return None

    def finish(self) -> None:
        """Raise the collected faults, if there are any, with the skipped samples and the warnings.

        A single fault without a warning is raised as it is.
        """
        if not self.faults:
            return
        if len(self.faults + self.skipped + self.doubts) == 1:
            raise self.faults[0].error
        raise DataError(self.faults + self.skipped, self.doubts)


_current: ContextVar[FaultReport | None] = ContextVar("report", default=None)


@contextmanager
def collect_faults(rule: SkipRule | None = None) -> Iterator[FaultReport]:
    """Collect the faults reported inside the block and raise them at its end; a nested report joins the outer one.

    rule: a few faulty samples, such as an image that cannot be read, are skipped and are no faults.
    """
    if (outer := _current.get()) is not None:
        yield outer
        return
    report = FaultReport(rule=rule)
    token = _current.set(report)
    try:
        yield report
    except UserError as error:
        report.add(error)
    finally:
        _current.reset(token)
    report.finish()


def report_fault(error: UserError, kind: str = "") -> None:
    """Raise the error, or add it to the current report; the caller then skips the faulty item."""
    report = _current.get()
    if report is None:
        raise error
    report.add(error, kind)


def attempt(work: Callable[P, Found], *arguments: P.args, **named: P.kwargs) -> Found | None:
    """Return the result of `work`; None if it failed and a report collects the error."""
    report = _current.get()
    return work(*arguments, **named) if report is None else report.attempt(work, *arguments, **named)


def give_up() -> NoReturn:
    """Stop work that cannot continue because of faults that were already reported."""
    raise DataError(())


def warn(kind: str, what: str) -> None:
    """Add a warning to the current report: something that looks like a mistake but may be intended."""
    if (report := _current.get()) is not None:
        report.doubts.append(Fault(kind, UserError(what)))


def is_collecting() -> bool:
    """True inside `collect_faults()`."""
    return _current.get() is not None


def skipping_report() -> FaultReport | None:
    """Return the current report if it skips faulty samples, else None."""
    report = _current.get()
    return report if report is not None and report.rule is not None else None


def fault_lines(faults: Iterable[Fault], most: int | None = SHOWN) -> list[str]:
    """Format faults as lines: each kind with its count, its faults in order (at most `most`), then the first hint."""
    groups: dict[str, list[Fault]] = {}
    for fault in faults:
        groups.setdefault(fault.kind, []).append(fault)
    lines = []
    for kind, same in groups.items():
        lines.append(f"{kind} ({len(same):,}):")
        lines += [f"  {fault.line}" for fault in same[:most]]
        lines += [f"  ... and {len(same) - most:,} more"] if most is not None and len(same) > most else []
        hints = [fault.hint for fault in same if fault.hint]
        lines += [f"  -> {hints[0]}"] if hints else []
    return lines


def note_lines(doubts: Iterable[Fault], most: int | None = SHOWN) -> list[str]:
    """Format warnings as `fault_lines` does; each kind begins with "note:"."""
    return [line if line.startswith(" ") else f"note: {line}" for line in fault_lines(doubts, most)]


def _kind(what: str) -> str:
    """The message of an error without its location, quoted values and numbers, so that equal faults group together."""
    place, separator, rest = what.partition(": ")
    return re.sub(r"'[^']*'|\"[^\"]*\"|[\d,.]*\d", "…", rest if separator and rest else place)
