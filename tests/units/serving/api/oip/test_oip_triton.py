"""The client of Triton, where it is installed, against /v2."""

import numpy as np
import pytest

from support.material import write_picture
from support.serving.live import listening
from support.serving.models import TEXTS, image_pipeline, text_pipeline
from support.serving.services import of_pipelines, running

triton = pytest.importorskip("tritonclient.http")


@pytest.fixture(scope="module")
def client():
    pipelines = {"reviews": text_pipeline("classes"), "photos": image_pipeline()}
    with running(of_pipelines(**pipelines)) as (_, local), listening(local.app) as port:
        client = triton.InferenceServerClient(f"127.0.0.1:{port}", network_timeout=60, connection_timeout=60)
        client.plain = local
        yield client
        client.close()


def test_health_and_metadata(client):
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("reviews")
    assert client.get_server_metadata()["name"] == "patchword"
    assert [one["name"] for one in client.get_model_metadata("photos")["inputs"]] == ["image", "pixels"]


@pytest.mark.parametrize("sent", [True, False])
@pytest.mark.parametrize("answered", [True, False, None])
def test_texts(client, sent, answered):
    given = triton.InferInput("text", [len(TEXTS)], "BYTES")
    given.set_data_from_numpy(np.array(TEXTS, object), binary_data=sent)
    names = ("labels", "probabilities")
    outputs = (
        answered if answered is None else [triton.InferRequestedOutput(one, binary_data=answered) for one in names]
    )
    found = client.infer("reviews", [given], outputs=outputs, request_id="a-1")
    expected = client.plain("/models/reviews/predict", {"inputs": TEXTS}).json()["answers"]
    labels, probabilities = found.as_numpy("labels"), found.as_numpy("probabilities")
    assert [one.decode() if isinstance(one, bytes) else one for one in labels[:, 0]] == [
        one["label"] for one in expected
    ]
    np.testing.assert_allclose(probabilities[:, 0], [one["probability"] for one in expected], atol=1e-5)
    assert found.get_response()["id"] == "a-1"


def test_images(client, tmp_path):
    path = write_picture(tmp_path / "a.png", size=(40, 30), mode="RGB")
    given = triton.InferInput("image", [1], "BYTES")
    given.set_data_from_numpy(np.array([path.read_bytes()], object))
    (expected,) = client.plain("/models/photos/predict", path.read_bytes(), kind="image/png").json()["answers"]
    assert client.infer("photos", [given]).as_numpy("labels")[0, 0].decode() == expected["label"]


def test_errors_are_texts(client):
    given = triton.InferInput("text", [1], "BYTES")
    given.set_data_from_numpy(np.array([""], object))
    with pytest.raises(triton.InferenceServerException, match=r"inputs\.0: the text is empty") as refused:
        client.infer("reviews", [given])
    assert refused.value.status() == "422"
    with pytest.raises(triton.InferenceServerException, match="no model 'other' is served"):
        client.get_model_metadata("other")
