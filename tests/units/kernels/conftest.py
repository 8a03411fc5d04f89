"""Fixtures of the kernel tests."""

import pytest
import torch


@pytest.fixture(autouse=True)
def no_tf32(monkeypatch):
    """Keeps the float32 references on a GPU in float32."""
    if torch.cuda.is_available():
        monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)


@pytest.fixture
def fresh_launches():
    """Empties the launch caches, so that they follow the tile sizes of this test only."""
    pytest.importorskip("triton")
    from patchword.kernels.window_attention import launch as window_launch
    from patchword.kernels.window_attention import launch_backward as window_launch_backward

    window_launch.forward.cache_clear()
    window_launch_backward.backward.cache_clear()
    yield
    window_launch.forward.cache_clear()
    window_launch_backward.backward.cache_clear()
