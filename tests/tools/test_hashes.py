"""tools/hashes.py: which files of an index belong to a version, and which digests pip is given."""

import re

import pytest

from support.source_code import ROOT, load_tool

SHA, OTHER = "a" * 64, "b" * 64
LOCK = f"""# digests
torch==2.13.0 \\
    --hash=sha256:{SHA} \\
    --hash=sha256:{OTHER}
cuda-toolkit==13.0; platform_system == "Linux" \\
    --hash=sha256:{SHA}
"""


@pytest.fixture(scope="module")
def hashes():
    return load_tool("hashes")


@pytest.mark.parametrize(
    ("file", "is_of"),
    [
        ("numpy-2.4.6-cp311-cp311-manylinux_2_27_aarch64.manylinux_2_28_aarch64.whl", True),
        ("numpy-2.4.6-cp314-cp314t-macosx_14_0_arm64.whl", True),
        ("numpy-2.4.6.tar.gz", True),
        ("tool-2.4.6-1-py3-none-any.whl", True),
        ("tool-2.4.6-py2.py3-none-any.whl", True),
        ("tool-2.4.6-cp39-abi3-manylinux2014_x86_64.whl", True),
        ("numpy-2.4.5-cp311-cp311-manylinux_2_27_x86_64.whl", False),
        ("numpy-2.4.60.tar.gz", False),
        ("numpy-2.4.6-cp310-cp310-manylinux_2_27_x86_64.whl", False),
        ("numpy-2.4.6-cp311-cp311-win_amd64.whl", False),
        ("numpy-2.4.6-cp312-cp312-manylinux_2_17_armv7l.whl", False),
        ("numpy-2.4.6-pp311-pypy311_pp73-manylinux_2_27_x86_64.whl", False),
        ("numpy-2.4.6-cp311-cp311-manylinux_2_27_x86_64.whl.metadata", False),
    ],
)
def test_files_of_a_version_on_a_supported_system(hashes, file, is_of):
    assert hashes.suits(file, "2.4.6") == is_of


def test_the_links_of_a_page_have_digests(hashes):
    page = f"""<a href="../../a/b-1.0+cpu-py3-none-any.whl#sha256={SHA}&amp;x=1">b</a>
        <a href="https://files.example/b-1.0%2Bcu-py3-none-any.whl#sha256={OTHER}" data-requires-python="&gt;=3.9">b</a>
        <a href="b-1.1.tar.gz">b</a>"""
    assert hashes.Links(page).found == {"b-1.0+cpu-py3-none-any.whl": SHA, "b-1.0+cu-py3-none-any.whl": OTHER}


def test_pip_gets_all_digests_of_what_it_chose(hashes):
    report = {"install": [_item("torch", "2.13.0+cpu"), _item("CUDA_toolkit", "13.0")]}
    assert list(hashes.hashed(report, hashes.read(LOCK))) == [
        f"torch==2.13.0+cpu --hash=sha256:{SHA} --hash=sha256:{OTHER}",
        f"CUDA_toolkit==13.0 --hash=sha256:{SHA}",
    ]


@pytest.mark.parametrize(("name", "version"), [("numpy", "2.4.6"), ("torch", "2.13.1")])
def test_what_has_no_digest_is_refused(hashes, name, version):
    with pytest.raises(SystemExit, match=f"{name} {version}: expected a pinned version with digests"):
        list(hashes.hashed({"install": [_item(name, version)]}, hashes.read(LOCK)))


def test_every_pin_has_digests(hashes):
    pinned = {hashes.canonical(n): f"{n}=={v}" for n, v, _ in hashes.pins((ROOT / "constraints.txt").read_text())}
    locked = hashes.read((ROOT / "requirements.lock").read_text())
    assert {name: pin for name, (pin, _) in locked.items()} == pinned
    assert all(shas for _, shas in locked.values())
    lines = (ROOT / "requirements.lock").read_text().splitlines()
    sha = re.compile(r" {4}--hash=sha256:[0-9a-f]{64}( \\)?|[\w.-]+==\S+( ?; ?.+)? \\|#.*")
    assert [line for line in lines if not sha.fullmatch(line)] == []


def _item(name: str, version: str) -> dict[str, dict[str, str]]:
    return {"metadata": {"name": name, "version": version}}
