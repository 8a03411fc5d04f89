"""make crash: random tiny runs with random troubles, until the time is over.

Each run must end with the bits of the uninterrupted run, or, after its files were damaged, with a refusal. Signals and
kills come at random moments, so a case may need several repetitions to fail again.
"""

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--seed", type=int, default=int(time.time()) % 10_000)
    parser.add_argument("--case", type=int, help="only this case")
    parser.add_argument("--times", type=int, default=1, help="how often, with --case")
    given = parser.parse_args()
    from support.crash.cases import Case

    numbers = [given.case] * given.times if given.case is not None else None
    place = Path(tempfile.mkdtemp(prefix="crash-"))
    print(f"seed {given.seed}; runs are in {place}", flush=True)
    end = time.monotonic() + 60 * given.minutes
    results, troubles, failures = Counter[str](), Counter[str](), list[int]()
    from support.crash.player import Player

    player = Player(place)
    count = 0
    while numbers[count:] if numbers else time.monotonic() < end:
        number = numbers[count] if numbers else given.seed * 100_000 + count
        case = Case.of(number)
        count += 1
        ended, damaged, folder = player.play(case)
        print(f"{number}: {case}: {ended}{f' ({damaged})' if damaged else ''}", flush=True)
        troubles.update([case.kind, f"{case.processes} process{'es' * (case.processes > 1)}", *case.troubles])
        results[ended if ended in ("bit-equal", "refused") else "FAILED"] += 1
        if ended in ("bit-equal", "refused"):
            shutil.rmtree(folder, ignore_errors=True)
        else:
            failures.append(number)
            print(f"  repeat it: make crash CASE={number}", flush=True)
    print(f"{count} cases: {dict(results)}\n{dict(troubles)}")
    if not failures:
        shutil.rmtree(place, ignore_errors=True)
    sys.exit(f"failed: {failures}" if failures else 0)


if __name__ == "__main__":
    main()
