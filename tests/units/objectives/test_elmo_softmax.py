"""The softmax over all words in pieces: the same loss and gradients, and no larger tensors than it was allowed."""

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from patchword.objectives.bidirectional_lm import FullSoftmax


class Largest(TorchDispatchMode):
    """The most numbers that one operation made."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers = 0

    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        answer = function(*arguments, **(options or {}))
        made = [answer] if isinstance(answer, torch.Tensor) else answer if isinstance(answer, tuple | list) else []
        self.numbers = max([self.numbers, *(one.numel() for one in made if isinstance(one, torch.Tensor))])
        return answer


def learned(softmax: FullSoftmax) -> tuple[list[torch.Tensor], int, int]:
    """loss, right answers and gradients; the largest tensor that was made; how often places were scored"""
    torch.manual_seed(1)
    vectors, targets, words = torch.randn(50, 6).requires_grad_(), torch.randint(0, 20, (50,)), nn.Linear(6, 20)
    scored = []
    words.register_forward_hook(lambda *call: scored.append(call))
    with Largest() as largest:
        outcome = softmax(vectors, targets, words)
        gradients = torch.autograd.grad(outcome.loss, [vectors, *words.parameters()])
    return [outcome.loss.detach(), outcome.right, *gradients], largest.numbers, len(scored)


def test_the_softmax_in_pieces_is_the_whole_one():
    whole, *size = learned(FullSoftmax())
    assert size == [50 * 20, 1]
    pieces, *size = learned(FullSoftmax(scores=320))  # 16 places, the last piece has 2
    assert size == [320, 2 * 4]  # no score is kept: each piece is scored again for its gradient
    torch.testing.assert_close(pieces, whole)
    single, *size = learned(FullSoftmax(scores=1))
    assert size[1] == 2 * 50
    torch.testing.assert_close(single, whole)
