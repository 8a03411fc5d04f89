"""The name of a model on the hub: hf:OWNER/REPO, or hf:OWNER/REPO@REVISION."""

import re
from dataclasses import dataclass
from pathlib import Path

from patchword.core.errors import UserError

PREFIX = "hf:"
DEFAULT_REVISION = "main"
FORM = "hf:OWNER/REPO or hf:OWNER/REPO@REVISION"

_PART = r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,94}[A-Za-z0-9_])?"
_NAME = re.compile(
    rf"(?P<owner>{_PART})/(?P<repository>{_PART})(?:@(?P<revision>[A-Za-z0-9][A-Za-z0-9._/-]{{0,199}}))?"
)
_FORBIDDEN = ("..", "//", "/.")  # parent folders, hidden folders
_SEPARATOR = "--"  # of the cache's folder names


@dataclass(frozen=True)
class HubName:
    """A repository on the hub. revision: a branch, a tag, a pull request (refs/pr/1) or a commit."""

    owner: str
    repository: str
    revision: str = DEFAULT_REVISION

    @classmethod
    def parse(cls, text: str) -> "HubName":
        """Parse a name with its prefix. Names that could leave the cache folder are refused."""
        found = _NAME.fullmatch(text.removeprefix(PREFIX))
        revision = "" if found is None else found["revision"] or DEFAULT_REVISION
        is_valid = text.startswith(PREFIX) and _SEPARATOR not in text.partition("@")[0]
        is_valid = is_valid and not any(part in text for part in _FORBIDDEN)
        if (
            found is None
            or not is_valid
            or revision.endswith(("/", ".", ".lock"))
            or found["repository"].endswith(".git")
        ):
            hint = "for example hf:google/vit-base-patch16-224; `patchword models --pretrained` lists some"
            raise UserError("this is not a name of a model on the hub", expected=FORM, got=repr(text), hint=hint)
        return cls(found["owner"], found["repository"], revision)

    @property
    def id(self) -> str:
        """The name of the repository on the hub: OWNER/REPO."""
        return f"{self.owner}/{self.repository}"

    def __str__(self) -> str:
        revision = "" if self.revision == DEFAULT_REVISION else f"@{self.revision}"
        return f"{PREFIX}{self.id}{revision}"


def is_hub_name(source: str | Path) -> bool:
    """Return True for a text with the prefix hf:, which is then never a path."""
    return str(source).startswith(PREFIX)
