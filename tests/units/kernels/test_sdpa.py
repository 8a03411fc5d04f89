"""Attention with masks of padding, on a GPU if there is one: the same with and without gradients."""

import pytest
import torch
from torch.nn.attention import SDPBackend

from patchword.kernels import sdpa as module
from patchword.kernels.sdpa import sdpa
from support.kernel_tests import DEVICE


@pytest.mark.parametrize("learns", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize(("batch", "queries", "keys"), [(32, 400, 400), (8, 625, 625), (8, 100, 625), (3, 17, 1050)])
def test_padding_is_not_attended_to(batch, queries, keys, learns):
    draws = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(batch, 2, count, 32, generator=draws) for count in (queries, keys, keys))
    counts = torch.randint(keys // 3, keys + 1, (batch,), generator=draws)
    valid = (torch.arange(keys) < counts[:, None])[:, None, None]
    scores = (q @ k.mT * 32**-0.5).masked_fill(~valid, float("-inf"))
    expected = scores.softmax(-1) @ v
    given = [part.to(DEVICE, torch.bfloat16) for part in (q, k, v)]
    with torch.set_grad_enabled(learns):
        found = sdpa(*given, valid.to(DEVICE), scale=32**-0.5)
    assert (found.cpu().float() - expected).norm() < 0.02 * expected.norm()


@pytest.fixture
def excluded(monkeypatch):
    """Return a function that is True if cuDNN is excluded for these queries, keys and other arguments, as on a GPU."""
    chosen = []
    monkeypatch.setattr(module, "sdpa_kernel", lambda kernels: chosen.append(kernels) or torch.no_grad())
    monkeypatch.setattr(torch.Tensor, "is_cuda", property(lambda tensor: True))

    def asked(queries, keys, *others):
        chosen.clear()
        q, k = (torch.empty(1, 1, count, 8, device="meta") for count in (queries, keys))
        module.without_cudnn(q, k, *others)
        return bool(chosen) and SDPBackend.CUDNN_ATTENTION not in chosen[0]

    return asked


def test_cudnn_is_excluded_with_a_mask_and_gradients(excluded):
    mask = torch.ones(4, 4) > 0
    assert not excluded(4, 4, None)
    with torch.no_grad():
        assert not excluded(4, 4, mask)
    assert excluded(4, 4, mask)


def test_cudnn_is_excluded_where_a_tile_of_keys_or_queries_is_half_full(excluded):
    pvt = [(4096, 64), (1024, 64), (256, 64), (64, 64)]  # queries and keys of its stages, for 256 x 256 pixels
    assert all(excluded(*lengths, None) for lengths in [*pvt, (192, 192), (1, 128)])
    assert not any(excluded(*lengths, None) for lengths in [(128, 128), (256, 384), (197, 197), (3136, 49)])
    assert not excluded(192, 192, None, True)  # the causal mask covers what is missing
    with torch.no_grad():
        assert not excluded(4096, 64, None)


@pytest.mark.parametrize(("queries", "keys"), [(256, 64), (64, 64), (192, 192), (1, 128), (256, 256), (197, 197)])
def test_gradients_are_finite_where_all_scores_are_low(queries, keys):
    """On a GPU of the Hopper generation, cuDNN's gradient is NaN for the first four."""
    draws = torch.Generator().manual_seed(0)
    query, key, value = (torch.randn(2, 3, count, 64, generator=draws) * 0.1 for count in (queries, keys, keys))
    query[..., 0], key[..., 0] = 1.0, -120 * 64**0.5  # every score is about -120
    upstream = torch.randn(2, 3, queries, 64, generator=draws)

    def gradients(device, dtype):
        given = [part.to(device, dtype, copy=True).requires_grad_() for part in (query, key, value)]
        sdpa(*given, scale=64**-0.5).backward(upstream.to(device, dtype))
        return [part.grad.cpu().double() for part in given]

    for found, expected in zip(gradients(DEVICE, torch.bfloat16), gradients("cpu", torch.float64), strict=True):
        assert found.isfinite().all()
        found, expected = found[..., 1:], expected[..., 1:]  # without the large channel, which leaves rounding errors
        assert (found - expected).norm() < 0.05 * expected.norm()
