"""A server of tiny models for odd requests, and a client that writes them byte by byte and judges the answers."""

import asyncio
import json
from dataclasses import replace
from typing import Any

import patchword
from patchword.data.text.tokenizers.tokenizer import Tokenizer
from patchword.serving.api.app import build_app
from patchword.serving.api.guard import ApiAccess
from patchword.serving.api.service import Service
from patchword.serving.draining import ServiceConnection, bound_server
from patchword.serving.models.opening import Served
from patchword.serving.server import bind, config_of
from support.helpers import tiny, tiny_text
from support.serving.odd_requests import OddRequest, picture, sound_form, sound_json
from support.serving.services import of_pipelines

TEXTS = ["The cat sat on the mat.", "Ada lived in London, and the cat ran to the bank in town!", "A mat."]
PATIENCE = 60.0  # seconds; a body that never comes ends a request after 20
REFUSED = frozenset({400, 401, 403, 404, 405, 408, 413, 415, 421, 422, 429, 501})


def models() -> dict[str, Served]:
    """Return a classifier of texts and one of images."""
    tokenizer = Tokenizer.train_on(TEXTS * 3, vocabulary=200)
    text = tiny_text("bert-tiny", vocabulary=tokenizer.vocabulary, max_length=40, head="classes", classes=2)
    text.card = replace(text.card, labels=("bad", "good"))
    image = tiny("vit-tiny-16", image=32, patch=8, classes=2)
    image.card = replace(image.card, labels=("cat", "dog"))
    return of_pipelines(
        reviews=patchword.pipeline(text, tokenizer=tokenizer, device="cpu"),
        photos=patchword.pipeline(image, device="cpu"),
    )


def sound_requests() -> list[OddRequest]:
    """Return requests of every route that are answered with 200."""
    image = picture()
    return [
        sound_json("/models/reviews/predict", {"inputs": TEXTS, "top": 2}),
        sound_json("/predict", {"inputs": [{"text": TEXTS[0]}, TEXTS[1]], "model": "reviews"}),
        OddRequest("/models/reviews/predict", TEXTS[0].encode(), "text/plain"),
        OddRequest("/models/photos/predict", image, "image/png"),
        OddRequest("/models/photos/predict", picture("JPEG"), "image/jpeg"),
        OddRequest("/models/photos/predict", picture("TIFF"), "image/tiff"),
        OddRequest("/models/photos/predict", picture("GIF"), "application/octet-stream"),
        sound_form("/models/photos/predict", [image, picture("WEBP")]),
        sound_json("/v1/embeddings", {"input": TEXTS, "model": "reviews", "encoding_format": "base64"}),
        sound_json("/v1/embeddings", {"input": TEXTS[0], "model": "reviews", "user": "x"}),
        *(OddRequest(address) for address in ("/models", "/v1/models", "/health/live", "/health/ready", "/metrics")),
    ]


def serve() -> None:
    """Serve the tiny models until a signal; print the port."""
    service, bound = Service(models()), bind("127.0.0.1", 0)
    port = bound.getsockname()[1]
    access = ApiAccess(frozenset([f"127.0.0.1:{port}"]), frozenset([f"http://127.0.0.1:{port}"]))
    print(port, flush=True)
    service.start()
    bound_server(config_of(build_app(service, access), ServiceConnection), service, 1.0, bound)
    service.stop()
    service.join(PATIENCE)


def fault(status: int, headers: dict[str, str], body: bytes, method: str) -> str:
    """Return what is wrong with an answer, or nothing."""
    if status == 200:
        return "" if method in ("GET", "POST", "HEAD") else f"200 for {method}"
    if status not in REFUSED:
        return f"status {status}"
    if method == "HEAD" or not headers.get("content-type", "").startswith("application/json"):
        return "" if method == "HEAD" or status == 400 else f"status {status} without JSON"
    return _error_fault(json.loads(body))


def _error_fault(found: Any) -> str:
    error = found.get("error", {})
    missing = {"what", "message", "request_id"} - error.keys()
    if missing:
        return f"an error without {sorted(missing)}"
    return "a traceback" if "Traceback" in json.dumps(error) or "/site-packages/" in json.dumps(error) else ""


async def ask(port: int, request: OddRequest) -> str:
    """Send a request over a connection of its own, as it is; return what is wrong with its answer, or nothing."""
    method = request.method or ("GET" if request.body is None else "POST")
    headers: dict[str, str] = {"host": f"127.0.0.1:{port}", "connection": "close"}
    if request.body is not None:
        headers |= {"content-type": request.kind or "", "content-length": str(len(request.body))}
    headers |= request.headers
    lines = [f"{method} {request.address} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write("\r\n".join(lines).encode("utf-8", "surrogatepass") + (request.body or b""))
        answer = await asyncio.wait_for(reader.read(), PATIENCE)
    except ConnectionError:  # it was refused before its body was read
        return ""
    except TimeoutError:
        return f"no answer within {PATIENCE:.0f} s"
    finally:
        writer.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    first, *rest = head.decode("latin-1").split("\r\n")
    if not first.startswith("HTTP/1.1 "):
        return f"no answer: {answer[:50]!r}"
    found = dict(line.lower().split(": ", 1) for line in rest if ": " in line)
    return fault(int(first.split()[1]), found, body, method)


def described(request: OddRequest) -> str:
    """Return a short description for a report."""
    start = (request.body or b"")[:80]
    return f"{request.method or ''} {request.address[:60]} {request.kind} {request.headers} {start!r} {request.changes}"
