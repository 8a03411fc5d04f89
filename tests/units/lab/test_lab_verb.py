"""`patchword lab`: the address, its options and their mistakes."""

import http.client
import os
import re
import signal
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from patchword.cli.app import app
from patchword.core.errors import UserError


@pytest.fixture
def run(page, monkeypatch):
    monkeypatch.setattr("patchword.lab.bundle.PAGE", page)
    monkeypatch.setenv("COLUMNS", "200")

    def run(*arguments):
        done = CliRunner().invoke(app, ["lab", *map(str, arguments)])
        if done.exception and not isinstance(done.exception, SystemExit):
            raise done.exception
        return done

    return run


def test_help_shows_what_it_does(run):
    shown = run("--help").output
    for text in ("patchword lab runs/demo", "--handout", "--allow-remote", "token", "Ctrl-C", "ssh -L"):
        assert text in shown


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "example.org"])
def test_other_machines_are_refused_unless_allowed(run, host):
    with pytest.raises(UserError, match="lets other machines connect") as error:
        run("--host", host, "--no-browser")
    assert "--allow-remote" in str(error.value)
    assert "not encrypted" in str(error.value)


def test_allow_remote_needs_an_address(run):
    with pytest.raises(UserError, match="--host 0"):
        run("--allow-remote", "--no-browser")


def test_without_the_extra_an_error_names_it(run, monkeypatch):
    monkeypatch.setattr("patchword.cli.inspection.lab.find_spec", lambda name: None if name == "starlette" else name)
    with pytest.raises(UserError, match=r'pip install "patchword\[lab\]"') as error:
        run("--no-browser")
    assert "starlette" in str(error.value)


def test_a_handout_needs_no_extra(run, monkeypatch, tmp_path):
    monkeypatch.setattr("patchword.cli.inspection.lab.find_spec", lambda name: None)
    done = run("--handout", "cost,draw", tmp_path / "out.html")
    assert "out.html" in done.output
    assert (tmp_path / "out.html").is_file()


def test_a_model_that_does_not_exist_is_an_error(run):
    with pytest.raises(UserError, match="there is no model at nothing"):
        run("nothing", "--no-browser")


def test_modules_of_the_server_are_imported_when_the_verb_runs():
    script = "import patchword.cli.app, sys; print({'starlette', 'uvicorn'} & sys.modules.keys() or 'none')"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "none"


def test_the_lab_serves_until_ctrl_c(page):
    script = (
        "import sys, pathlib, patchword.lab.bundle as bundle; bundle.PAGE = pathlib.Path(sys.argv.pop(1)); "
        "from patchword.cli import main; main()"
    )
    arguments = [sys.executable, "-c", script, str(page), "lab", "--no-browser"]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as started:
        try:
            lines = [started.stdout.readline(), started.stdout.readline()]
            found = re.fullmatch(r"  http://127\.0\.0\.1:(\d+)/\?token=([\w-]{43})\n", lines[1])
            assert found, lines
            client = http.client.HTTPConnection("127.0.0.1", int(found[1]), timeout=60)
            client.request("GET", f"/?token={found[2]}")
            cookie = client.getresponse().headers["set-cookie"].partition(";")[0]
            client.close()
            for address, headers, status in (("/api/lab", {"Cookie": cookie}, 200), ("/api/lab", {}, 401)):
                client.request("GET", address, headers=headers)
                answer = client.getresponse()
                answer.read()
                assert answer.status == status
            client.close()
        finally:
            os.kill(started.pid, signal.SIGINT)
            out, err = started.communicate(timeout=60)
    assert started.returncode == 0
    assert found[2] not in out + err
    assert "Traceback" not in err


@pytest.mark.parametrize("name", ["NOTHING", "", "x" * 300, "a\0b", "/etc"])
def test_a_model_that_is_nowhere_is_an_error(run, name):
    with pytest.raises(UserError, match="there is no model at"):
        run(name, "--no-browser")


@pytest.mark.parametrize(
    "content",
    [
        *("[", '{"library": "patchword"}', '{"library": "patchword", "model": 5, "config": 5}'),
        '{"library": "patchword", "model": "vit-exercise", "config": {}, "labels": 5}',
    ],
)
def test_a_damaged_config_is_an_error_with_its_file(run, tmp_path, content):
    (tmp_path / "config.json").write_text(content)
    with pytest.raises(UserError, match=r"cannot read .*config\.json"):
        run(tmp_path, "--no-browser")


@pytest.mark.parametrize("host", ["x" * 70, "a..b", "."])
def test_a_host_that_is_no_name_is_an_error(run, host):
    with pytest.raises(UserError, match="cannot listen on"):
        run("--host", host, "--allow-remote", "--no-browser")
