"""`patchword serve`: its help, its checks before anything is opened, and a server as a process."""

import http.client
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from patchword.cli.app import app
from patchword.core.errors import UserError
from patchword.serving.models.opening import Source, parse_sources
from patchword.serving.settings import read_token

TOKEN = "a-token-of-enough-letters"
PATIENT = 120


@pytest.fixture
def run(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr("patchword.cli.models.serve._NEEDED", {})

    def run(*arguments):
        done = CliRunner().invoke(app, ["serve", *map(str, arguments)])
        if done.exception and not isinstance(done.exception, SystemExit):
            raise done.exception
        return done

    return run


@pytest.fixture
def token_file(tmp_path) -> Path:
    path = tmp_path / "token.txt"
    path.write_text(f"{TOKEN}\n")
    return path


def test_help_shows_what_it_does(run):
    shown = run("--help").output
    for text in ("patchword serve runs/reviews", "/v1/embeddings", "--token-file", "429", "SIGTERM", "--allow-remote"):
        assert text in shown


def test_other_machines_are_refused_unless_allowed_and_with_a_token(run, token_file):
    with pytest.raises(UserError, match="lets other machines connect"):
        run("zoo:vit-exercise", "--host", "0.0.0.0", "--token-file", token_file)
    with pytest.raises(UserError, match="expected --token-file FILE"):
        run("zoo:vit-exercise", "--host", "0.0.0.0", "--allow-remote")
    with pytest.raises(UserError, match="needs an address that others reach"):
        run("zoo:vit-exercise", "--allow-remote")
    with pytest.raises(UserError, match="one of --token-file and --without-token"):
        run("zoo:vit-exercise", "--token-file", token_file, "--without-token")


def test_tls_needs_a_certificate_and_its_key(run, token_file):
    with pytest.raises(UserError, match="TLS needs two files"):
        run("zoo:vit-exercise", "--tls-certificate", token_file)
    with pytest.raises(UserError, match="as PEM"):
        run("zoo:vit-exercise", "--tls-certificate", token_file, "--tls-key", token_file)


def test_what_the_server_needs_is_named(run, monkeypatch):
    monkeypatch.setattr("patchword.cli.models.serve._NEEDED", {"no_such_module": "a-package"})
    with pytest.raises(UserError, match=r"the server needs a-package.*\n.*patchword\[serve\]"):
        run("zoo:vit-exercise")


@pytest.mark.parametrize("content", ["", "short", "two words of a token", "a-token\nof-several-lines", "ä" * 20])
def test_a_token_must_be_one_long_word(tmp_path, content):
    path = tmp_path / "token.txt"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(UserError, match="cannot be used") as error:
        read_token(path)
    assert content not in str(error.value) or not content
    with pytest.raises(UserError, match="cannot read the token"):
        read_token(tmp_path / "missing.txt")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("runs/reviews", "reviews"),
        ("runs/reviews/", "reviews"),
        ("zoo:bert-mini", "bert-mini"),
        ("hf:owner/model-1.5", "model-1.5"),
        ("hf:owner/model@v2", "model"),
        ("text-embedding-3-small=runs/reviews", "text-embedding-3-small"),
    ],
)
def test_the_name_of_a_model_is_the_last_part_or_given(text, name):
    assert Source.parse(text).name == name
    assert Source.parse(text).source == (text.partition("=")[2] or text)


@pytest.mark.parametrize("text", [".", "..", "", "=runs/a", "a b=runs/a", "a/b=runs/a", "a="])
def test_a_model_without_a_usable_name_is_refused(text):
    with pytest.raises(UserError, match="no usable name"):
        Source.parse(text)


def test_two_models_need_two_names():
    with pytest.raises(UserError, match="two models have the name 'a'"):
        parse_sources(["runs/a", "other/a"])


def test_a_process_serves_a_model_is_replaced_and_ends(token_file, tmp_path):
    pytest.importorskip("python_multipart")
    command = [sys.executable, "-u", "-m", "patchword", "serve", "zoo:vit-exercise", "--port", "0", "--token-file"]
    environment = {**os.environ, "PYTHONPATH": ":".join(path for path in sys.path if path)}
    pipes = {"stderr": subprocess.PIPE, "text": True, "env": environment, "cwd": tmp_path}
    with subprocess.Popen([*command, str(token_file)], **pipes) as process:
        try:
            lines = iter(process.stderr.readline, "")
            port = next(int(found[1]) for line in lines if (found := re.search(r"http://127.0.0.1:(\d+)", line)))
            client = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENT)
            client.request("GET", "/models")
            refused = client.getresponse()
            assert (refused.status, refused.read() != b"") == (401, True)
            client.request("GET", "/models", headers={"Authorization": f"Bearer {TOKEN}"})
            models = json.loads(client.getresponse().read())["models"]
            assert [(one["name"], one["reads"]) for one in models] == [("vit-exercise", "images")]
            answering = next(int(found[1]) for line in lines if (found := re.match(r"process (\d+) answers", line)))
            os.kill(answering, signal.SIGKILL)
            client = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENT)
            client.request("GET", "/health/ready")
            assert client.getresponse().status == 200
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENT) == 0
            assert process.stderr.read().endswith("stopped\n")
        finally:
            process.kill()
