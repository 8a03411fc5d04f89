"""Connects huggingface_hub to a hub on the loopback."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import huggingface_hub
import pytest
from huggingface_hub import constants

from support.hub.loopback_hub import LoopbackHub, serving


@contextmanager
def connected(monkeypatch: pytest.MonkeyPatch, cache: Path) -> Iterator[LoopbackHub]:
    """Serve an empty hub, and use it with this cache. huggingface_hub reads its environment once, so its constants are
    changed."""
    with serving(LoopbackHub()) as served:
        monkeypatch.setenv("NO_PROXY", "127.0.0.1,localhost")
        monkeypatch.setattr(constants, "ENDPOINT", served.endpoint)
        template = served.endpoint + "/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_IMPLICIT_TOKEN", True)
        monkeypatch.setattr(time, "sleep", lambda seconds: None)  # between two attempts of huggingface_hub
        huggingface_hub.close_session()
        yield served
        huggingface_hub.close_session()
