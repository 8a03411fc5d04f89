"""Read an XML file without entities, which can expand to gigabytes or name other files."""

from pathlib import Path
from typing import NoReturn
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

from patchword.core.errors import UserError

LARGEST = 2**26  # bytes
_DEEPEST = 50


def read_xml(path: Path) -> Element:
    """Return the root of an XML file; a document type, and with it every entity, is refused."""
    builder, depth = TreeBuilder(), 0
    parser = expat.ParserCreate()

    def refuse(*_: object) -> NoReturn:
        raise UserError(f"cannot read {path}", expected="XML without a DOCTYPE", hint="remove the DOCTYPE")

    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal depth
        depth += 1
        if depth > _DEEPEST:
            raise UserError(f"cannot read {path}", expected=f"at most {_DEEPEST} levels of elements")
        builder.start(tag, attributes)

    def end(tag: str) -> None:
        nonlocal depth
        depth -= 1
        builder.end(tag)

    parser.StartDoctypeDeclHandler = refuse
    parser.StartElementHandler, parser.EndElementHandler, parser.CharacterDataHandler = start, end, builder.data
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST + 1)
        if len(data) > LARGEST:
            raise UserError(f"cannot read {path}", expected=f"at most {LARGEST:,} bytes")
        parser.Parse(data, True)
        return builder.close()
    except (OSError, expat.ExpatError, ValueError) as error:
        if isinstance(error, UserError):
            raise
        raise UserError(f"cannot read {path}", expected="an XML file", got=str(error)) from None
