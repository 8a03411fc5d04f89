"""Texts in one row: the fast kernel is held to its plain twin, where there is a GPU."""

import pytest
import torch

from helpers import one_row, texts, tiny_text
from patchword.kernels.rows import has_row_kernel

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="the kernel runs on CUDA alone")


def test_the_kernel_is_not_asked_for_on_the_cpu():
    assert not has_row_kernel(torch.zeros(1, 4, 64, dtype=torch.bfloat16), 32)


@needs_gpu
@pytest.mark.parametrize(("width", "there"), [(32, True), (64, True), (26, False), (512, False)])
def test_the_kernel_knows_the_widths_it_has(width, there):
    assert has_row_kernel(torch.zeros(1, 4, 2 * width, dtype=torch.bfloat16, device="cuda"), width) == there
    assert not has_row_kernel(torch.zeros(1, 4, 2 * width, device="cuda"), width)


@needs_gpu
def test_the_kernel_answers_as_padding_does():
    model = tiny_text("bert-tiny", width=64, heads=2, attention_dropout=0.0, dropout=0.0).cuda()
    batch = texts(17, 9, 24, 2)
    answers, gradients = [], []
    for text in (batch, one_row(batch)):
        model.zero_grad()
        with torch.autocast("cuda", torch.bfloat16):
            answer = model(text.to(torch.device("cuda")))
        answer.float().square().sum().backward()
        answers.append(answer.detach().float())
        gradients.append(model.entrance.words.weight.grad.clone())
    assert (answers[0] - answers[1]).abs().max() < 2e-2 * answers[0].abs().max()
    assert (gradients[0] - gradients[1]).norm() < 5e-2 * gradients[0].norm()
