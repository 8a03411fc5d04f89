"""requirements.lock: the sha256 of every file of the pinned versions, and an install that accepts no other file.

`python tools/hashes.py write` asks the package index of pip for the files of each version in constraints.txt; `make
pins` runs it. `make test HASHES=1` runs `python tools/hashes.py install test --editable . --editable packages/zoo`: pip
chooses what this machine needs, installs it with --require-hashes, and then the project itself without dependencies.

It runs in an empty environment, so it needs nothing but pip.
"""

import argparse
import hashlib
import html.parser
import json
import os
import re
import subprocess
import sys
import tempfile
import tomllib
import urllib.parse
import urllib.request
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
LOCK, PINS = ROOT / "requirements.lock", ROOT / "constraints.txt"
BUILD_EXTRAS = ("editables~=0.3",)  # hatchling asks for it when it builds an editable install
OLDEST = 11  # of Python 3
HEADER = """\
# The sha256 of every file of each version in constraints.txt: wheels for Linux and macOS, and sources. `make pins`
# writes this file; `make demo HASHES=1` and `make test HASHES=1` install no other files. Do not edit it by hand.
"""
# Systems, processors and Pythons on which patchword is not tested.
_OTHER_PLATFORM = re.compile(
    r"win32|win_|_(i686|ppc64|ppc64le|s390x|armv6l|armv7l|riscv64|loongarch64)\b|pyodide|emscripten|ios_|android"
)

Digests = dict[str, tuple[str, list[str]]]  # canonical name: the pin as it is written, and the digests


def requirements(project: Mapping[str, Any], extras: Iterable[str]) -> list[str]:
    """What pyproject.toml asks for: build tools, dependencies and the given extras.

    An extra that names the project itself (`patchword[digits,log]`) is replaced by what it stands for.
    """
    optional = project["project"]["optional-dependencies"]
    own = re.compile(rf"{re.escape(project['project']['name'])}\s*\[([^]]*)]")

    def expand(lines: Iterable[str]) -> Iterator[str]:
        for line in lines:
            if found := own.match(line):
                for extra in sorted(part.strip() for part in found[1].split(",")):
                    yield from expand(optional[extra])
            else:
                yield line

    lines = [*project["build-system"]["requires"], *BUILD_EXTRAS, *project["project"]["dependencies"]]
    return list(dict.fromkeys([*lines, *expand(line for extra in extras for line in optional[extra])]))


def canonical(name: str) -> str:
    """The name of a package as indexes write it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def pins(constraints: str) -> Iterator[tuple[str, str, str]]:
    """Name, version and the whole line of each pin in the text of constraints.txt."""
    for line in constraints.splitlines():
        if found := re.match(r"([\w.-]+)==([^\s;]+)", line):
            yield found[1], found[2], line


def suits(file: str, version: str) -> bool:
    """Whether a file of an index is one of this version that a supported system can install."""
    if file.endswith(".whl"):
        _, found, *_, python, abi, platform = file.removesuffix(".whl").split("-")
        older = [int(tag[3:]) < OLDEST for tag in python.split(".") if re.fullmatch(r"cp3\d+", tag)]
        is_supported = any(tag.startswith(("py3", "py2.py3")) for tag in python.split(".")) or (
            older and (abi == "abi3" or not all(older))
        )
        return found == version and bool(is_supported) and not _OTHER_PLATFORM.search(platform)
    stem = re.sub(r"\.(tar\.gz|zip)$", "", file)
    return stem != file and stem.endswith(f"-{version}")


class Links(html.parser.HTMLParser):
    """The links of a page of an index: file names with their sha256."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: dict[str, str] = {}
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        url = urllib.parse.urlsplit(dict(attrs).get("href") or "") if tag == "a" else None
        if url is not None and (sha := re.search(r"\bsha256=([0-9a-f]{64})", url.fragment)):
            self.found[urllib.parse.unquote(url.path.rpartition("/")[2])] = sha[1]


def index() -> str:
    """The address of pip's package index, as its configuration or its default says."""
    found = _pip("download", "--help", environment={"COLUMNS": "10000"})
    address = re.search(r"Base URL of the Python Package Index \(default (\S+?)/?\)", found)
    if address is None:
        raise SystemExit("pip does not say which package index it uses; expected it in `pip download --help`")
    return address[1]


def published(address: str, name: str, version: str) -> list[str]:
    """The digests that an index states for the files of a version, in the order of their names."""
    accepted = "application/vnd.pypi.simple.v1+json, text/html;q=0.5"
    request = urllib.request.Request(f"{address}/{canonical(name)}/", headers={"Accept": accepted})
    with urllib.request.urlopen(request, timeout=60) as answer:
        text = answer.read().decode()
        is_json = "json" in answer.headers.get_content_type()
    files = (
        {file["filename"]: file["hashes"].get("sha256", "") for file in json.loads(text)["files"]}
        if is_json
        else Links(text).found
    )
    return [sha for file, sha in sorted(files.items()) if sha and suits(file, version)]


def local_build(requirement: str) -> list[str]:
    """The digest of the file that pip takes on this machine, if it lies on its disk, as a CPU build of torch may."""
    [item] = chosen(["--no-deps", requirement])
    url = urllib.parse.urlsplit(item["download_info"]["url"])
    if url.scheme != "file":
        return []
    with Path(urllib.request.url2pathname(url.path)).open("rb") as file:
        return [hashlib.file_digest(file, "sha256").hexdigest()]


def write() -> None:
    """Write requirements.lock."""
    address, lines = index(), [HEADER]
    found = list(pins(PINS.read_text(encoding="utf-8")))
    with ThreadPoolExecutor(8) as pool:
        digests = list(pool.map(lambda pin: published(address, pin[0], pin[1]), found))
    for (name, version, line), shas in zip(found, digests, strict=True):
        if not shas:
            raise SystemExit(f"the package index states no sha256 for {name} {version}")
        shas += [sha for sha in (local_build(f"{name}=={version}") if name == "torch" else []) if sha not in shas]
        lines.append(" \\\n".join([line, *(f"    --hash=sha256:{sha}" for sha in shas)]) + "\n")
    LOCK.write_text("".join(lines), encoding="utf-8")
    print(f"{LOCK.name}: {sum(map(len, digests)):,} files of {len(found)} packages")


def read(lock: str) -> Digests:
    """The digests in the text of requirements.lock."""
    return {
        canonical(name): (f"{name}=={version}", re.findall(r"--hash=(sha256:[0-9a-f]{64})", line))
        for name, version, line in pins(lock.replace("\\\n", " "))
    }


def hashed(report: Mapping[str, Any], digests: Digests) -> Iterator[str]:
    """Yield the lines with hashes for what pip chose, in the form of a requirements file.

    A version with a local part (2.13.0+cpu) keeps it: else pip would take another build, whose digest it knows.
    """
    for item in report["install"]:
        name, version = item["metadata"]["name"], item["metadata"]["version"]
        pin, shas = digests.get(canonical(name), ("no pin", []))
        if pin.partition("==")[2] != version.partition("+")[0] or not shas:
            raise SystemExit(f"{name} {version}: expected a pinned version with digests, got {pin}; run `make pins`")
        yield " ".join([f"{name}=={version}", *(f"--hash={sha}" for sha in shas)])


def chosen(arguments: Sequence[str]) -> list[dict[str, Any]]:
    """What pip would install for these arguments, from its report."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.json")
        _pip("install", "--quiet", "--dry-run", "--ignore-installed", "--report", str(report), *arguments)
        return list(json.loads(report.read_text(encoding="utf-8"))["install"])


def install(extra: str, editables: Sequence[str]) -> None:
    """Install what an extra needs here, each file only with a listed digest, and then the project itself."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    needed = chosen(["--constraint", str(PINS), *requirements(project, [extra])])
    lines = list(hashed({"install": needed}, read(LOCK.read_text(encoding="utf-8"))))
    with tempfile.TemporaryDirectory() as folder:
        wanted = Path(folder, "requirements.txt")
        wanted.write_text("\n".join(lines) + "\n", encoding="utf-8")
        _pip("install", "--quiet", "--no-deps", "--require-hashes", "--requirement", str(wanted))
    own = [word for place in editables for word in ("--editable", place)]
    _pip("install", "--quiet", "--no-deps", "--no-build-isolation", *own)
    print(f"{len(lines)} packages, each with a digest of {LOCK.name}")


def _pip(*arguments: str, environment: Mapping[str, str] | None = None) -> str:
    command = [sys.executable, "-m", "pip", *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env={**os.environ, **(environment or {})})
    if done.returncode:
        raise SystemExit(f"{done.stdout}pip failed; without HASHES=1, make accepts any build of the pinned versions")
    return done.stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("write", help="write requirements.lock")
    installing = verbs.add_parser("install", help="install what an extra needs, and the project")
    installing.add_argument("extra")
    installing.add_argument("--editable", action="append", default=[], metavar="FOLDER")
    given = parser.parse_args()
    if given.verb == "write":
        write()
    else:
        install(given.extra, given.editable)


if __name__ == "__main__":
    main()
