"""Compare the files of a sealed folder with its seal: one read of each file, nothing is cached."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from patchword.core.errors import UserError
from patchword.core.seal.changing import settled
from patchword.core.seal.digest import Entry
from patchword.core.seal.folder_lock import locked
from patchword.core.seal.manifest import Seal, read_seal

# Files that a reader of a run would use if they appeared there.
MEANINGFUL = (
    *("model.safetensors", "model.npz", "model.safetensors.index.json", "decoder.safetensors", "config.json"),
    *("preprocessor_config.json", "modules.json", "tokenizer.json", "tokenizer_config.json", "vocab.txt", "vocab.json"),
    *("merges.txt", "special_tokens_map.json", "added_tokens.json", "words.txt", "colors.json", "calibration.json"),
    *(
        "recipe.yaml",
        "data.json",
        "samples.safetensors",
        "machine.json",
        "evaluation.json",
        "mistakes.json",
        "finished.json",
    ),
    *("target/tokenizer.json", "target/tokenizer_config.json", "target/vocab.txt", "target/vocab.json"),
    *("target/merges.txt", "target/special_tokens_map.json"),
)
_SMALL = 2**16  # bytes; larger files are read once
# Their absence is plain, and nothing is computed from them.
_REMOVABLE = ("evaluation.json", "mistakes.json", "finished.json", "machine.json", "metrics.jsonl")
State = Literal["ok", "changed", "missing", "added"]


@dataclass(frozen=True)
class Finding:
    """A file of a sealed folder, compared with the seal. expected, found: sizes and digests."""

    name: str
    state: State
    expected: str = ""
    found: str = ""

    @property
    def is_fault(self) -> bool:
        """True for a file that may change what is read; a result that was removed may be computed again."""
        return self.state != "ok" and not (self.state == "missing" and self.name in _REMOVABLE)


@contextmanager
def checked(folder: Path, leave_out: Collection[str] = ()) -> Iterator[Seal | None]:
    """Check a folder, and keep its files from being replaced while they are read. None: it has no seal."""
    if settled(folder) is None:
        yield None
        return
    with locked(folder, shared=True):
        seal = read_seal(folder) or Seal()  # a save may have ended meanwhile
        for finding in findings(folder, seal, leave_out):
            if finding.is_fault:
                raise mismatch(folder, finding)
        yield seal


def check(folder: Path, leave_out: Collection[str] = ()) -> Seal | None:
    """Raise a UserError for the first file that is not as it was sealed; return the seal, None if there is none."""
    with checked(folder, leave_out) as seal:
        return seal


def check_small(folder: Path) -> None:
    """Check all but the weights, which `load` checks when it reads them."""
    seal = settled(folder)
    if seal is not None:
        check(folder, leave_out=[name for name, entry in seal.files.items() if entry.bytes > _SMALL])


def check_file(path: Path) -> None:
    """Check one file against the seal of its folder, if the seal has it."""
    seal = settled(path.parent)
    if seal is None or path.name not in seal.files:
        return
    with locked(path.parent, shared=True):
        found = _finding(path.parent, path.name, (read_seal(path.parent) or seal).files.get(path.name))
    if found is not None and found.is_fault:
        raise mismatch(path.parent, found)


def unsealed(folder: Path) -> str:
    """Return the note for a run without a seal."""
    return f"{folder} has no seal, as runs of earlier versions; seal it as it is: patchword verify {folder} --reseal"


def findings(folder: Path, seal: Seal, leave_out: Collection[str] = ()) -> Iterator[Finding]:
    """Yield every sealed file with its state, and in a run the files that were added since. Small files come first."""
    names = {*seal.files, *(MEANINGFUL if seal.run else ())} - {*leave_out}
    for name in sorted(names, key=lambda name: (seal.files[name].bytes if name in seal.files else 0, name)):
        finding = _finding(folder, name, seal.files.get(name))
        if finding is not None:
            yield finding


def _finding(folder: Path, name: str, expected: Entry | None) -> Finding | None:
    path = folder / name
    if expected is None:
        return Finding(name, "added", "no such file", "a file") if path.exists() else None
    try:
        size = path.stat().st_size
        found = Entry.of(path, like=expected) if path.is_file() and size == expected.bytes else f"{size:,} bytes"
    except FileNotFoundError:
        return Finding(name, "missing", str(expected), "no file")
    except OSError as error:
        return Finding(name, "changed", str(expected), error.strerror or str(error))
    return Finding(name, "ok" if found == expected else "changed", str(expected), str(found))


def mismatch(folder: Path, finding: Finding) -> UserError:
    """Return the error for a file that is not as it was sealed."""
    what = {"changed": "has changed since it was written", "missing": "is missing", "added": "was added to the folder"}
    hint = (
        f"all files: patchword verify {folder}\n"
        f"restore it from a copy; or, if the change is deliberate: patchword verify {folder} --reseal"
    )
    path = folder / finding.name
    return UserError(f"{path} {what[finding.state]}", expected=finding.expected, got=finding.found, hint=hint)
