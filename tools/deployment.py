"""Compile and export one tiny model per family, and print whether each one is right.

    python tools/deployment.py [FAMILY ...]

Per family of the registry: the largest difference of the compiled model (one graph without breaks) from the eager one,
of its gradients, of the ONNX file in ONNX Runtime, and of the program of torch.export, relative to their scale; or the
message with which an export is refused. Anything else is a failure.
"""

import os
import sys
from argparse import ArgumentParser
from pathlib import Path
from tempfile import TemporaryDirectory

os.environ |= {"HF_HUB_OFFLINE": "1"}
sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from support.deployment.cases import cases
from support.deployment.outcome import HEAD, outcome_of
from support.speed.quick_export import share_operators


def main() -> int:
    options = ArgumentParser(description=__doc__)
    options.add_argument("families", nargs="*")
    options.add_argument("--backend", default="aot_eager", help="of torch.compile")
    given, known = options.parse_args(), cases()
    if unknown := [name for name in given.families if name not in known]:
        print(f"no family {unknown[0]!r}: expected one of {', '.join(known)}")
        return 2
    share_operators()
    failed = False
    print(HEAD)
    for name in given.families or known:
        with TemporaryDirectory() as folder:
            outcome = outcome_of(name, known[name], Path(folder), given.backend)
        print(outcome.line(), flush=True)
        failed |= bool(outcome.failures)
    return int(failed)


if __name__ == "__main__":
    raise SystemExit(main())
