"""Jobs: child processes that outlive the lab, one at a time."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from patchword.lab.errors import UnknownIdError
from patchword.lab.jobs import BusyError, Jobs

# Stands for `python -m patchword`: the jobs put it on the path.
MODULE = """
import sys, time
print("started", *sys.argv[1:], flush=True)
if sys.argv[1] == "wait":
    import signal
    def stop(*_):
        print("stopping", flush=True)
        sys.exit(143)
    signal.signal(signal.SIGTERM, stop)
    print("\\x1b[1mready\\x1b[0m", flush=True)
    time.sleep(60)
sys.exit(int(sys.argv[2]))
"""
START = "import sys; from pathlib import Path; from patchword.lab.jobs import Jobs; import time\n"


@pytest.fixture
def jobs(tmp_path, monkeypatch):
    """Jobs whose patchword is the module above; none is left running."""
    (tmp_path / "path" / "patchword").mkdir(parents=True)
    (tmp_path / "path" / "patchword" / "__init__.py").touch()
    (tmp_path / "path" / "patchword" / "__main__.py").write_text(MODULE)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "path"))
    found = Jobs(tmp_path / "runs")
    yield found
    for job in found.list():
        if job.is_running:
            os.killpg(job.owner.process, signal.SIGKILL)


def until(condition, seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.02)


@pytest.mark.parametrize(("code", "state"), [(0, "finished"), (2, "failed"), (130, "stopped")])
def test_a_job_ends_with_its_exit_code_and_output(jobs, code, state):
    job = jobs.start("work", [str(code), "a b; touch $x"], name="demo", about={"run": "demo"})
    until(lambda: not jobs.find(job.id).is_running)
    assert (jobs.find(job.id).state, jobs.find(job.id).code) == (state, code)
    assert jobs.output(job.id) == f"started work {code} a b; touch $x\n"
    shown = jobs.find(job.id).to_json()
    assert (shown["verb"], shown["name"], shown["about"]) == ("work", "demo", {"run": "demo"})
    assert shown["command"] == f"patchword work {code} 'a b; touch $x'"


def test_one_at_a_time_and_stopped_once(jobs):
    job = jobs.start("wait", ["0"])
    until(lambda: "ready\n" in jobs.output(job.id))
    assert jobs.running() == job
    with pytest.raises(BusyError, match="one job runs at a time: got wait"):
        jobs.start("work", ["0"])
    before = jobs.version()
    jobs.stop(job.id)
    jobs.stop(job.id)
    until(lambda: not jobs.find(job.id).is_running)
    assert jobs.find(job.id).state == "stopped"
    assert jobs.output(job.id).splitlines() == ["started wait 0", "ready", "stopping"]
    assert jobs.version() != before
    assert jobs.stop(job.id).state == "stopped"


def test_a_job_is_found_after_the_lab_was_killed(jobs, tmp_path):
    """The job goes on, another lab lists it, stops it, and knows its exit code."""
    code = f"{START}print(Jobs(Path(sys.argv[1])).start('wait', ['0']).id, flush=True); time.sleep(60)"
    environment = {**os.environ, "PYTHONPATH": str(Path(sys.modules["patchword"].__file__).parents[1])}
    # the lab imports the real patchword, its job the module above
    code = code.replace("import time\n", f"import time, os; os.environ['PYTHONPATH'] = {str(tmp_path / 'path')!r}\n")
    command = [sys.executable, "-c", code, str(tmp_path / "runs")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as lab:
        id = lab.stdout.readline().strip()
        lab.kill()
    until(lambda: "ready" in jobs.output(id))
    assert [(job.id, job.state) for job in jobs.list()] == [(id, "running")]
    with pytest.raises(BusyError):
        jobs.start("work", ["0"])
    jobs.stop(id)
    until(lambda: not jobs.find(id).is_running)
    assert (jobs.find(id).state, jobs.find(id).code) == ("stopped", 143)


def test_a_killed_job_has_failed(jobs):
    job = jobs.start("wait", ["0"])
    until(lambda: "ready" in jobs.output(job.id))
    os.killpg(job.owner.process, signal.SIGKILL)
    until(lambda: not jobs.list()[0].is_running)
    assert (jobs.find(job.id).state, jobs.find(job.id).code) == ("failed", None)
    assert jobs.running() is None


@pytest.mark.parametrize("id", ["", ".", "..", "../..", "a/b", "a" * 200, "nothing", "A", "\0"])
def test_an_unknown_id_is_no_path(jobs, id):
    for ask in (jobs.find, jobs.stop, jobs.output):
        with pytest.raises(UnknownIdError):
            ask(id)


def test_a_broken_record_is_left_out_and_old_ones_are_removed(jobs, monkeypatch):
    monkeypatch.setattr("patchword.lab.jobs.MOST_KEPT", 3)
    for _ in range(5):
        job = jobs.start("work", ["0"])
        until(lambda id=job.id: not jobs.find(id).is_running)
    assert len(jobs.list()) == 3
    (job.folder / "job.json").write_text("{")
    assert len(jobs.list()) == 2


def test_only_the_end_of_a_long_output_is_read(jobs):
    job = jobs.start("work", ["0"])
    until(lambda: not jobs.find(job.id).is_running)
    (job.folder / "output.txt").write_text("".join(f"line {number}\n" for number in range(10_000)))
    tail = jobs.output(job.id, most=100)
    assert len(tail) <= 100
    assert tail.endswith("line 9999\n")
    assert tail.startswith("line ")
