"""The launcher: processes that end, die, hang or are asked to stop; with small programs as workers."""

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from patchword.cli.training import launch as launching
from patchword.cli.training.launch import launch, started
from patchword.core.errors import PeerLostError, UserError
from patchword.recipes.run import resume_command
from patchword.recipes.train import assemble, build_task
from patchword.training.parallel import rendezvous as joining
from patchword.training.parallel.rank import Rank, rank_of
from support.material import TINY_MODEL, settings, silent, tiny_recipe

HEAD = """
import os, signal, sys, time
from pathlib import Path
number, folder = int(os.environ["RANK"]), Path(sys.argv[1])
again = "--resume" in sys.argv
(folder / f"start-{number}-{time.monotonic_ns()}").touch()
def tell(word):
    os.write(int(os.environ["PATCHWORD_JOINED"]), word)
def join():
    tell(b"b"), tell(b"m")
"""


def command(folder: Path, body: str) -> list[str]:
    return [sys.executable, "-c", HEAD + body, str(folder)]


def starts(folder: Path, number: int) -> int:
    return len(list(folder.glob(f"start-{number}-*")))


def test_all_that_is_needed_is_told(tmp_path):
    body = "join(); (folder / os.environ['RANK']).write_text(os.environ['WORLD_SIZE'] + os.environ['MASTER_ADDR'])"
    assert launch(command(tmp_path, body), 3, 3, print) == 0
    assert [(tmp_path / str(number)).read_text() for number in range(3)] == ["3127.0.0.1"] * 3
    assert os.environ.get("RANK") is None


def test_one_that_dies_takes_the_others_and_all_begin_again(tmp_path):
    said = []
    body = """
join()
if not again:
    os.kill(os.getpid(), signal.SIGKILL) if number == 1 else time.sleep(100)
"""
    assert launch(command(tmp_path, body), 2, 3, said.append) == 0
    assert starts(tmp_path, 0) == starts(tmp_path, 1) == 2
    assert said == [
        "process 1 of 2 was killed by SIGKILL; restarting all from the newest checkpoint (3 of 3 restarts left)"
    ]


def test_none_is_left_behind_if_one_cannot_be_started(tmp_path, monkeypatch):
    begun, plain = [], subprocess.Popen

    def scarce(*given, **more):
        if begun:
            raise OSError("no more processes")
        begun.append(plain(*given, **more))
        return begun[0]

    monkeypatch.setattr(subprocess, "Popen", scarce)
    with pytest.raises(OSError, match="no more processes"), started(command(tmp_path, "time.sleep(60)"), 2):
        pass
    assert begun[0].returncode == -signal.SIGKILL


def test_restarts_are_counted(tmp_path):
    said = []
    body = "join(); print('a reason', file=sys.stderr); sys.exit(5 if number == 1 else 0)"
    assert launch(command(tmp_path, body), 2, 1, said.append) == 1
    assert starts(tmp_path, 1) == 2
    assert said[0] == "a reason"
    assert said[-1].startswith("process 1 of 2 failed with exit code 5; gave up after 2 starts")


def test_a_start_that_saved_begins_the_count_anew(tmp_path):
    """Four failures, with a checkpoint in the third start: one restart in a row is enough."""
    body = """
join(); count = len(list(folder.glob(f"start-{number}-*")))
if number == 0 and count in (2, 3):
    tell(b"s")
sys.exit(5 if number == 1 and count < 5 else time.sleep(0.2))
"""
    said = []
    assert launch(command(tmp_path, body), 2, 1, said.append) == 1
    assert starts(tmp_path, 1) == 4
    assert ["(1 of 1" in text for text in said] == [True, True, True, False]
    assert "gave up after 4 starts" in said[-1]


def test_a_run_tells_its_launcher_of_its_first_checkpoint(tmp_path, monkeypatch):
    heard, writer = os.pipe()
    monkeypatch.setenv(joining.NOTE, str(writer))
    loop = assemble(tiny_recipe(), build_task(tiny_recipe(), silent()), tmp_path, silent())
    for loop.state.batch in (1, 2):
        loop._save()
    loop.checkpoints.wait()
    os.close(writer)
    assert os.read(heard, 100) == joining.SAVED == b"s"
    os.close(heard)


@contextmanager
def launched(folder: Path, body: str) -> Iterator[subprocess.Popen[str]]:
    """A launcher of two, when both are ready."""
    script = "import sys; from patchword.cli.training.launch import launch; sys.exit(launch(sys.argv[1:], 2, 3, print))"
    words = [sys.executable, "-c", script, *command(folder, body)]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    try:
        while len(list(folder.glob("ready-*"))) < 2:
            time.sleep(0.02)
        yield process
    finally:
        process.kill()
        process.wait()


def test_the_second_signal_ends_those_that_hang(tmp_path):
    """As inside of an exchange with a process that hangs: no handler runs there."""
    body = """
for asked in (signal.SIGINT, signal.SIGTERM): signal.signal(asked, signal.SIG_IGN)
join(); (folder / f"ready-{number}").write_text(str(os.getpid())); time.sleep(100)
"""
    with launched(tmp_path, body) as process:
        process.send_signal(signal.SIGINT)
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)  # the same wish
        time.sleep(launching.TWICE)
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        assert "--resume resumes" in process.communicate(timeout=20)[0]
    assert process.returncode == 130
    assert starts(tmp_path, 0) == 1
    for number in (0, 1):
        with pytest.raises(ProcessLookupError):
            os.kill(int((tmp_path / f"ready-{number}").read_text()), 0)


def test_processes_that_a_signal_kills_are_not_started_again(tmp_path):
    """As before they have begun to listen."""
    with launched(tmp_path, "join(); (folder / f'ready-{number}').touch(); time.sleep(100)") as process:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=20)
    assert process.returncode == 143
    assert starts(tmp_path, 0) == 1


def test_ctrl_c_while_python_starts_prints_no_traceback(tmp_path, capfd):
    """No handler listens yet, and Ctrl-C would be a KeyboardInterrupt."""
    with launched(tmp_path, "(folder / f'ready-{number}').touch(); time.sleep(100)") as process:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)
    assert process.returncode == 130
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.parametrize("code", [2, 129, 130, 143])
def test_a_mistake_or_a_wish_is_not_repeated(tmp_path, code):
    assert launch(command(tmp_path, f"join(); sys.exit({code})"), 2, 3, print) == code
    assert starts(tmp_path, 0) == 1


@pytest.mark.parametrize("code", [129, 130, 143])
def test_a_process_that_still_saves_is_not_killed_after_another_stopped(tmp_path, monkeypatch, code):
    monkeypatch.setattr(launching, "AFTER", 0.0)
    saving = "number or (time.sleep(0.5), (folder / 'saved').touch())"
    assert launch(command(tmp_path, f"join(); {saving}; sys.exit({code})"), 2, 3, print) == code
    assert (tmp_path / "saved").exists()


def test_processes_that_do_not_find_each_other_are_tried_again_and_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(launching, "RENDEZVOUS", 0.5)
    said = []
    assert launch(command(tmp_path, "join() if number else (tell(b'b'), time.sleep(100))"), 2, 0, said.append) == 1
    assert starts(tmp_path, 0) == launching.MAX_RENDEZVOUS
    assert "rendezvous of the processes failed" in said[-1]


def test_a_stop_reaches_all(tmp_path):
    """SIGTERM to the launcher: each worker hears it and exits with 143, as does the launcher."""
    body = """
def stop(*_): (folder / f"asked-{number}").touch(); sys.exit(143)
signal.signal(signal.SIGTERM, stop); join(); (folder / f"ready-{number}").touch(); time.sleep(100)
"""
    script = "import sys; from patchword.cli.training.launch import launch; sys.exit(launch(sys.argv[1:], 2, 3, print))"
    process = subprocess.Popen([sys.executable, "-c", script, *command(tmp_path, body)])
    while len(list(tmp_path.glob("ready-*"))) < 2:
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 143
    assert len(list(tmp_path.glob("asked-*"))) == 2


def test_workers_hear_that_the_launcher_was_killed(tmp_path):
    body = """
join(); (folder / f"ready-{number}").touch()
os.read(int(os.environ["PATCHWORD_LAUNCHER"]), 1); (folder / f"heard-{number}").touch()
"""
    script = "import sys; from patchword.cli.training.launch import launch; sys.exit(launch(sys.argv[1:], 2, 3, print))"
    process = subprocess.Popen([sys.executable, "-c", script, *command(tmp_path, body)])
    while len(list(tmp_path.glob("ready-*"))) < 2:
        time.sleep(0.02)
    process.kill()
    process.wait()
    for _ in range(500):
        if len(list(tmp_path.glob("heard-*"))) == 2:
            return
        time.sleep(0.02)
    raise AssertionError("the workers were left behind")


@pytest.mark.parametrize(
    ("environment", "found"),
    [
        ({}, None),
        ({"RANK": "1", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "MASTER_ADDR": "a"}, Rank(1, 4, 1)),
        ({"SLURM_PROCID": "9", "SLURM_NTASKS": "16", "SLURM_LOCALID": "1", "MASTER_ADDR": "a"}, Rank(9, 16, 1)),
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "16", "SLURM_LOCALID": "0"}, None),
        ({"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "a"}, None),
    ],
)
def test_the_place_is_read_off_the_environment(environment, found):
    assert rank_of(environment) == found


def test_the_command_to_go_on_has_as_many_processes(tmp_path, monkeypatch):
    """Inside the launcher's own processes only: what else started several has words of its own."""
    alone = resume_command(tmp_path)
    assert "--processes" not in alone
    for name, value in {"RANK": "0", "WORLD_SIZE": "3", "LOCAL_RANK": "0", "MASTER_ADDR": "a"}.items():
        monkeypatch.setenv(name, value)
    assert resume_command(tmp_path) == alone
    monkeypatch.setenv("PATCHWORD_LAUNCHER", "7")
    assert resume_command(tmp_path) == f"{alone} --processes 3"


def test_a_stopped_run_of_two_processes_says_how_both_go_on(tmp_path):
    fields = [*TINY_MODEL, "epochs=500", "batch_size=128", "device=cpu"]
    place = ["--name", "run", "--runs", str(tmp_path)]
    words = ["patchword", "train", "digits-vit", *settings(*fields), *place, "--processes", "2"]
    process = subprocess.Popen([sys.executable, "-m", *words], stdout=subprocess.PIPE, text=True)
    while process.poll() is None and not (tmp_path / "run" / "metrics.jsonl").is_file():
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    output = process.communicate(timeout=100)[0]
    assert process.returncode == 143, output
    again = shlex.join(["patchword", "train", str(tmp_path / "run" / "recipe.yaml"), *place, "--resume"])
    assert f"Resume with:\n  {again} --processes 2\n" in output


@pytest.mark.parametrize(("code", "expected"), [(None, 0), (3, 3), ("a word", 1)])
def test_a_process_that_met_others_ends_whatever_its_threads_do(code, expected):
    script = f"""
import atexit, sys, threading
from patchword import cli
from patchword.training.parallel import rendezvous

def app():
    threading.Thread(target=threading.Event().wait).start()  # for which a process waits
    sys.exit({code!r})

atexit.register(print, "the last word")
sys.modules["patchword.cli.app"] = type(sys)("app")
sys.modules["patchword.cli.app"].app = app
cli.main()
"""
    places = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "localhost"}
    ended = subprocess.run(
        [sys.executable, "-c", script], env={**os.environ, **places}, capture_output=True, text=True, timeout=120
    )
    assert (ended.returncode, ended.stdout) == (expected, "the last word\n")


def test_one_whose_partner_is_gone_says_so_in_a_line(capfd):
    script = """
import sys
from patchword import cli
from patchword.training.parallel.rendezvous import join_group

def app():
    with join_group(device="cpu") as group:
        group.any_rank(False)
        if group.rank == 0:
            group.any_rank(True)

sys.modules["patchword.cli.app"] = type(sys)("app")
sys.modules["patchword.cli.app"].app = app
cli.main()
"""
    with started([sys.executable, "-c", script], 2) as attempt:
        first, second = attempt.processes
        assert second.wait() == 0
        assert first.wait() == 1
    output = capfd.readouterr().err
    assert "another of the 2 processes of this run has ended; its own message gives the reason\n" in output
    assert "Traceback" not in output


def test_validation_is_left_by_all_when_one_is_asked_to_stop(capfd):
    """One hears a signal in the second of five rounds; both leave before the third, and can still meet."""
    script = """
import os, signal, torch
from patchword.training.cancellation import Cancelled
from patchword.training.parallel.rendezvous import join_group
from patchword.training.signals import interruptible

def ask(item):
    asked.append(item)
    if item == 3:
        os.kill(os.getpid(), signal.SIGTERM)
    return (torch.tensor(item),)

with join_group(device="cpu") as group, interruptible():
    asked = []
    assert [int(answer) for (answer,) in group.map(ask, range(3))] == [0, 1, 2]
    asked.clear()
    try:
        group.map(ask, range(10))
    except Cancelled:
        assert asked == [group.rank, group.rank + 2], asked
        assert group.any_rank(group.rank == 0) == (True,)
        raise SystemExit(7)
"""
    with started([sys.executable, "-c", script], 2) as attempt:
        codes = [process.wait(60) for process in attempt.processes]
        output = [file.seek(0) or file.read().decode() for file in attempt.errors]
    assert codes == [7, 7], capfd.readouterr().err + output[1]


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="needs Linux, which lists the threads of a process")
@pytest.mark.parametrize("end", ["pass", "raise KeyError"])
def test_no_thread_of_the_group_outlives_it(end):
    """One that still frees a tensor when the interpreter ends aborts the process."""
    script = f"""
from contextlib import suppress
from pathlib import Path
from patchword.training.parallel.rendezvous import join_group

def threads():
    return {{Path(task, "comm").read_text().strip() for task in Path("/proc/self/task").iterdir()}}

with suppress(KeyError), join_group(device="cpu") as group:
    group.any_rank(True)
    assert "pt_gloo_runloop" in threads()
    {end}
assert "pt_gloo_runloop" not in threads(), threads()
"""
    with started([sys.executable, "-c", script], 2) as attempt:
        codes = [process.wait(60) for process in attempt.processes]
        output = [file.seek(0) or file.read().decode() for file in attempt.errors]
    assert codes == [0, 0], output


def test_a_fault_of_ones_own_is_not_taken_for_it(monkeypatch):
    monkeypatch.setattr(joining, "rank_of", lambda: Rank(0, 2, 0))
    monkeypatch.setattr(joining, "_connect", lambda rank, device: None)
    with pytest.raises(PeerLostError, match="another of the 2 processes"), joining.join_group():
        raise RuntimeError("[gloo/transport/tcp/pair.cc] Connection closed by peer")
    with pytest.raises(RuntimeError, match="own"), joining.join_group():
        raise RuntimeError("my own")


@pytest.mark.parametrize("wrong", [{"RANK": "4"}, {"RANK": "one"}])
def test_a_wrong_environment_is_named(wrong):
    with pytest.raises(UserError, match="RANK"):
        rank_of({"RANK": "0", "WORLD_SIZE": "4", "MASTER_ADDR": "a"} | wrong)
