"""How much `patchword serve` answers: closed loops of clients beside the engine alone, and a burst beyond its capacity.

    python benchmarks/serving.py MODEL --out benchmarks/results/serving-cpu.json

MODEL: a folder of sentence-transformers. The engine alone computes the same texts in a
process of its own, without HTTP: it is the ceiling. LitServe is measured if it is installed: with our own function for
a batch, and with the model of transformers, padded, as its users have it.
Clients share the machine with the server, so the figures are lower than with clients elsewhere.
"""

import argparse
import asyncio
import json
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

WORDS = [
    "the",
    "a",
    "film",
    "book",
    "was",
    "is",
    "very",
    "not",
    "good",
    "dull",
    "long",
    "of",
    "in",
    "and",
    "people",
    "never",
]
CEILING = """
import sys, time
from patchword.serving.models.opening import Source, open_served
from serving import texts
served = open_served(Source("m", sys.argv[1]), "cpu", "auto", False, 1e9)
items = served.model.embed_items(texts(4000))
served.engine.start()
seconds, done, begin = float(sys.argv[2]), 0, time.perf_counter()
while time.perf_counter() - begin < seconds:
    some = items[done % 3000 : done % 3000 + 200]
    served.engine.submit(some, 1e9).future.result()
    done += len(some)
print(done / (time.perf_counter() - begin))
served.engine.stop()
"""
PACKED = """
from patchword.pipelines.opening import pipeline
from patchword.serving.models.texts import ServedTexts
def opened(path):
    model = ServedTexts("m", pipeline(path, device="cpu").engine)
    return lambda texts: model.compute(model.embed_items(texts))
"""
PADDED = """
import torch
from transformers import AutoModel, AutoTokenizer
def opened(path):
    tokenizer, model = AutoTokenizer.from_pretrained(path), AutoModel.from_pretrained(path).eval()
    def compute(texts):
        with torch.inference_mode():
            batch = tokenizer(texts, padding=True, truncation=True, max_length=256, return_tensors="pt")
            mask = batch["attention_mask"].unsqueeze(-1)
            vectors = (model(**batch).last_hidden_state * mask).sum(1) / mask.sum(1)
            return torch.nn.functional.normalize(vectors).numpy()
    return compute
"""
LITSERVE = """
import sys, base64, litserve, numpy as np
class Api(litserve.LitAPI):
    def setup(self, device): self.compute = opened(sys.argv[1])
    def decode_request(self, request): return request["input"]
    def predict(self, texts): return self.compute(texts)
    def batch(self, inputs): return list(inputs)
    def unbatch(self, output): return list(output)
    def encode_response(self, vector):
        return {"data": [{"embedding": base64.b64encode(np.asarray(vector, "<f4").tobytes()).decode()}]}
if __name__ == "__main__":
    api = Api(max_batch_size=64, batch_timeout=0.005, api_path="/v1/embeddings")
    litserve.LitServer(api, accelerator="cpu", timeout=60).run(port=int(sys.argv[2]), generate_client_file=False)
"""


def texts(count: int, seed: int = 0) -> list[str]:
    """Sentences of 5 to 60 words, 24 in the mean."""
    draw = random.Random(seed)
    return [" ".join(draw.choices(WORDS, k=min(60, max(5, int(draw.lognormvariate(3, 0.5)))))) for _ in range(count)]


class Connection:
    """One HTTP connection that is kept open."""

    def __init__(self, port: int) -> None:
        self.port, self._streams = port, None

    async def post(self, text: str) -> tuple[int, dict[str, str], float]:
        """Return status, headers and seconds of a request for one vector."""
        begin, is_new = time.perf_counter(), self._streams is None
        try:
            status, headers = await self._post(text)
        except (OSError, asyncio.IncompleteReadError):
            if is_new:
                raise
            self._streams = None  # an idle connection that the server closed: every client of HTTP opens another
            status, headers = await self._post(text)
        return status, headers, time.perf_counter() - begin

    async def _post(self, text: str) -> tuple[int, dict[str, str]]:
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self.port)
        reader, writer = self._streams
        body = json.dumps({"input": text, "model": "m", "encoding_format": "base64"}).encode()
        head = f"POST /v1/embeddings HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\nContent-Type: application/json\r\n"
        writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines[1:] if line)}
        await reader.readexactly(int(headers["content-length"]))
        return int(lines[0].split()[1]), headers


def quantiles(seconds: list[float]) -> dict[str, float]:
    if len(seconds) < 2:
        return {}
    cuts = statistics.quantiles(seconds, n=100)
    return {
        "p50_ms": cuts[49] * 1000,
        "p95_ms": cuts[94] * 1000,
        "p99_ms": cuts[98] * 1000,
        "max_ms": max(seconds) * 1000,
    }


async def closed_loop(port: int, clients: int, seconds: float) -> dict[str, Any]:
    """Each client asks again as soon as it is answered."""
    asked, taken, statuses, end = texts(2000), [], Counter[int](), time.perf_counter() + seconds

    async def client(number: int) -> None:
        connection, place = Connection(port), number * 7
        while time.perf_counter() < end:
            status, _, duration = await connection.post(asked[place % len(asked)])
            place += 1
            statuses[status] += 1
            taken.append(duration)

    begin = time.perf_counter()
    await asyncio.gather(*(client(number) for number in range(clients)))
    rate = statuses[200] / (time.perf_counter() - begin)
    return {"clients": clients, "per_second": rate, "statuses": dict(statuses), **quantiles(taken)}


async def burst(port: int, rate: float, seconds: float) -> dict[str, Any]:
    """Requests at a fixed rate, whatever the answers; then single requests, to see the recovery."""
    asked, idle, found, failed = texts(2000, 1), list[Connection](), list[tuple[int, bool, float]](), Counter[str]()
    memory = [resident(port)]

    async def one(text: str) -> None:
        connection = idle.pop() if idle else Connection(port)
        try:
            status, headers, duration = await connection.post(text)
        except (OSError, asyncio.IncompleteReadError) as error:
            failed[type(error).__name__] += 1
            return
        found.append((status, "retry-after" in headers, duration))
        idle.append(connection)

    begin, waiting = time.perf_counter(), []
    for number in range(int(rate * seconds)):
        await asyncio.sleep(max(0.0, begin + number / rate - time.perf_counter()))
        waiting.append(asyncio.create_task(one(asked[number % len(asked)])))
        if number == int(rate * seconds / 2):
            memory.append(await asyncio.to_thread(resident, port))
    await asyncio.gather(*waiting)
    over = time.perf_counter()
    single = Connection(port)
    after = [(time.perf_counter() - over, *(await single.post(text))[::2]) for text in asked[:40]]
    memory.append(resident(port))
    return {
        "offered_per_second": rate,
        "answered_per_second": sum(status == 200 for status, *_ in found) / seconds,
        "statuses": dict(Counter(status for status, *_ in found)),
        "without_answer": dict(failed),
        "refused_without_retry_after": sum(status == 429 and not has for status, has, _ in found),
        "answered": quantiles([taken for status, _, taken in found if status == 200]),
        "refused": quantiles([taken for status, _, taken in found if status == 429]),
        "resident_mb_before_middle_after": [round(one / 1e6, 1) for one in memory],
        "after_the_burst": {"first_ms": after[0][2] * 1000, **quantiles([taken for _, _, taken in after])},
    }


def resident(port: int) -> float:
    """Return the memory of the server in bytes."""
    from urllib.request import urlopen

    text = urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30).read().decode()
    return float(re.search(r"^process_resident_memory_bytes (\S+)", text, re.M)[1])


@contextmanager
def serving(model: str) -> Iterator[tuple[int, str]]:
    """Yield the port of `patchword serve`, and the line with its measured speed."""
    command = [sys.executable, "-m", "patchword", "serve", f"m={model}", "--port", "0", "--device", "cpu"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        lines = []
        for line in process.stderr:
            lines.append(line.strip())
            if found := re.search(r"http://127.0.0.1:(\d+)", line):
                break
        yield int(found[1]), lines[-2]
        process.terminate()


def written(file: IO[str], text: str) -> str:
    """Write a file; return its name."""
    file.write(text)
    file.flush()
    return file.name


@contextmanager
def litserving(model: str, function: str, port: int = 18321) -> Iterator[int]:
    """Yield the port of LitServe, 0 if it does not start. Its workers outlive SIGTERM, so its group is killed."""
    with (
        tempfile.NamedTemporaryFile("w", suffix=".py") as script,  # its workers read it again
        subprocess.Popen(
            [sys.executable, written(script, function + LITSERVE), model, str(port)],
            start_new_session=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as process,
    ):
        for _ in range(240):
            try:
                asyncio.run(Connection(port).post("ready"))
                break
            except (OSError, asyncio.IncompleteReadError):
                time.sleep(0.25)
        else:
            port = 0
        yield port
        os.killpg(process.pid, signal.SIGKILL)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--burst", type=float, default=60)
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 32, 128])
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    paths = [str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    found: dict[str, Any] = {"command": " ".join(sys.argv), "cores": os.cpu_count(), "load_before": os.getloadavg()[0]}

    def note(stage: str) -> None:
        print(f"{time.strftime('%H:%M:%S')} {stage}: {json.dumps(found)}", file=sys.stderr, flush=True)

    def ceiling() -> float:
        command = [sys.executable, "-c", CEILING, asked.model, str(asked.seconds)]
        return float(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)

    found["engine_alone_per_second"] = [ceiling()]
    note("engine alone")
    with serving(asked.model) as (port, line):
        found["measured_at_start"] = line
        asyncio.run(closed_loop(port, 4, 2))
        found["patchword"] = [asyncio.run(closed_loop(port, count, asked.seconds)) for count in asked.clients]
        capacity = max(one["per_second"] for one in found["patchword"])
        note("closed loops")
        found["burst"] = asyncio.run(burst(port, 3 * capacity, asked.burst))
    found["engine_alone_per_second"].append(ceiling())
    note("burst")
    if find_spec("litserve"):
        for name, function in (("litserve, our packed batches", PACKED), ("litserve, transformers", PADDED)):
            with litserving(asked.model, function) as port:
                found[name] = "did not start" if not port else asyncio.run(closed_loop(port, 4, 2))
                if port:
                    found[name] = [asyncio.run(closed_loop(port, count, asked.seconds)) for count in asked.clients]
            note(name)
    found["load_after"] = os.getloadavg()[0]
    text = json.dumps(found, indent=2)
    print(text)
    if asked.out:
        asked.out.write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
