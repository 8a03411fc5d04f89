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


def test_cudnn_is_excluded_with_a_mask_and_gradients(monkeypatch):
    chosen = []
    monkeypatch.setattr(module, "sdpa_kernel", lambda kernels: chosen.append(kernels) or torch.no_grad())
    query, mask = torch.empty(1, 1, 4, 8, device="meta"), torch.ones(4, 4) > 0
    monkeypatch.setattr(torch.Tensor, "is_cuda", property(lambda tensor: True))
    module.without_cudnn(query, None)
    with torch.no_grad():
        module.without_cudnn(query, mask)
    assert not chosen
    module.without_cudnn(query, mask)
    assert SDPBackend.CUDNN_ATTENTION not in chosen[0]
