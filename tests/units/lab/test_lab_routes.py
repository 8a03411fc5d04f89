"""The routes of the lab: the page, the registry, the models."""

import json

import pytest

import patchword
from patchword.lab.models import list_models
from patchword.models import REGISTRY
from patchword.serving.secured_response import CONTENT_SECURITY_POLICY
from patchword.weights.local_path import local_path
from support.lab.page import FILES, caller

VIT = local_path("zoo:vit-exercise")


def test_the_page_and_its_files(call):
    assert call("/").body.decode() == FILES["index.html"]
    script, sheet = call("/assets/lab.js"), call("/assets/style.css")
    assert (script.body.decode(), script.headers["content-type"]) == (
        FILES["assets/lab.js"],
        "text/javascript; charset=utf-8",
    )
    assert sheet.headers["content-type"] == "text/css; charset=utf-8"
    assert call("/").headers["cache-control"] == script.headers["cache-control"] == "no-cache"


@pytest.mark.parametrize(
    "path",
    [
        "/assets/../../etc/passwd",
        "/assets/%2e%2e/%2e%2e/etc/passwd",
        "/assets/..%2f..%2fetc%2fpasswd",
        "/assets/../secret.txt",
        "/assets/%2e%2e/secret.txt",
        "/assets/..\\secret.txt",
        "/assets//etc/passwd",
        "/assets/lab.js%00.css",
        "/assets/",
        "/assets",
        "/secret.txt",
        "//evil.example/",
        "/api/models/..%2fvit-exercise/config",
        "/api/models/vit-exercise/../../config",
        "/api/models/%2fetc%2fpasswd/weights",
    ],
)
def test_a_path_leads_to_no_other_file(call, path):
    found = call(path)
    assert found.status == 404
    assert "location" not in found.headers
    assert b"root:" not in found.body
    assert FILES["secret.txt"].encode() not in found.body


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/", 200),
        ("/assets/lab.js", 200),
        ("/assets/nothing.js", 404),
        ("/api/lab", 200),
        ("/api/registry", 200),
        ("/api/cost?model=nothing", 404),
        ("/api/cost?model=vit-exercise&width=x", 422),
        ("/api/models/vit-exercise/weights", 200),
        ("/api/nothing", 404),
    ],
)
def test_every_response_has_the_security_policy(call, path, status):
    found = call(path)
    assert found.status == status
    assert found.headers["content-security-policy"] == CONTENT_SECURITY_POLICY


@pytest.mark.parametrize(
    "path", ["/", "/assets/lab.js", "/api/lab", "/api/cost?model=vit-exercise", "/api/models/vit-exercise/weights"]
)
def test_every_route_needs_the_token(call, path):
    assert call(path, headers={"cookie": None}).status == 401
    assert call(path, headers={"host": "evil.example"}).status == 421
    assert call(path, headers={"origin": "http://evil.example"}).status == 403


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_the_routes_only_read(call, method):
    assert call("/api/lab", method, {"content-type": "application/json"}).status == 405


def test_the_models_are_listed(call, models):
    found = call("/api/lab").json()
    assert found["version"] == patchword.__version__
    listed = {one["id"]: one for one in found["models"]}
    assert listed.keys() == models.keys()
    vit = listed["vit-exercise"]
    assert (vit["name"], vit["source"], vit["kind"], vit["image"]) == (
        *("vit-exercise", "zoo:vit-exercise", "images"),
        [1, 28, 28],
    )
    assert vit["labels"][0] == "T-shirt/top"
    assert str(VIT) not in json.dumps(found)


def test_the_registry_is_listed(call):
    rows = {row["name"]: row for row in call("/api/registry").json()["models"]}
    assert list(rows) == REGISTRY.names()
    family, variant = REGISTRY.find("swin-tiny")
    assert rows["swin-tiny"]["family"] == family.name
    assert rows["swin-tiny"]["macs"] == variant.macs
    assert rows["swin-tiny"]["parameters"] == variant.parameters
    assert rows["swin-tiny"]["input"] == [3, 224, 224]
    assert rows["bert-base"]["input"] == [128]


def test_the_weights_are_those_of_the_file(call):
    found = call("/api/models/vit-exercise/weights")
    assert found.body == (VIT / "model.safetensors").read_bytes()
    assert call("/api/models/vit-exercise/config").json() == json.loads((VIT / "config.json").read_text())


@pytest.mark.parametrize("id", ["nothing", "vit", "zoo:vit-exercise", "a" * 2000, "<script>"])
def test_an_unknown_model_is_not_found(call, id):
    found = call(f"/api/models/{id}/weights")
    assert found.status == 404
    assert found.json()["error"].keys() == {"what", "expected", "got", "hint"}
    assert len(found.body) < 1500
    assert "vit-exercise" in call("/api/models/vit/config").json()["error"]["hint"]


def test_a_run_that_is_deleted_is_not_found(page, tmp_path):
    folder = tmp_path / "My Run <1>"
    folder.mkdir()
    for name in ("config.json", "model.safetensors"):
        (folder / name).write_bytes((VIT / name).read_bytes())
    models = list_models([str(folder), str(VIT)])
    call = caller(page, models)
    assert call("/api/models/my-run-1/weights").status == 200
    (folder / "model.safetensors").unlink()
    (folder / "config.json").unlink()
    assert call("/api/models/my-run-1/weights").status == 404
    assert call("/api/models/my-run-1/config").status == 404
    assert call("/api/lab").status == 200


def test_weights_that_are_too_large_are_refused(page, tmp_path):
    (tmp_path / "config.json").write_bytes((VIT / "config.json").read_bytes())
    (tmp_path / "model.safetensors").write_bytes(b"\0" * 5_000_001)
    models = list_models([str(tmp_path)])
    found = caller(page, models)(f"/api/models/{next(iter(models))}/weights")
    assert found.status == 422
    assert found.json()["error"]["got"] == "5,000,001"
