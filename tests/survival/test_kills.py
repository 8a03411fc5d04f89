"""kill -9 at a hundred random moments: the same command resumes, no save is lost, and the result is bit-equal."""

import os
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest

from support.survival_runs import (
    COUNT,
    Kind,
    acknowledged,
    assert_the_same,
    begun_at,
    finished,
    in_a_save,
    kind_of,
    wait_for,
    whole_place,
)

KILLS = max(2, round(50 * COUNT))  # per kind of run


def killed(process: subprocess.Popen[str], folder: Path, rng: random.Random) -> str | None:
    """Kill the process after its first save, half of the times during a save, rarely while it reads data.

    Return the newest checkpoint just before the kill, or None if the run finished first.
    """
    before = acknowledged(folder)
    if rng.random() < 0.9:
        wait_for(process, lambda: acknowledged(folder) > before)
    time.sleep(rng.uniform(0, 0.5))
    if rng.random() < 0.5:
        wait_for(process, lambda: in_a_save(folder))
    seen = acknowledged(folder)
    if process.poll() is not None:
        return None
    os.kill(process.pid, signal.SIGKILL)
    return seen if process.wait() == -signal.SIGKILL else None


@pytest.mark.slow
@pytest.mark.parametrize("name", ["images", "masked words"])
def test_kills_change_nothing(tmp_path, name, capsys):
    kind: Kind = kind_of(name, tmp_path)
    whole = kind.whole()
    rng, kills, inside, runs, began = random.Random(name), 0, 0, 0, time.monotonic()
    while kills < KILLS:
        folder, place = tmp_path / f"run{runs}", ""
        while True:
            process = kind.start(folder.name)
            seen = killed(process, folder, rng) if kills < KILLS else None
            if seen is None:
                output = finished(process)
                assert begun_at(output) == place
                break
            kills += 1
            inside += in_a_save(folder)
            output = process.communicate()[0]
            assert begun_at(output) in (place, "")  # empty if it was killed before it printed that
            kept = whole_place(folder)
            assert kept >= seen >= place  # no completed save is lost
            place = kept
        assert_the_same(folder, whole)
        runs += 1
    with capsys.disabled():
        print(
            f"\n{name}: {kills} kills, {inside} of them inside a save, in {runs} runs, each bit-equal to the whole "
            f"run; no completed save lost; {time.monotonic() - began:.0f} s"
        )
    assert inside > 0  # otherwise the kills would not test saves
