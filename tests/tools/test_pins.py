"""tools/pins.py: from a report of pip to the text of constraints.txt."""

import tomllib

import pytest

from support.source_code import ROOT, load_tool


@pytest.fixture(scope="module")
def pins():
    return load_tool("pins")


PROJECT = {
    "build-system": {"requires": ["hatchling<2"]},
    "project": {
        "name": "patchword",
        "dependencies": ["torch>=2.11"],
        "optional-dependencies": {
            "digits": ["scikit-learn>=1.5"],
            "demo": ["patchword[digits]"],
            "test": ["patchword[demo]", "pytest", "triton; platform_system == 'Linux'"],
        },
    },
}


def item(name, version, *requires):
    return {"metadata": {"name": name, "version": version, "requires_dist": list(requires)}}


REPORT = {
    "install": [
        item("torch", "2.13.0", "Jinja2", "cuda-toolkit[cublas]==13.0; platform_system == 'Linux'"),
        item("Jinja2", "3.1.6", "Babel; extra == 'i18n'"),
        item("cuda-toolkit", "13.0", "nvidia-cublas; extra == 'cublas'", "nvidia-cufft; extra == 'cufft'"),
        item("nvidia-cublas", "13.1"),
        item("triton", "3.7.1"),
        item("pytest", "9.2.0", "colorama; sys_platform == 'win32'"),
    ]
}


def test_extras_of_the_project_itself_are_expanded(pins):
    lines = pins.requirements(PROJECT, ["test"])
    assert lines == [
        "hatchling<2",
        *pins.hashes.BUILD_EXTRAS,
        "torch>=2.11",
        "scikit-learn>=1.5",
        "pytest",
        "triton; platform_system == 'Linux'",
    ]


def test_markers_and_extras_decide_what_is_needed(pins):
    found = pins.packages(REPORT)
    roots = ["torch", "pytest", "triton; platform_system == 'Linux'"]
    needed = {e["platform_system"]: pins.needed(roots, found, e) for e in pins.environments()}
    assert needed["Linux"] == {"torch", "jinja2", "cuda-toolkit", "nvidia-cublas", "pytest", "triton"}
    assert needed["Darwin"] == {"torch", "jinja2", "pytest"}


def test_a_package_that_was_not_resolved_is_reported_as_needed(pins):
    found = pins.packages({"install": [item("pytest", "9.2.0", "appnope; sys_platform == 'darwin'")]})
    needed = [pins.needed(["pytest"], found, e) - found.keys() for e in pins.environments()]
    assert set().union(*needed) == {"appnope"}


def test_a_version_that_the_oldest_python_cannot_install_is_excluded(pins):
    late, early = item("late", "13.1"), item("early", "1.0")
    late["metadata"]["requires_python"], early["metadata"]["requires_python"] = ">=3.11.5", ">=3.9"
    assert pins.too_new(pins.packages({"install": [late, early]})) == ["late<13.1"]


def test_torch_comes_first_and_packages_of_one_system_get_a_marker(pins):
    text = pins.render(["torch", "pytest", "triton; platform_system == 'Linux'"], pins.packages(REPORT))
    assert [line for line in text.splitlines() if line and not line.startswith("#")] == [
        "torch==2.13.0",
        'cuda-toolkit==13.0; platform_system == "Linux"',
        "Jinja2==3.1.6",
        'nvidia-cublas==13.1; platform_system == "Linux"',
        "pytest==9.2.0",
        'triton==3.7.1; platform_system == "Linux"',
    ]
    assert pins.pinned_torch(text) == "2.13.0"


def test_constraints_without_torch_are_refused(pins):
    with pytest.raises(SystemExit, match="does not pin torch"):
        pins.pinned_torch("numpy==2.4.6\n")


def test_every_requirement_of_the_project_is_pinned(pins):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    text = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    pinned = {pins.canonicalize_name(line.partition("==")[0]) for line in text.splitlines() if "==" in line}
    asked = {pins.canonicalize_name(pins.Requirement(line).name) for line in pins.requirements(project, pins.EXTRAS)}
    assert asked - pinned == set()
