"""A server of tiny models for odd requests, and a client that writes them byte by byte and judges the answers."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import patchword
from patchword.serving.api.app import build_app
from patchword.serving.api.guard import ApiAccess
from patchword.serving.api.service import Service
from patchword.serving.draining import ServiceConnection, bound_server
from patchword.serving.models.opening import Served
from patchword.serving.server import bind, config_of
from support.serving.models import TEXTS, image_pipeline, text_pipeline, tokenizer_of_texts
from support.serving.odd_requests import OddRequest, picture, sound_form, sound_json
from support.serving.services import of_pipelines

ADDRESSES = (
    *("/models", "/v1/models", "/health/live", "/health/ready", "/metrics"),
    *("/v2", "/v2/health/live", "/v2/health/ready", "/v2/models/reviews", "/v2/models/reviews/ready"),
)
PATIENCE = 60.0  # seconds; a body that never comes ends a request after 20
REFUSED = frozenset({400, 401, 403, 404, 405, 408, 413, 415, 421, 422, 429, 501, 504})


def models() -> dict[str, Served]:
    """Return models of texts, of words and of images, and a translator."""
    tokenizer = tokenizer_of_texts()
    sizes = {"width": 32, "depth": 1, "heads": 4, "hidden": 64}
    translator = patchword.create("transformer-base", vocabulary=tokenizer.vocabulary, max_length=24, **sizes)
    return of_pipelines(
        reviews=text_pipeline("classes"),
        photos=image_pipeline(),
        bert=text_pipeline("words", ()),
        gpt=text_pipeline("words", (), family="gpt2-small"),
        german=patchword.pipeline(translator, tokenizer=(tokenizer, tokenizer), device="cpu"),
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
        sound_json("/models/bert/fill", {"inputs": ["The [MASK] sat.", "A [MASK]."], "top": 2, "pieces": True}),
        OddRequest("/models/bert/fill", b"The [MASK] sat.", "text/plain"),
        sound_json("/models/gpt/generate", {"prompt": "The cat", "tokens": 6, "seed": 1, "top_p": 0.9, "samples": 2}),
        sound_json("/models/gpt/generate", {"prompt": "The cat", "tokens": 6, "temperature": 0, "stream": True}),
        sound_json("/models/german/translate", {"inputs": TEXTS[:2], "beams": 2, "penalty": 0.6}),
        sound_json("/models/german/translate", {"inputs": TEXTS[0], "beams": 1, "stream": True}),
        sound_json("/v2/models/reviews/infer", {"id": "a", "inputs": [tensor(TEXTS)]}),
        *(OddRequest(address) for address in ADDRESSES),
    ]


def tensor(texts: Sequence[str]) -> dict[str, object]:
    """Return texts as an input of the Open Inference Protocol."""
    return {"name": "text", "shape": [len(texts)], "datatype": "BYTES", "data": list(texts)}


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
    error = found["details"] if "details" in found else found.get("error", {})  # below /v2 as its protocol has it
    missing = {"what", "message", "request_id"} - error.keys()
    if missing:
        return f"an error without {sorted(missing)}"
    return "a traceback" if "Traceback" in json.dumps(error) or "/site-packages/" in json.dumps(error) else ""


async def ask(port: int, request: OddRequest) -> tuple[int, str]:
    """Send a request over a connection of its own, as it is.

    Return the status, 0 without one, and what is wrong with the answer, or nothing.
    """
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
        return 0, ""
    except TimeoutError:
        return 0, f"no answer within {PATIENCE:.0f} s"
    finally:
        writer.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    first, *rest = head.decode("latin-1").split("\r\n")
    if not first.startswith("HTTP/1.1 "):
        return 0, f"no answer: {answer[:50]!r}"
    found = dict(line.lower().split(": ", 1) for line in rest if ": " in line)
    status = int(first.split()[1])
    return status, fault(status, found, body, method)


def described(request: OddRequest) -> str:
    """Return a short description for a report."""
    start = (request.body or b"")[:80]
    return f"{request.method or ''} {request.address[:60]} {request.kind} {request.headers} {start!r} {request.changes}"
