"""A full disk: earlier files stay intact, the message has needed and free space, and the run can be resumed."""

import errno
import gc
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from patchword.core import disk_space as room
from patchword.core.disk_space import DiskFullError, check_disk_space, disk_full, format_bytes, free_bytes, is_full
from patchword.core.errors import UserError
from patchword.core.files import write_text
from patchword.recipes.train import assemble, build_task, train
from patchword.training.checkpoint import checkpoint
from patchword.training.checkpoint.checkpoint import Checkpoints
from patchword.training.checkpoint.disk_check import checkpoint_bytes, run_bytes
from patchword.training.run_log import RunLog
from support.material import RANDOM, TINY_MODEL, WHOLE, differing, settings, silent, tiny_recipe


@pytest.mark.parametrize(
    ("count", "words"), [(0, "0 bytes"), (999, "999 bytes"), (1300, "1.3 kB"), (2.5e9, "2.5 GB"), (4e15, "4000.0 TB")]
)
def test_bytes_in_words(count, words):
    assert format_bytes(count) == words


def test_free_space_for_a_path_that_does_not_exist_yet(tmp_path):
    assert free_bytes(tmp_path / "a" / "b") > 0
    check_disk_space("no", tmp_path / "a", 1)
    with pytest.raises(
        DiskFullError, match=r"^no: got too little room: 1000000\.0 TB needed, .* free on the disk of /.*\n"
    ):
        check_disk_space("no", tmp_path / "a", 10**18)


def test_which_errors_are_a_full_disk(tmp_path):
    assert is_full(OSError(errno.ENOSPC, ""))
    assert is_full(OSError(errno.EDQUOT, ""))
    assert is_full(RuntimeError("I/O error: No space left on device (os error 28)"))
    assert not is_full(OSError(errno.EACCES, ""))
    assert not is_full(RuntimeError("os error 13"))
    message = str(disk_full("no", tmp_path, "Disk quota exceeded", 100))
    assert "a quota may allow less\nmake room for 100 bytes more there" in message


def full(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_any_file_reports_a_full_disk(tmp_path, monkeypatch):
    monkeypatch.setattr("patchword.core.files.flush", full)
    with pytest.raises(
        DiskFullError, match=r"cannot write .*file: got No space left on device: .* free on the disk of"
    ):
        write_text(tmp_path / "file", "x")
    assert list(tmp_path.iterdir()) == []


# A run whose disk becomes full, with a simulated disk


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "whole"
    assert train(tiny_recipe(), folder, silent())
    return folder


def assert_the_same(folder: Path, whole: Path) -> None:
    assert differing(folder / "model.safetensors", whole / "model.safetensors") == []
    last = Path("checkpoints") / "epoch-00002-batch-0000000" / "tensors.safetensors"
    assert differing(folder / last, whole / last) == []


@pytest.mark.parametrize("place", ["tensors.safetensors", "state.json", "manifest.json", "weights", "log"])
@pytest.mark.parametrize("after", [0, 5])
def test_whichever_file_fails_the_run_reports_it_and_can_be_resumed(whole, tmp_path, monkeypatch, place, after):
    folder, recipe = tmp_path / "run", tiny_recipe("save_minutes=0")
    times, plain = iter(range(10_000)), checkpoint.flush

    def flush(path: Path) -> None:
        if path.name == place and next(times) >= after:
            full()
        plain(path)

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "flush", flush)
        if place == "weights":
            patch.setattr("patchword.recipes.image.task.save", full)
        if place == "log":
            patch.setattr(RunLog, "epoch", full)
        with pytest.raises(DiskFullError) as error:
            train(recipe, folder, silent())
    text = str(error.value)
    assert "No space left on device" in text
    assert "free on the disk of" in text
    assert text.endswith(
        f"then resume with:\npatchword train {folder}/recipe.yaml --name run --runs {folder.parent} --resume"
    )
    if place not in ("weights", "log"):
        assert f"{format_bytes(room_of(whole))} needed" in text
    kept = Checkpoints(folder / "checkpoints")
    found = kept.newest(pytest.fail)  # no half-written checkpoint exists
    assert (found is None) == (after == 0 and place not in ("weights", "log"))
    assert not list((folder / "checkpoints").glob(".*")) if kept.folder.exists() else True
    assert train(recipe, folder, silent(), resume=True)
    assert_the_same(folder, whole)


def room_of(folder: Path) -> int:
    newest = max((folder / "checkpoints").iterdir())
    return (newest / "tensors.safetensors").stat().st_size + checkpoint._OVERHEAD


# The space that is needed, known before the run


def test_the_needed_space_is_known_before_the_first_step(whole, tmp_path):
    loop = assemble(tiny_recipe(), build_task(tiny_recipe(), silent()), tmp_path / "run", silent())
    newest = max((whole / "checkpoints").iterdir())
    real = (newest / "tensors.safetensors").stat().st_size
    assert 0.8 * real < checkpoint_bytes(loop) <= real  # without the names
    weights = sum(tensor.nbytes for tensor in loop.model.state_dict().values())
    assert run_bytes(loop) == 4 * checkpoint_bytes(loop) + 2 * weights
    recipe = tiny_recipe("loss_spike_factor=3")
    loop = assemble(recipe, build_task(recipe, silent()), tmp_path / "run", silent())
    assert run_bytes(loop) == (4 + 3) * checkpoint_bytes(loop) + 2 * weights  # two snapshots, and a third


def test_a_run_that_does_not_fit_is_refused_before_its_first_step(tmp_path, monkeypatch):
    monkeypatch.setattr(room, "free_bytes", lambda _: 1000)
    taken = []
    monkeypatch.setattr(RunLog, "step", lambda *_: taken.append(1))
    message = (
        r"not enough disk space for the run .*: got too little room: .* needed, 1\.0 kB free(.|\n)*then resume with:\n"
    )
    with pytest.raises(UserError, match=message):
        train(tiny_recipe(), tmp_path / "run", silent())
    assert not taken


def test_a_save_that_does_not_fit_is_not_started(tmp_path, monkeypatch):
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save("epoch-1", {"weight": torch.ones(1000)}, {})
    monkeypatch.setattr(room, "free_bytes", lambda _: 3000)
    monkeypatch.setattr(Checkpoints, "_fill", lambda *_: pytest.fail("begun"))
    with pytest.raises(DiskFullError, match=r"epoch-2: got too little room: 69\.\d kB needed, 3\.0 kB free"):
        checkpoints.save("epoch-2", {"weight": torch.ones(1000)}, {})
    assert checkpoints.newest(pytest.fail) is not None


# A real disk


@pytest.fixture
def small_disk(tmp_path) -> Iterator[Path]:
    """Mount two megabytes of memory as a disk, if permitted."""
    folder = tmp_path / "disk"
    folder.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)]
    try:
        mounted = subprocess.run(words, capture_output=True, check=False).returncode == 0
    except OSError:
        mounted = False
    if not mounted:
        pytest.skip("mounting a small disk needs root; the stand-in above was used")
    yield folder
    gc.collect()  # tensors of checkpoints are mapped files, which a disk in use cannot be unmounted with
    subprocess.run(["umount", str(folder)], check=True)


def fill(disk: Path, leave: int) -> None:
    """Write other files until `leave` bytes are free."""
    with (disk / "others").open("ab") as file:
        file.write(os.urandom(max(0, free_bytes(disk) - leave)))


@pytest.mark.parametrize("leave", [0, 40_000, 90_000, 150_000])
def test_a_disk_that_other_files_fill(whole, small_disk, monkeypatch, command, leave):
    folder, plain = small_disk / "runs" / "run", RunLog.step

    def watched(self: RunLog, state, *rest: object) -> None:
        plain(self, state, *rest)
        if state.step == 6:
            fill(small_disk, leave)

    fields = [*TINY_MODEL, *RANDOM, *WHOLE, "save_minutes=0", "keep_checkpoints=true"]
    words = ["train", "digits-vit", *settings(*fields), "--name", "run", "--runs", str(folder.parent), "--resume"]
    with monkeypatch.context() as patch:
        patch.setattr(RunLog, "step", watched)
        code, output, errors = command(*words)
    assert code == 2, output
    assert "Traceback" not in output + errors
    assert " needed, " in errors
    assert f" free on the disk of {folder}" in errors
    assert "--resume" in errors.splitlines()[-1]
    found = Checkpoints(folder / "checkpoints").newest(pytest.fail)
    assert found is not None
    assert found[1]["step"] >= 4  # saved at every step, with one save running
    code, output, errors = command(*words)  # still full
    assert code == 2, output
    assert "Traceback" not in output + errors
    (small_disk / "others").unlink()
    saved = json.loads((Checkpoints(folder / "checkpoints").all()[-1] / "state.json").read_text())
    code, output, errors = command(*words)
    assert code == 0, errors
    assert f"resuming from epoch {saved['epoch'] + 1}, batch {saved['batch'] + 1}" in output
    assert_the_same(folder, whole)
