"""Finds the classes of label maps: from a file, from the layout, or from the values that occur."""

from collections.abc import Sequence
from pathlib import Path

from patchword.core.errors import UserError
from patchword.data.faults import warn
from patchword.data.segmentation.formats.class_files import CLASS_FILES, ClassEntry, read_class_file
from patchword.data.segmentation.formats.pairs import FoundImages
from patchword.data.segmentation.label_files import ScannedMap
from patchword.data.segmentation.records import IGNORED, ClassTable, Color

EQUAL_CHANNELS = "a label map with three equal channels, which is read as numbers of classes"
_FEWEST = 2  # classes
_SHOWN_COLORS = 12


def find_classes(
    where: Path, found: FoundImages, scans: Sequence[ScannedMap], ignored: Sequence[int | str]
) -> ClassTable:
    """Return the classes. A file beside the data names them; else the layout does; else values that occur are classes.

    ignored: values of pixels without a class, or names of classes to leave out.
    """
    entries = read_class_file(where if where.is_dir() else where.parent)
    coded = any(scan.coded and not scan.equal for scan in scans)
    names = [one for one in ignored if isinstance(one, str)]
    numbers = [one for one in ignored if not isinstance(one, str)]
    if coded:
        if numbers and numbers != [IGNORED]:
            raise UserError(
                "ignored: the label maps have colours instead of numbers",
                expected="the names of classes",
                got=", ".join(map(str, numbers)),
            )
        return _checked(where, _colored(where, entries, scans).without(names))
    if any(scan.coded for scan in scans):
        warn(EQUAL_CHANNELS, str(where))
    _check_palettes(where, scans)
    table = _numbered(found, entries, scans, (*found.known.ignored, *numbers))
    return _checked(where, table.without(names))


def _colored(where: Path, entries: Sequence[ClassEntry] | None, scans: Sequence[ScannedMap]) -> ClassTable:
    """Return the classes of colour-coded maps, whose colours a file must give."""
    if not entries or any(one.color is None for one in entries):
        raise UserError(
            f"{where}: the label maps have colours, and no file names the classes of the colours",
            expected=f"one of {', '.join(CLASS_FILES)} with the colours, e.g. lines such as: 128 64 128 road",
            hint=f"write a name beside each colour of the label maps: {_occurring_colors(scans)}",
        )
    colors = tuple(one.color for one in entries if one.color is not None)
    values = tuple(red << 16 | green << 8 | blue for red, green, blue in colors)
    if len(set(values)) < len(values):
        twice = next(color for color in colors if colors.count(color) > 1)
        raise UserError(f"{where}: two classes have the same colour", got=twice)
    return ClassTable(tuple(one.name for one in entries), values, (), colors, coded=True)


def _occurring_colors(scans: Sequence[ScannedMap]) -> str:
    """Return the first colours that occur, as red, green and blue."""
    found = sorted({value for scan in scans if scan.coded for value in scan.values})
    shown = [f"{value >> 16} {value >> 8 & 255} {value & 255}" for value in found[:_SHOWN_COLORS]]
    more = len(found) - len(shown)
    return ", ".join(shown) + (f" and {more:,} more" if more else "")


def _numbered(
    found: FoundImages, entries: Sequence[ClassEntry] | None, scans: Sequence[ScannedMap], ignored: tuple[int, ...]
) -> ClassTable:
    """Return the classes of maps of numbers."""
    known, shift = found.known, 0
    if entries:
        # A list of the known classes counts from 0; the values of the maps may begin elsewhere (ADE20K: at 1).
        is_list = known.names and [one.value for one in entries] == list(range(len(known.names)))
        shift = known.first if is_list else 0
        named = {one.value + shift: one.name for one in entries}
    elif found.ids:
        named = dict(found.ids)
    elif known.names:
        named = {known.first + place: name for place, name in enumerate(known.names)}
    else:
        occurring = sorted({value for scan in scans for value in _numbers(scan)} - set(ignored))
        named = {value: f"class_{value}" for value in occurring}
    values = tuple(value for value in named if value not in ignored)
    colors = {one.value + shift: one.color for one in entries or () if one.color is not None}
    return ClassTable(
        tuple(named[value] for value in values),
        values,
        tuple(dict.fromkeys(ignored)),
        tuple(colors[value] for value in values) if set(values) <= colors.keys() else _palette_colors(values, scans),
    )


def _numbers(scan: ScannedMap) -> tuple[int, ...]:
    return tuple(value & 255 for value in scan.values) if scan.coded else scan.values


def _check_palettes(where: Path, scans: Sequence[ScannedMap]) -> None:
    """Raise an error if a number has two colours: the same class has another number in each file then."""
    known: dict[int, Color] = {}
    for scan in scans:
        for value in scan.values if scan.palette else ():
            color = scan.palette[value] if value < len(scan.palette) else None
            if color is not None and known.setdefault(value, color) != color:
                raise UserError(
                    f"{where}: the label maps have different palettes",
                    expected="one colour per number in all files",
                    got=f"the value {value} is {known[value]} in one file and {color} in another",
                    hint="save all label maps with one palette, or as RGB with a file of the colours (classes.json)",
                )


def _palette_colors(values: Sequence[int], scans: Sequence[ScannedMap]) -> tuple[Color, ...]:
    """Return the colours of the first palette that has all classes in different colours; empty without one."""
    for palette in (scan.palette for scan in scans if scan.palette):
        if all(value < len(palette) for value in values):
            colors = tuple(palette[value] for value in values)
            return colors if len(set(colors)) == len(colors) else ()
    return ()


def _checked(where: Path, table: ClassTable) -> ClassTable:
    if len(table.names) < _FEWEST:
        hint = ""
        if IGNORED in table.ignored and not table.coded:
            hint = f"the value {IGNORED} is ignored; ignored=[] makes it a class, as in masks of 0 and {IGNORED}"
        raise UserError(f"{where}: too few classes", expected="at least 2", got=len(table.names), hint=hint)
    return table
