"""Fixtures of the kernel tests."""

import pytest


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
