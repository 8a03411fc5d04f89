"""Faulty samples, such as an image that cannot be read or a row with an empty cell.

Inside `collect_faults(SkipRule())`, as in training and evaluation, a few faulty samples are skipped. They are faults if
they are too many or if a class has no other samples. Elsewhere, as in `patchword data check`, each one is a fault.
Which samples are skipped is decided once, before the first step, so it depends on the files alone.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, ParamSpec, TypeVar

from patchword.core.errors import UserError
from patchword.data.faults import Fault, SkipRule, collect_faults, fault_lines, report_fault, skipping_report

SHOWN = 5  # skipped samples of each kind that a warning names
_RECORDED = 1000  # skipped samples that the record of a run names
P = ParamSpec("P")
Found = TypeVar("Found")


@dataclass
class FaultySamples:
    """The faulty samples of one file or data split.

    where: its name. unit: what a sample is called, e.g. "images". training: a class that loses its only sample is an
    error; in other splits, one that loses two or more.
    """

    where: str
    unit: str
    training: bool = False
    found: list[tuple[Fault, str]] = field(default_factory=list)  # with the class, if it is known

    def add(self, error: UserError, kind: str = "", label: str = "") -> None:
        """Note a faulty sample, which the caller skips. label: its class, empty if it is not known or has none."""
        if skipping_report() is None:
            report_fault(error, kind)
        else:
            self.found.append((Fault.of(error, kind), label))

    def finish(self, labels: Iterable[str]) -> None:
        """Skip the faulty samples, or report them as faults. labels: the class of every sample, faulty or not."""
        report = skipping_report()
        if report is None or report.rule is None or not self.found:
            return
        known = Counter(labels)
        total, count = sum(known.values()), len(self.found)
        lost = Counter(label for _, label in self.found if label.casefold() not in ("", "nan"))
        classes = [label for label, n in lost.items() if n == known[label] and (self.training or n > 1)]
        faults = [fault for fault, _ in self.found]
        if count <= max(1, report.rule.most * total) and not classes:
            report.skipped += faults
            return
        reason = f"{count:,} of {total:,} {self.unit} are faulty; at most {report.rule.most:.0%} are skipped"
        reason += f" ({report.rule.hint})" if report.rule.hint else ""
        if classes:
            reason = f"no {self.unit} of the class {classes[0]!r} are left"
        report.faults += [_with_reason(fault, f"{self.where}: {reason}") for fault in faults]


def _with_reason(fault: Fault, reason: str) -> Fault:
    """Return the fault with a hint why the sample is not skipped."""
    error = fault.error
    hint = "; ".join(part for part in (error.hint, reason) if part)
    return Fault(fault.kind, UserError(error.what, expected=error.expected, got=error.got, hint=hint))


def skipped_record(skipped: Sequence[Fault]) -> dict[str, Any]:
    """Return the skipped samples of all splits for data.json: how many, and the names of the first of them."""
    return {"skipped": {"count": len(skipped), "names": [fault.line for fault in skipped[:_RECORDED]]}}


def skipped_lines(skipped: Sequence[Fault]) -> list[str]:
    """Return a warning that names the first of the skipped samples of each kind."""
    lines = fault_lines(skipped, SHOWN)
    return [line if line.startswith(" ") else f"warning: skipped: {line}" for line in lines]


def left_out(lines: Sequence[str]) -> dict[str, Any]:
    """Return the lines that name skipped samples for evaluation.json; nothing if there are none."""
    return {"skipped": list(lines)} if lines else {}


def read_usable(work: Callable[P, Found], *arguments: P.args, **named: P.kwargs) -> tuple[Found, Sequence[Fault]]:
    """Return the result of a function that reads samples, and the faulty samples that it skipped."""
    return read_with(SkipRule(), work, *arguments, **named)


def read_with(
    rule: SkipRule | None, work: Callable[P, Found], *arguments: P.args, **named: P.kwargs
) -> tuple[Found, Sequence[Fault]]:
    """Do the same with this rule; without one, a faulty sample is an error."""
    found: list[Found] = []
    with collect_faults(rule) as report:
        found.append(work(*arguments, **named))
    return found[0], report.skipped
