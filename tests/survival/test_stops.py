"""SIGTERM or Ctrl-C at twenty random moments: no step is lost, and the output has the command to resume."""

import random
import re
import shlex
import signal
import time

import pytest

from support.survival_runs import (
    COUNT,
    acknowledged,
    assert_the_same,
    begun_at,
    finished,
    kind_of,
    wait_for,
    whole_place,
)

STOPS = max(1, round(10 * COUNT))  # per kind of run


@pytest.mark.slow
@pytest.mark.parametrize("name", ["images", "masked words"])
def test_stops_lose_no_step(tmp_path, name, capsys):
    kind = kind_of(name, tmp_path)
    # saved rarely, so that the stop itself must save
    rarely = type(kind)(kind.recipe, tuple(field for field in kind.fields if "save_minutes" not in field), tmp_path)
    whole, rng, stops, runs, longest = kind.whole(), random.Random(name), 0, 0, 0.0
    ended = 0.0
    while stops < STOPS:
        folder, place = tmp_path / f"run{runs}", ""
        while True:
            process, number = rarely.start(folder.name), rng.choice([signal.SIGTERM, signal.SIGINT])
            before = acknowledged(folder)
            wait_for(process, lambda folder=folder, before=before: acknowledged(folder) > before)
            time.sleep(rng.uniform(0, 0.4))
            if stops == STOPS or process.poll() is not None:
                output = finished(process)
                assert begun_at(output) == place
                break
            asked = time.time()
            process.send_signal(number)
            output = process.communicate()[0]
            if process.returncode == 0:  # it finished before the signal
                break
            kept = (folder / "checkpoints" / acknowledged(folder)).stat().st_ctime  # when it was renamed
            longest, ended = max(longest, kept - asked), max(ended, time.time() - asked)
            stops += 1
            assert process.returncode == 128 + number, output
            assert "Traceback" not in output
            assert begun_at(output) == place
            place = whole_place(folder)
            words = shlex.split(re.search(r"Resume with:\n\s*(.*)", output)[1])
            assert words == ["patchword", "train", f"{folder}/recipe.yaml", *_place(folder), "--resume"]
        assert_the_same(folder, whole)
        runs += 1
    with capsys.disabled():
        print(
            f"\n{name}: {stops} stops in {runs} runs, no step lost; "
            f"saved after {longest:.2f} s at most, ended after {ended:.2f} s"
        )


def _place(folder) -> list[str]:
    return ["--name", folder.name, "--runs", str(folder.parent)]
