"""Write constraints.txt: the exact version of every package that the make targets install, and then requirements.lock.

`make pins` runs this file. pip resolves the newest versions that fit together with the pinned torch, without
installing anything, and reports them as JSON. The report is of the machine that runs it, so the dependency
markers are also evaluated for every supported platform and Python version; a package that is needed only there
is added and resolved, too.

Run it on Linux with the oldest supported Python: the versions found there exist for newer Pythons as well.
"""

import argparse
import json
import platform
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

import hashes
from hashes import requirements

ROOT = Path(__file__).resolve().parent.parent
EXTRAS = ("test", "docs", "dev")  # all that make installs; `demo` is a part of `test`
PLATFORMS = (("Linux", "linux", "x86_64"), ("Linux", "linux", "aarch64"), ("Darwin", "darwin", "arm64"))
PYTHONS = ("3.11", "3.12", "3.13", "3.14")

HEADER = """\
# The torch that `make` installs. pyproject.toml asks only for a range, so that users keep the build for their own
# hardware.
{torch}

# All other packages that `make` installs, directly or indirectly. `make pins` writes this file and moves every
# version but torch's to the newest that fits; `make pins TORCH=VERSION` moves torch, too. Do not edit it by hand.
# A pin has an effect only where its package is installed. The pins come from Linux and the oldest supported Python.
"""


class Package(NamedTuple):
    """One package of pip's report: its name as its authors write it, its version, its Pythons, its dependencies."""

    name: str
    version: str
    pythons: SpecifierSet
    dependencies: tuple[Requirement, ...]


Environment = Mapping[str, str]


def environments() -> list[dict[str, str]]:
    """The values of the environment markers for each supported platform and Python version."""
    return [
        {
            "os_name": "posix",
            "sys_platform": sys_platform,
            "platform_system": system,
            "platform_machine": machine,
            "platform_release": "",
            "platform_version": "",
            "platform_python_implementation": "CPython",
            "implementation_name": "cpython",
            "implementation_version": f"{python}.0",
            "python_version": python,
            "python_full_version": f"{python}.0",
        }
        for system, sys_platform, machine in PLATFORMS
        for python in PYTHONS
    ]


def packages(report: Mapping[str, Any]) -> dict[str, Package]:
    """The packages of a report of `pip install --dry-run --ignore-installed --report`, by canonical name."""
    found: dict[str, Package] = {}
    for item in report["install"]:
        metadata = item["metadata"]
        pythons = SpecifierSet(metadata.get("requires_python", ""))
        dependencies = tuple(Requirement(line) for line in metadata.get("requires_dist", ()))
        package = Package(metadata["name"], metadata["version"], pythons, dependencies)
        found[canonicalize_name(package.name)] = package
    return found


def too_new(found: Mapping[str, Package]) -> list[str]:
    """Requirements that exclude the versions which the first release of the oldest Python cannot install."""
    return [f"{name}<{p.version}" for name, p in sorted(found.items()) if f"{PYTHONS[0]}.0" not in p.pythons]


def needed(roots: Iterable[str], found: Mapping[str, Package], environment: Environment) -> set[str]:
    """Names of all packages that an install of `roots` needs in `environment`, whether or not they were found."""
    names: set[str] = set()
    visited: set[tuple[str, str]] = set()
    queue = [(Requirement(root), frozenset({""})) for root in roots]
    while queue:
        requirement, extras = queue.pop()
        marker = requirement.marker
        if marker and not any(marker.evaluate({**environment, "extra": extra}) for extra in extras):
            continue
        name = canonicalize_name(requirement.name)
        names.add(name)
        for extra in {"", *requirement.extras} if name in found else ():
            if (name, extra) not in visited:
                visited.add((name, extra))
                queue += [(dependency, frozenset({extra})) for dependency in found[name].dependencies]
    return names


def render(roots: Sequence[str], found: Mapping[str, Package]) -> str:
    """The text of constraints.txt; a package that one system alone needs gets a marker."""
    systems: dict[str, set[str]] = {name: set() for name in found}
    for environment in environments():
        for name in needed(roots, found, environment):
            systems[name].add(environment["platform_system"])
    everywhere = {system for system, _, _ in PLATFORMS}
    lines = []
    for name in sorted(found):
        if name == "torch" or not systems[name]:
            continue
        marker = "" if systems[name] == everywhere else f'; platform_system == "{min(systems[name])}"'
        lines.append(f"{found[name].name}=={found[name].version}{marker}\n")
    return HEADER.format(torch=f"torch=={found['torch'].version}") + "".join(lines)


def pinned_torch(constraints: str) -> str:
    """The version of torch in the text of constraints.txt."""
    match = re.search(r"^torch==(\S+)", constraints, re.MULTILINE)
    if match is None:
        raise SystemExit("constraints.txt does not pin torch; expected a line such as torch==2.13.0")
    return match[1]


def resolve(lines: Sequence[str]) -> dict[str, Package]:
    """Let pip choose versions for `lines` without installing them."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.json")
        options = ["--quiet", "--dry-run", "--ignore-installed", "--report", str(report)]
        subprocess.run([sys.executable, "-m", "pip", "install", *options, *lines], check=True)
        return packages(json.loads(report.read_text(encoding="utf-8")))


def main() -> None:
    parser = argparse.ArgumentParser(description="Move the pins of constraints.txt to the newest versions.")
    parser.add_argument("--torch", default="", metavar="VERSION", help="move torch, too, to this version")
    arguments = parser.parse_args()
    running = (platform.system(), ".".join(platform.python_version_tuple()[:2]))
    if running != ("Linux", PYTHONS[0]):
        expected = f"Linux and Python {PYTHONS[0]}, the oldest that is supported"
        raise SystemExit(f"make pins: expected {expected}; got {running[0]} and Python {running[1]}")

    file = ROOT / "constraints.txt"
    torch = arguments.torch or pinned_torch(file.read_text(encoding="utf-8"))
    # `===` excludes local builds such as 2.13.0+cpu: the published build alone names its CUDA packages and its Triton.
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    roots = [*requirements(project, EXTRAS), f"torch==={torch}"]
    lines = list(roots)
    while True:
        found = resolve(lines)
        missing = set().union(*(needed(roots, found, environment) for environment in environments())) - found.keys()
        further = [*sorted(missing), *too_new(found)]
        if not further:
            break
        lines += further
    file.write_text(render(roots, found), encoding="utf-8")
    print(f"{file.name}: {len(found)} packages, torch {torch}. Run `make test` before you commit it.")
    hashes.write()


if __name__ == "__main__":
    main()
