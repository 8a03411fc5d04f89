"""Compare models of random configs, sizes, paddings and lengths with transformers and with our reference paths.

`make fuzz` runs it: MINUTES=20, SEED=0, FAMILY=bert (all by default), CASES=1 per family (as many as the time allows),
COMPILED=1 also compiles the models. It prints, per family, the cases, the refusals with their reasons and the largest
difference in float64. At a failure it prints the config and the command that repeats the case.
"""

import os
import sys
import time
import traceback
from argparse import ArgumentParser
from collections import Counter
from pathlib import Path

os.environ |= {"HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1", "TRANSFORMERS_VERBOSITY": "error"}
sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from support.fuzz.all_checks import all_checks
from support.fuzz.case import Check, Outcome, run


class Tally:
    """What happened to the cases of one family."""

    def __init__(self, name: str, check: Check) -> None:
        self.name, self.check = name, check
        self.cases, self.failed, self.worst = 0, 0, 0.0
        self.refusals: Counter[str] = Counter()

    def add(self, seed: int) -> None:
        self.cases += 1
        try:
            outcome = run(self.name, self.check, seed)
        except Exception:  # any other error than a refusal by name is a failure
            self._report(seed, traceback.format_exc(limit=-4), Outcome())
            return
        self.worst = max(self.worst, outcome.worst)
        if outcome.refusal:
            self.refusals[outcome.refusal] += 1
        if outcome.failures:
            self._report(seed, "; ".join(outcome.failures), outcome)

    def _report(self, seed: int, what: str, outcome: Outcome) -> None:
        self.failed += 1
        print(f"FAILED {self.name}: {what}\n  config {outcome.config}")
        print(f"  repeat: make fuzz FAMILY={self.name} SEED={seed} CASES=1", flush=True)

    def lines(self) -> list[str]:
        refused = self.refusals.total()
        head = f"{self.name:20} {self.cases:6} {refused:8} {self.failed:7} {self.worst:10.1e}"
        return [head, *(f"    {count:5} refused: {reason}" for reason, count in self.refusals.most_common(5))]


def main() -> int:
    options = ArgumentParser(description=__doc__)
    options.add_argument("--minutes", type=float, default=1.0)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--family", default="")
    options.add_argument("--cases", type=int, default=0, help="per family; 0: as many as the time allows")
    options.add_argument("--compiled", action="store_true")
    given = options.parse_args()
    checks = all_checks(given.compiled)
    if given.family and given.family not in checks:
        print(f"no family {given.family!r}: expected one of {', '.join(checks)}")
        return 2
    tallies = [Tally(name, check) for name, check in checks.items() if given.family in ("", name)]
    end, seed = time.monotonic() + 60 * given.minutes, given.seed
    while time.monotonic() < end and seed - given.seed < (given.cases or seed + 1):
        for tally in tallies:
            if time.monotonic() < end:
                tally.add(seed)
        seed += 1
    print(f"{'family':20} {'cases':>6} {'refused':>8} {'failed':>7} {'worst':>10}")
    for tally in tallies:
        print("\n".join(tally.lines()))
    print(f"{sum(one.cases for one in tallies)} cases, seeds {given.seed} to {seed - 1}")
    return int(any(one.failed for one in tallies))


if __name__ == "__main__":
    raise SystemExit(main())
