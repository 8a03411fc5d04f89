"""The access log and the seconds by stage: what a line has, and what it never has."""

import io
import json
import logging

import pytest

from patchword.serving import log
from patchword.serving.api.app import build_app
from patchword.serving.api.guard import ApiAccess
from patchword.serving.api.service import Service, ServiceLimits
from support.serving.client import HOST, Client
from support.serving.services import PATIENT, HeldModel

SECRET = "a secret of the client"
TOKEN = "a-token-of-this-test"


@pytest.fixture
def logged():
    """A client and the lines of its requests."""
    model, lines = HeldModel(), []
    model.go_on.set()
    service = Service({"held": model.served(queue=1e9)}, log_access=lines.append)
    service.start()
    access = ApiAccess(frozenset([HOST]), frozenset(), TOKEN)
    yield Client(build_app(service, access), authorization=f"Bearer {TOKEN}"), lines
    service.stop()
    service.join(PATIENT)


def test_a_line_has_the_stages_of_its_request(logged):
    client, lines = logged
    found = client("/predict", {"inputs": [SECRET, "b"]}, x_request_id="mine-1")
    assert found.status == 200
    (line,) = lines
    expected = {"request_id": "mine-1", "method": "POST", "route": "predict", "model": "held", "inputs": 2}
    assert {key: line[key] for key in expected} == expected
    assert line["status"] == 200
    stages = [line[f"{stage}_seconds"] for stage in ("tokenise", "queue", "compute", "write")]
    assert all(seconds >= 0 for seconds in stages)
    assert line["compute_seconds"] > 0
    assert sum(stages) <= line["seconds"] + 1e-3


def test_a_line_has_only_the_stages_that_were_reached(logged):
    client, lines = logged
    client("/predict", {"inputs": SECRET, "wrong": SECRET})
    client("/health/live")
    client(f"/{SECRET.replace(' ', '-')}", authorization="Bearer wrong")
    client("/predict", method="a secret method")
    assert [(line["route"], line["status"]) for line in lines] == [
        ("predict", 422),
        ("live", 200),
        ("none", 401),
        ("none", 405),
    ]
    assert lines[-1]["method"] == "other"
    for line in lines:
        assert {key for key in line if key.endswith("_seconds")} == {"write_seconds"}


def test_a_refused_request_names_its_model():
    model, lines = HeldModel(), []
    service = Service({"held": model.served(queue=0.5)}, ServiceLimits(deadline=1.5), lines.append)
    client = Client(build_app(service, ApiAccess(frozenset([HOST]), frozenset())))
    assert client("/predict", {"inputs": ["a", "b", "c"]}).status == 413  # the engine does not even run
    assert [(line["model"], line["inputs"], line["status"]) for line in lines] == [("held", 3, 413)]
    assert "queue_seconds" not in lines[0]


def test_no_line_has_contents_or_tokens(logged):
    client, lines = logged
    for body in ({"inputs": SECRET}, {"inputs": [SECRET, "poison"]}, {"model": SECRET, "inputs": "a"}, {SECRET: 1}):
        client("/predict", body)
    client(f"/models/{SECRET.replace(' ', '_')}/predict", {"inputs": "a"})
    client("/predict", {"inputs": "a"}, x_request_id=SECRET)
    written = json.dumps(lines)
    assert len(lines) == 6
    assert "secret" not in written
    assert TOKEN not in written


def test_metrics_have_a_histogram_per_stage(logged):
    client, _ = logged
    for _ in range(3):
        client("/predict", {"inputs": "a"})
    text = client("/metrics").body.decode()
    for stage in ("tokenise", "queue", "compute"):
        assert f'patchword_stage_seconds_count{{stage="{stage}"}} 3' in text
    assert 'patchword_stage_seconds_count{stage="write"} 3' in text


def test_what_the_program_logs_is_json_too(capsys):
    record = logging.LogRecord("patchword", logging.ERROR, "", 1, "request %s\nfailed", ("7",), None)
    line = json.loads(log.JsonFormatter().format(record))
    assert (line["level"], line["message"]) == ("error", "request 7\nfailed")
    assert line["time"].endswith("+00:00")
    try:
        raise ValueError("a fault")
    except ValueError as error:
        record.exc_info = (ValueError, error, error.__traceback__)
    written = log.JsonFormatter().format(record)
    assert "\n" not in written
    assert "ValueError: a fault" in json.loads(written)["traceback"]
    log.write_json({"message": "naïve"})
    assert json.loads(capsys.readouterr().err)["message"] == "naïve"


def test_the_server_logs_in_json(monkeypatch):
    stream, root = io.StringIO(), logging.getLogger()
    before, level = root.handlers[:], root.level
    monkeypatch.setattr("sys.stderr", stream)
    try:
        log.log_as_json()("listening")
        logging.getLogger("patchword.serving.test").warning("a batch failed")
    finally:
        for handler in root.handlers[:]:
            root.removeHandler(handler)
        for handler in before:
            root.addHandler(handler)
        root.setLevel(level)
    assert [json.loads(line)["message"] for line in stream.getvalue().splitlines()] == ["listening", "a batch failed"]
