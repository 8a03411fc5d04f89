"""Files that name the classes and their colours: classes.txt, classes.json, label_colors.txt, class_dict.csv."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from patchword.core.errors import UserError
from patchword.core.files import read_json
from patchword.data.detection.formats.values import text_lines
from patchword.data.segmentation.records import Color

CLASS_FILES = ("classes.txt", "classes.json", "label_colors.txt", "class_dict.csv", "labels.txt", "labelmap.txt")
_COLOR_FIRST = re.compile(r"^(\d{1,3})[\s,]+(\d{1,3})[\s,]+(\d{1,3})[\s,]+(\S.*)$")
_COLOR_LAST = re.compile(r"^(.*?\S)[\s,:]+(\d{1,3})[\s,]+(\d{1,3})[\s,]+(\d{1,3})[\s:]*$")


class ClassEntry(NamedTuple):
    """A class of a file. value: its number in label maps. color: None if the file gives none."""

    value: int
    name: str
    color: Color | None = None


def read_class_file(folder: Path) -> tuple[ClassEntry, ...] | None:
    """Return the classes of the first such file in a folder; None without one."""
    path = next((folder / name for name in CLASS_FILES if (folder / name).is_file()), None)
    if path is None:
        return None
    found = _from_json(path) if path.suffix == ".json" else _from_lines(path)
    for kind, what in (("name", [one.name for one in found]), ("number", [str(one.value) for one in found])):
        twice = next((one for one in what if what.count(one) > 1), None)
        if twice is not None:
            raise UserError(f"{path}: two classes have the same {kind}", got=twice, hint="remove or rename one")
    if not found:
        raise UserError(f"{path}: no classes", expected="one class per line" if path.suffix != ".json" else "a list")
    if any(one.color is None for one in found) and any(one.color is not None for one in found):
        raise UserError(f"{path}: some classes have a colour and others have none", expected="all or none")
    return found


def _from_lines(path: Path) -> tuple[ClassEntry, ...]:
    """Read one class per line: a name, or a name with red, green and blue before or after it."""
    lines = [(number, line.strip()) for number, line in enumerate(text_lines(path), 1)]
    lines = [(number, line) for number, line in lines if line and not line.startswith("#")]
    if lines and re.sub(r"\s", "", lines[0][1]).lower() in ("name,r,g,b", "r,g,b,name"):
        lines = lines[1:]
    found = []
    for value, (number, line) in enumerate(lines):
        name, color = _parsed(line)
        if color is not None and max(color) > 255:
            raise UserError(f"{path}, line {number}: not a colour", expected="0 to 255 each", got=line)
        found.append(ClassEntry(value, name, color))
    return tuple(found)


def _parsed(line: str) -> tuple[str, Color | None]:
    if match := _COLOR_FIRST.match(line):
        red, green, blue, name = match.groups()
    elif match := _COLOR_LAST.match(line):
        name, red, green, blue = match.groups()
    else:
        return line, None
    return name.strip(), (int(red), int(green), int(blue))


def _from_json(path: Path) -> tuple[ClassEntry, ...]:
    """Read a list of names or of {"name", "id", "color"}, or an object {id: name} or {name: [red, green, blue]}."""
    content = read_json(path)
    if isinstance(content, list):
        return tuple(_entry(path, value, one) for value, one in enumerate(content))
    if isinstance(content, Mapping) and content:
        if all(isinstance(value, list) for value in content.values()):
            entries = ({"name": name, "color": color} for name, color in content.items())
            return tuple(_entry(path, value, one) for value, one in enumerate(entries))
        if all(str(key).isdigit() and isinstance(name, str) for key, name in content.items()):
            return tuple(sorted(ClassEntry(int(key), name) for key, name in content.items()))
    raise _not_classes(path, content)


def _entry(path: Path, value: int, one: object) -> ClassEntry:
    if isinstance(one, str):
        return ClassEntry(value, one)
    if not isinstance(one, Mapping) or not isinstance(one.get("name"), str):
        raise _not_classes(path, one)
    number, color = one.get("id", value), one.get("color")
    if not isinstance(number, int) or not 0 <= number < 1 << 16:
        raise UserError(f"{path}: not the number of a class", expected="0 to 65535", got=number)
    if color is None:
        return ClassEntry(number, one["name"])
    is_color = isinstance(color, list) and len(color) == 3
    if not is_color or not all(isinstance(part, int) and 0 <= part <= 255 for part in color):
        raise UserError(f"{path}, {one['name']}: not a colour", expected="[red, green, blue], 0 to 255", got=color)
    return ClassEntry(number, one["name"], (color[0], color[1], color[2]))


def _not_classes(path: Path, got: object) -> UserError:
    expected = 'a list of names, {"0": name}, {name: [red, green, blue]}, or a list of {"name", "id", "color"}'
    return UserError(f"{path}: not a list of classes", expected=expected, got=str(got)[:60])
