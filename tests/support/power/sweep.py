"""All power cuts and all failing calls of a tiny run, or an even sample of them."""

import errno
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from support.power.disk import Disk, Image, after_power_cut
from support.power.events import Event
from support.power.runs import TinyRun, failed_fault, resumed_fault

T = TypeVar("T")
Cut = tuple[int, str, str, Image]  # after how many calls, what is left, the last acknowledged save, the files


def power_cuts(events: Sequence[Event], random_ones: int = 4, seed: int = 0) -> list[Cut]:
    """Return what may be left after each prefix of the events; what was seen before with the same save is left out."""
    disk, seen, found = Disk(), set[tuple[str, int]](), list[Cut]()
    for number, event in enumerate(events, 1):
        disk.apply(event)
        for name, image in after_power_cut(disk, random_ones, random.Random(seed + number)):
            mark = disk.acknowledged, hash(frozenset(image.items()))
            if mark not in seen:
                seen.add(mark)
                found.append((number, name, disk.acknowledged, image))
    return found


def sampled(values: Sequence[T], count: int) -> Sequence[T]:
    """Return this many values at even distances; 0: all."""
    return values if not count or count >= len(values) else [values[i * len(values) // count] for i in range(count)]


def cut_faults(run: TinyRun, whole: Path, cuts: Sequence[Cut]) -> Iterator[tuple[str, str]]:
    """Yield what is left by each cut, and what is wrong with the run that resumes it."""
    for number, name, saved, image in cuts:
        run.after(image)
        fault = resumed_fault(run, whole, saved)
        yield name.split(",")[0], f"after call {number}, {name}: {fault}" if fault else ""


def call_faults(run: TinyRun, whole: Path, places: Sequence[int]) -> Iterator[tuple[str, str]]:
    """Yield how a run ends whose call fails, and what is wrong; each place with EIO and with a full disk."""
    for place in places:
        for number in (errno.EIO, errno.ENOSPC):
            ended, fault = failed_fault(run, whole, place, number)
            name = errno.errorcode[number]
            yield f"{name}: {ended}", f"{name} in call {place}: {fault}" if fault else ""


def counted(results: Iterator[tuple[str, str]]) -> tuple[Counter[str], list[str]]:
    """Return how many there are of each, and all faults."""
    kinds, faults = Counter[str](), list[str]()
    for kind, fault in results:
        kinds[kind] += 1
        faults += [fault] * bool(fault)
    return kinds, faults
