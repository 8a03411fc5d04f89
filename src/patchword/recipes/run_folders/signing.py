"""Sign the files of a run with a private key, and compare them with a signature."""

import hashlib
from collections.abc import Callable
from pathlib import Path

from patchword.core.errors import UserError
from patchword.core.files import write_text
from patchword.core.seal.changing import settled
from patchword.core.seal.checking import MEANINGFUL, Finding, checked
from patchword.core.seal.folder_lock import locked
from patchword.core.seal.manifest import SEAL
from patchword.core.seal.signature import private_key, public_key, signed, statement_of, verified
from patchword.recipes.run_folders.verification import RUNNING, no_seal
from patchword.training.lock.lock import exclusive

SIGNATURE = "model.sig"


def sign_run(folder: Path, key: Path, password: Callable[[], str], out: Path | None = None) -> list[str]:
    """Write a signature over all files of the seal and the seal itself; return their names.

    out: the file to write; by default model.sig in the run. A run that is not as it was sealed is refused.
    """
    opened = private_key(key, password)
    if settled(folder) is None:
        raise no_seal(folder)
    with exclusive(folder, RUNNING):
        with checked(folder) as seal:
            names = [*(seal.files if seal else ()), SEAL]
            digests = {name: _sha256(folder / name) for name in names if (folder / name).is_file()}
        tops = {name.partition("/")[0] for name in digests}
        unsigned = {path.name for path in folder.iterdir()} - tops | {SIGNATURE}
        statement = statement_of(folder.resolve().name, digests, sorted(unsigned))
        write_text(out or folder / SIGNATURE, signed(statement, opened))
    return sorted(digests)


def compare_signature(folder: Path, key: Path, signature: Path | None = None) -> list[Finding]:
    """Return each signed file of a run with what was found, and unsigned files that a reader would use."""
    expected = verified(signature or folder / SIGNATURE, public_key(key))
    with locked(folder, shared=True):
        found = [_compared(folder, name, sha) for name, sha in sorted(expected.items())]
        added = sorted(name for name in {*MEANINGFUL, SEAL} - expected.keys() if (folder / name).exists())
    return [*found, *(Finding(name, "added", "no such file", "a file") for name in added)]


def _compared(folder: Path, name: str, expected: str) -> Finding:
    wanted = f"sha256 {expected[:16]}"
    try:
        found = _sha256(folder / name)
    except FileNotFoundError:
        return Finding(name, "missing", wanted, "no file")
    except OSError as error:
        return Finding(name, "changed", wanted, error.strerror or str(error))
    return Finding(name, "ok" if found == expected else "changed", wanted, f"sha256 {found[:16]}")


def _sha256(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except IsADirectoryError:
        raise UserError(f"{path} is a folder", expected="a file") from None
