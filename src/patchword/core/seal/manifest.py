"""seal.json: size and sha256 of every file of a folder that means something, and which run the folder belongs to.

It has its own digest, too, so that one changed bit anywhere is found.
"""

import hashlib
import json
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any, Self

from patchword import __version__
from patchword.core.errors import UserError
from patchword.core.files import parse_json, write_text
from patchword.core.seal.digest import CHUNK, Entry

SEAL = "seal.json"
_FORMAT = 2  # 1 had no chunks
_HEX = frozenset("0123456789abcdef")


@dataclass(frozen=True)
class Pending:
    """A change that is decided but not yet done: files wait in a hidden folder, others are to be removed."""

    folder: str
    files: dict[str, Entry]
    removed: list[str]


@dataclass(frozen=True)
class Change:
    """A deliberate change after the run: when, of which files, and why if that was given."""

    when: str
    files: list[str]
    why: str = ""


@dataclass(frozen=True)
class Seal:
    """The content of seal.json.

    run: the id of the run; empty for a folder that is none. recipe, data: digests of what the run began with; its
    checkpoints have all three. resealed: the run has checkpoints from before it had a seal. has_checkpoint: one was
    completed, so that the run cannot begin again when there is none.
    """

    run: str = ""
    recipe: str = ""
    data: str = ""
    files: dict[str, Entry] = field(default_factory=dict)
    resealed: bool = False
    has_checkpoint: bool = False
    changes: list[Change] = field(default_factory=list)
    pending: Pending | None = None

    def changed(self, files: Mapping[str, Entry], removed: list[str]) -> Self:
        """Return the seal after a change, with nothing pending."""
        kept = {name: entry for name, entry in self.files.items() if name not in removed}
        return replace(self, files=dict(sorted({**kept, **files}.items())), pending=None)

    def write(self, folder: Path) -> None:
        """Write seal.json atomically."""
        body = {"format": _FORMAT, "patchword": __version__, **asdict(self, dict_factory=_stated)}
        write_text(folder / SEAL, _rendered({**body, "digest": _digest_of(body)}))


def new_run_id() -> str:
    """Return the id of a new run: 16 random bytes."""
    return secrets.token_hex(16)


def text_digest(value: Any) -> str:
    """Return the sha256 of a JSON value."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()


def read_seal(folder: Path) -> Seal | None:
    """Return the seal of a folder; None if it has none. A seal that was changed raises a UserError."""
    path = folder / SEAL
    try:
        content = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise UserError(f"cannot read {path}", got=error.strerror) from None
    try:
        return _parsed(content)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        reason = str(error) if isinstance(error, ValueError) else "it has changed since it was written"
        hint = f"restore it from a copy, or seal the folder as it is now: patchword verify {folder} --reseal"
        raise UserError(
            f"{path} cannot be used", expected="the seal as it was written", got=reason, hint=hint
        ) from None


def _parsed(content: bytes) -> Seal:
    try:
        body = parse_json(content.decode())
        digest = body.pop("digest")
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ValueError("it has changed since it was written") from None
    if _rendered({**body, "digest": digest}).encode() != content or digest != _digest_of(body):
        raise ValueError("it has changed since it was written")
    if body.pop("format") not in (1, _FORMAT):
        raise ValueError(f"another format, of patchword {body['patchword']}")
    body.pop("patchword")
    files, pending = _entries(body.pop("files")), body.pop("pending")
    if pending is not None:
        pending = Pending(
            _plain(pending["folder"]), _entries(pending["files"]), [*map(relative_name, pending["removed"])]
        )
    changes = [Change(**change) for change in body.pop("changes")]
    return Seal(**body, files=files, changes=changes, pending=pending)


def _entries(values: Mapping[str, Any]) -> dict[str, Entry]:
    found = {relative_name(name): Entry(**entry) for name, entry in values.items()}
    for name, entry in found.items():
        is_digest = len(entry.sha256) == 64 and _HEX.issuperset(entry.sha256)
        if type(entry.bytes) is not int or not is_digest or entry.chunk not in (0, CHUNK):
            raise ValueError(f"the entry of {name[:80]!r}")
    return found


def relative_name(name: str) -> str:
    """Return a name that stays inside the folder; a seal that was made by others may have any."""
    path = PurePosixPath(name)
    if path.is_absolute() or not path.parts or ".." in path.parts or str(path) != name or "\0" in name:
        raise ValueError(f"the name {name[:80]!r}")
    return name


def _plain(name: str) -> str:
    if "/" in relative_name(name) or not name.startswith("."):
        raise ValueError(f"the name {name[:80]!r}")
    return name


def _stated(fields: list[tuple[str, Any]]) -> dict[str, Any]:
    """Leave out that a file is digested whole, as most are."""
    return {name: value for name, value in fields if (name, value) != ("chunk", 0)}


def _rendered(value: Any) -> str:
    return json.dumps(value, indent=2) + "\n"


def _digest_of(body: Any) -> str:
    return hashlib.sha256(_rendered(body).encode()).hexdigest()
