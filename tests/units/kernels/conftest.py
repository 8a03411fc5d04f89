"""Fixtures of the tests of kernels."""

import pytest


@pytest.fixture
def fresh_launches():
    """Launch caches that follow the tiling rules of this test alone."""
    pytest.importorskip("triton")
    from patchword.kernels.window_attention import launch as window_launch
    from patchword.kernels.window_attention import launch_backward as window_launch_backward

    window_launch.forward.cache_clear()
    window_launch_backward.backward.cache_clear()
    yield
    window_launch.forward.cache_clear()
    window_launch_backward.backward.cache_clear()
