"""Packed sequences: the kernel matches padding, where there is a GPU."""

from copy import deepcopy

import pytest
import torch
from torch._subclasses import FakeTensorMode

from patchword.core.text import Packed
from patchword.kernels.varlen_attention.operation import has_varlen_attention_kernel, varlen_attention
from support.helpers import one_row, texts, tiny_text
from support.kernel_tests import assert_as_exact

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="the kernel runs on CUDA alone")


def test_the_kernel_is_not_used_on_a_cpu():
    assert not has_varlen_attention_kernel(torch.zeros(1, 4, 64, dtype=torch.bfloat16), 32)


@needs_gpu
@pytest.mark.parametrize(("width", "supported"), [(32, True), (64, True), (26, False), (512, False)])
def test_supported_head_widths(width, supported):
    assert (
        has_varlen_attention_kernel(torch.zeros(1, 4, 2 * width, dtype=torch.bfloat16, device="cuda"), width)
        == supported
    )
    assert not has_varlen_attention_kernel(torch.zeros(1, 4, 2 * width, device="cuda"), width)


@needs_gpu
def test_kernel_matches_padding():
    model = tiny_text("bert-tiny", width=64, heads=2, attention_dropout=0.0, dropout=0.0).cuda()
    batch = texts(17, 9, 24, 2)
    results = []
    for text, dtype in ((one_row(batch), torch.bfloat16), (batch, torch.bfloat16), (batch, torch.float64)):
        run = deepcopy(model).to(torch.float64 if dtype == torch.float64 else torch.float32)
        with torch.autocast("cuda", torch.bfloat16, enabled=dtype == torch.bfloat16):
            answer = run(text.to(torch.device("cuda")))
        (gradient,) = torch.autograd.grad(answer.to(dtype).double().square().sum(), run.embedding.words.weight)
        results.append([answer.detach().to(dtype), gradient])
    assert_as_exact(*results)


def with_dropout(value, rows, run, causal, rate):
    """Returns the output, the gradient of the output and the gradient of the values, always with the same seed."""
    torch.manual_seed(0)
    query, key, slopes = (torch.randn(value.shape, device="cuda").bfloat16() for _ in range(3))
    torch.manual_seed(1)
    value = value.detach().requires_grad_()
    answer = run(query, key, value, rows, 0.125, causal, rate)
    (gradient,) = torch.autograd.grad(answer, value, slopes)
    return answer.detach(), slopes, gradient


@needs_gpu
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("compile", [False, True])
def test_dropout_of_packed_sequences(causal, compile):
    """With values of one, the output is the sum of the weights that are kept."""
    run = torch.compile(varlen_attention, fullgraph=True) if compile else varlen_attention
    rows = Packed.of(torch.tensor([70, 3, 128, 61], device="cuda"))
    ones = torch.ones(262, 4, 64, device="cuda", dtype=torch.bfloat16)
    answer, _, _ = with_dropout(ones, rows, run, causal, 0.3)
    assert abs(answer.float().mean() - 1) < 0.02
    assert answer.float().std() > 0.02
    assert (answer == answer[..., :1]).all()  # a weight is dropped for all channels
    assert torch.equal(with_dropout(ones, rows, run, causal, 0.3)[0], answer)  # the same seed, the same zeros
    whole, _, _ = with_dropout(ones, rows, run, causal, 0.0)
    assert (whole.float() - 1).abs().max() <= torch.finfo(torch.bfloat16).eps
    value = torch.randn_like(ones)
    answer, slopes, gradient = (part.double() for part in with_dropout(value, rows, run, causal, 0.3))
    one, other = (slopes * answer).sum(), (gradient * value.double()).sum()  # the output is linear in the values
    assert abs(one - other) < 2.5 * torch.finfo(torch.bfloat16).eps * (slopes * answer).norm()


@pytest.mark.parametrize(
    ("width", "rate", "capability", "supported"),
    [(64, 0.1, (8, 6), True), (256, 0.0, (8, 6), True), (256, 0.1, (8, 6), False), (256, 0.1, (9, 0), True),
     (64, 1.0, (9, 0), False), (64, 0.1, (7, 5), False)],
)  # fmt: skip
def test_which_gpus_support_dropout(monkeypatch, width, rate, capability, supported):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda index: capability)
    with FakeTensorMode():
        query = torch.zeros(1, 4, 2 * width, dtype=torch.bfloat16, device="cuda:0")
        assert has_varlen_attention_kernel(query, width, rate) == supported


@pytest.mark.parametrize(("other", "supported"), [(None, True), ("FA4", False)])
def test_a_replacement_of_torchs_kernel_has_no_dropout(monkeypatch, other, supported):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda index: (9, 0))
    monkeypatch.setattr(torch.nn.attention, "current_flash_attention_impl", lambda: other, raising=False)
    with FakeTensorMode():
        query = torch.zeros(1, 4, 64, dtype=torch.bfloat16, device="cuda:0")
        assert has_varlen_attention_kernel(query, 64, 0.1) == supported
        assert has_varlen_attention_kernel(query, 64)


@pytest.mark.slow
def test_one_compiled_graph_serves_packed_sequences_of_every_length():
    from torch._dynamo.testing import CompileCounterWithBackend

    model = tiny_text("bert-tiny", head="words").eval()
    counter = CompileCounterWithBackend("aot_eager")
    run, counts = torch.compile(model, backend=counter, dynamic=True, fullgraph=True), []
    for lengths in ((17, 9, 24), (5, 11), (22, 2, 7, 12), (3, 3, 3)):
        row = one_row(texts(*lengths))
        asked = torch.arange(0, row.ids.shape[1], 3)
        batch = row._replace(predict_at=asked, targets=row.ids[0, asked])
        torch.testing.assert_close(run(batch).losses, model(batch).losses)
        counts.append(counter.frame_count)
    assert len(set(counts)) == 1
