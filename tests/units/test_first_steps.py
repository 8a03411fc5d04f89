"""docs/first-steps.md: every line runs, in order, in one folder, with a hub on the loopback instead of a network."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from support.hub.connection import connected
from support.hub.loopback_hub import Repository
from support.hub.repositories import bert, sentence_encoder, vit
from support.source_code import ROOT

BLOCK = re.compile(
    r"^## (?P<title>[^\n]+)$|^```(?P<language>python|console)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL
)
REVIEWS = (("mat", "good"), ("cat", "bad"))
SERVED = {
    "google/vit-base-patch16-224": vit,
    "google-bert/bert-base-uncased": bert,
    "sentence-transformers/all-MiniLM-L6-v2": sentence_encoder,
}


def tasks() -> list[tuple[str, str, str]]:
    """The numbered tasks of the page: title, language and code of each block."""
    found, title = [], ""
    for block in BLOCK.finditer((ROOT / "docs" / "first-steps.md").read_text(encoding="utf-8")):
        title = block["title"] or title
        if block["code"]:
            found.append((title, block["language"], block["code"]))
    return found


def numbered(tasks: list[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    return [task for task in tasks if task[0][0].isdigit()]


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with the files that the page names, and a hub with tiny models under the names of the large ones."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    noise = np.random.default_rng(0)
    for label, level in (("cat", 60), ("dog", 190)):
        Path("photos", label).mkdir(parents=True)
        for number in range(10):
            pixels = noise.integers(level - 50, level + 50, (40, 48, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(f"photos/{label}/{number}.png")
    Image.fromarray(noise.integers(0, 120, (40, 48, 3), dtype=np.uint8)).save("cat.png")
    rows = [f"the {'cat ' * number}sat on the {word},{label}" for number in range(10) for word, label in REVIEWS]
    Path("reviews.csv").write_text("\n".join(["text,label", *rows, ""]))
    with connected(monkeypatch, tmp_path / "cache") as hub:
        for name, build in SERVED.items():
            build(tmp_path / "served" / name)
            hub.repositories[name] = Repository.of_folder(tmp_path / "served" / name)
        yield tmp_path


def test_there_are_ten_short_tasks():
    found = numbered(tasks())
    assert [title.partition(".")[0] for title, _, _ in found] == [str(number) for number in range(1, 11)]
    for title, language, code in found:
        lines = [line for line in code.splitlines() if line]
        assert len(lines) <= (1 if language == "console" else 5), title


def test_every_line_runs(desk, command, capsys):
    printed, scopes = {}, {}
    for title, language, code in numbered(tasks()):
        number = title.partition(".")[0]
        if language == "console":
            program, *words = shlex.split(code)
            assert program == "patchword"
            status, output, complaint = command(*words)
            assert status == 0, f"{title}: {complaint}"
        else:
            exec(compile(code, title, "exec"), scope := {})
            output, scopes[number] = capsys.readouterr().out, scope
        printed[number] = output
    assert "test accuracy" in printed["1"].lower()
    assert "validation_accuracy" in printed["2"]
    assert any(label in printed["3"] for label in ("ant", "bee", "cow"))
    assert printed["4"].strip().splitlines()[-1] in ("cat", "dog")
    assert len(Path("answers.csv").read_text().splitlines()) == 21
    assert "good" in printed["6"] or "bad" in printed["6"]
    assert "sat on the mat" in printed["7"]
    np.testing.assert_allclose(np.linalg.norm(scopes["8"]["vectors"], axis=1), 1, rtol=1e-5)
    assert "N x D x F = 50 x 64 x 256 = 819,200" in printed["9"]
    assert scopes["10"]["model"].head.linear.weight.grad is not None
    assert Path("runs/pets/report.html").is_file()


def test_what_needs_no_network_runs_without_one(desk, command, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    [(_, _, code)] = [task for task in tasks() if task[0] == "Without a network"]
    printed = {}
    for line in code.splitlines():
        program, *words = shlex.split(line)
        assert program == "patchword"
        status, printed[words[0]], complaint = command(*words)
        assert status == 0, f"{line}: {complaint}"
    assert "zoo:bert-mini" in printed["models"]
    assert printed["generate"].startswith("She opened the door and")
    assert "Hunde" in printed["translate"]
    assert "prince" in printed["vectors"]
    assert all(Path(name).stat().st_size > 10_000 for name in ("alignment.png", "words.png", "patches.png"))
    assert all(Path("runs", name, "report.html").is_file() for name in ("reviews", "photos"))
