"""Requests that are nearly right: made from sound ones of every route by changes that a number decides."""

import io
import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from PIL import Image

Change = Callable[[random.Random, Any], Any]

WORDS = ("the", "cat", "sat", "Ada", "[MASK]", "[SEP]", "naïve", "雪", "🙂", "", "a\u0000b", "\u202e", "-0")
ODD = (
    None,
    True,
    -1,
    0,
    1e308,
    10**30,
    float("nan"),
    "",
    [],
    {},
    [[]],
    "x" * 3000,
    "\ud800",
    [None],
    {"text": 1},
    ["a"] * 3000,
)
HEADERS = {
    "host": ("evil.example", "", "127.0.0.1:8000@evil", "[::1]", "127.0.0.1:8000"),
    "origin": ("null", "http://evil.example", "http://127.0.0.1:8000", "x" * 5000),
    "authorization": ("Bearer ", "Basic eA==", "Bearer \xff", "x" * 5000),
    "content-encoding": ("gzip", "identity", "br, gzip"),
    "content-type": ("", "application/json; charset=utf-16", "multipart/form-data; boundary=", "x/y;" * 500),
    "content-length": ("-1", "99999999999", "1", "x", ""),
    "x-request-id": ("a b", "x" * 500, "../../etc", "ok-1"),
    "sec-fetch-site": ("cross-site", "none"),
    "accept": ("text/event-stream", "*/*;q=x"),
}


@dataclass(frozen=True)
class OddRequest:
    """One request. changes: what was done to a sound one."""

    address: str
    body: bytes | None = None
    kind: str | None = None
    method: str | None = None
    headers: dict[str, str] = field(default_factory=dict)
    changes: tuple[str, ...] = ()


def odd_request(number: int, sound: Sequence[OddRequest]) -> OddRequest:
    """Return one of the sound requests with up to three changes; the same number gives the same request."""
    rng = random.Random(number)
    found = rng.choice(sound)
    for _ in range(rng.choice((0, 1, 1, 1, 2, 3))):
        name = rng.choice(list(_CHANGES))
        found = replace(_CHANGES[name](rng, found), changes=(*found.changes, name))
    return found


def sound_json(address: str, fields: dict[str, Any]) -> OddRequest:
    return OddRequest(address, json.dumps(fields).encode(), "application/json")


def sound_form(address: str, files: Sequence[bytes]) -> OddRequest:
    parts = [
        b'--edge\r\nContent-Disposition: form-data; name="file"; filename="a.png"\r\nContent-Type: image/png\r\n\r\n'
        + content
        + b"\r\n"
        for content in files
    ]
    return OddRequest(address, b"".join(parts) + b"--edge--\r\n", "multipart/form-data; boundary=edge")


def picture(kind: str = "PNG", size: tuple[int, int] = (20, 16)) -> bytes:
    """Return the file of an image of noise."""
    values = np.random.default_rng(0).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    file = io.BytesIO()
    Image.fromarray(values).save(file, kind)
    return file.getvalue()


def _change_json(rng: random.Random, one: OddRequest) -> OddRequest:
    try:
        value = json.loads(one.body or b"")
    except ValueError:
        return _change_bytes(rng, one)
    return replace(one, body=json.dumps(_odd_value(rng, value)).encode("utf-8", "surrogatepass"))


def _odd_value(rng: random.Random, value: Any, depth: int = 0) -> Any:
    """Return a value with one part replaced, removed, repeated or added."""
    if isinstance(value, dict) and value and depth < 4 and rng.random() < 0.8:
        key = rng.choice(list(value))
        way = rng.random()
        if way < 0.15:
            return {name: one for name, one in value.items() if name != key}
        if way < 0.3:
            return value | {rng.choice(("stream", "x", "", "model", "__proto__", "top")): rng.choice(ODD)}
        return value | {key: _odd_value(rng, value[key], depth + 1)}
    if isinstance(value, list) and value and depth < 4 and rng.random() < 0.7:
        place = rng.randrange(len(value))
        way = rng.random()
        if way < 0.2:
            return value * rng.choice((0, 2, 50))
        return [*value[:place], _odd_value(rng, value[place], depth + 1), *value[place + 1 :]]
    if isinstance(value, str) and rng.random() < 0.5:
        return " ".join(rng.choices(WORDS, k=rng.choice((0, 1, 5, 200))))
    return rng.choice(ODD)


def _change_bytes(rng: random.Random, one: OddRequest) -> OddRequest:
    """Flip, cut, repeat or insert bytes of the body."""
    body = bytearray(one.body or b"")
    for _ in range(rng.choice((1, 1, 3, 20))):
        place = rng.randrange(len(body) + 1)
        way = rng.randrange(4)
        if way == 0 and place < len(body):
            body[place] ^= 1 << rng.randrange(8)
        elif way == 1:
            del body[place:]
        elif way == 2:
            body[place:place] = rng.randbytes(rng.choice((1, 4, 100)))
        else:
            body[place:place] = body[: rng.choice((10, 1000))]
    return replace(one, body=bytes(body))


def _change_header(rng: random.Random, one: OddRequest) -> OddRequest:
    name = rng.choice(list(HEADERS))
    return replace(one, headers=one.headers | {name: rng.choice(HEADERS[name])})


def _change_kind(rng: random.Random, one: OddRequest) -> OddRequest:
    kinds = ("application/json", "text/plain", "image/png", "image/jpeg", "multipart/form-data; boundary=edge", "")
    return replace(one, kind=rng.choice(kinds))


def _change_method(rng: random.Random, one: OddRequest) -> OddRequest:
    return replace(one, method=rng.choice(("GET", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "TRACE", "BREW")))


def _change_address(rng: random.Random, one: OddRequest) -> OddRequest:
    ways = (
        lambda text: text + rng.choice(("/", "/..", "?x=1", "?" + "a" * 3000, "%00", "/%2e%2e/etc/passwd", "//")),
        lambda text: text.replace("reviews", rng.choice(("photos", "nothing", "..", "a" * 3000, "%", "é"))),
        lambda text: text[: rng.randrange(1, len(text) + 1)],
    )
    return replace(one, address=rng.choice(ways)(one.address))


_CHANGES: dict[str, Callable[[random.Random, OddRequest], OddRequest]] = {
    "json": _change_json,
    "more json": _change_json,
    "bytes": _change_bytes,
    "header": _change_header,
    "kind": _change_kind,
    "method": _change_method,
    "address": _change_address,
}
