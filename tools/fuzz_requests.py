"""Send nearly right requests to a server of tiny models: none may fail, hang or leave memory behind.

`make fuzz-requests COUNT=100000 SEED=0` runs it. A request that is answered with 500, with an error without its fields,
or not at all is printed with the command that repeats it. At the end: how many, the memory of the server after a tenth
of the requests and at the end.
"""

import asyncio
import re
import subprocess
import sys
import time
from argparse import ArgumentParser
from collections import Counter
from pathlib import Path
from urllib.request import urlopen

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from support.serving.fuzzed import ask, described, sound_requests
from support.serving.odd_requests import odd_request

TESTS = str(Path(__file__).parents[1] / "tests")
AT_ONCE = 32
GROWTH = 1.1  # of the memory, at most


def memory(port: int) -> float:
    """Return the memory of the server in MB."""
    text = urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60).read().decode()
    return float(re.search(r"^process_resident_memory_bytes (\S+)", text, re.M)[1]) / 1e6


async def run(port: int, seed: int, count: int, statuses: Counter[int]) -> list[str]:
    """Send the requests of these numbers; count the statuses, and return the faults."""
    sound, faults, numbers = sound_requests(), list[str](), iter(range(seed, seed + count))
    begin, done, slowest = time.monotonic(), 0, 0.0

    async def client() -> None:
        nonlocal done, slowest
        for number in numbers:
            request, start = odd_request(number, sound), time.monotonic()
            status, wrong = await ask(port, request)
            statuses[status] += 1
            if wrong:
                faults.append(f"{wrong}: make fuzz-requests SEED={number} COUNT=1\n  {described(request)}")
                print(faults[-1], flush=True)
            slowest, done = max(slowest, time.monotonic() - start), done + 1
            if done % 5000 == 0:
                seconds, used = time.monotonic() - begin, await asyncio.to_thread(memory, port)
                print(f"{done:,} requests in {seconds:.0f} s, slowest {slowest:.1f} s, {used:.0f} MB", flush=True)

    await asyncio.gather(*(client() for _ in range(AT_ONCE)))
    return faults


def main() -> None:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=100_000)
    given = parser.parse_args()
    script = f"import sys; sys.path.insert(0, {TESTS!r}); from support.serving.fuzzed import serve; serve()"
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as server:
        statuses = Counter[int]()
        try:
            port = int(server.stdout.readline())
            first = max(1, given.count // 10)
            faults = asyncio.run(run(port, given.seed, first, statuses))
            before = memory(port)
            faults += asyncio.run(run(port, given.seed + first, given.count - first, statuses))
            after = memory(port)
        finally:
            server.terminate()
    print(f"{given.count:,} requests, {len(faults)} faults; {before:.0f} MB after a tenth, {after:.0f} MB at the end")
    print(f"answers by status (0: the connection ended while the request was sent): {dict(sorted(statuses.items()))}")
    if faults or after > GROWTH * before:
        sys.exit(1)


if __name__ == "__main__":
    main()
