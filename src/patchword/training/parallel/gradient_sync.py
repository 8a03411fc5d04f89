"""Sums the gradients of several processes."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
import torch.distributed as dist
from torch import Tensor

BUCKET = 25 * 2**20  # bytes per all-reduce: large enough for full bandwidth, small enough to start early


class GradientSync(Protocol):
    """Runs the backward passes of a step. Each process calls `backward` per micro-batch, then `finish` once."""

    def backward(self, loss: Tensor, start: Tensor, last: bool) -> None:
        """Run the backward pass of a micro-batch.

        start: the gradient of the loss itself. last: True for the last micro-batch of a batch.
        """
        ...

    def finish(self, *sums: Tensor) -> tuple[Tensor, ...]:
        """Complete `.grad` to the gradient of the whole batch; return `sums` summed over all processes."""
        ...


class Local:
    """One process: nothing to synchronize."""

    def backward(self, loss: Tensor, start: Tensor, last: bool) -> None:
        loss.backward(start)

    def finish(self, *sums: Tensor) -> tuple[Tensor, ...]:
        return sums


LOCAL = Local()


@dataclass
class Bucket:
    """Weights whose gradients are summed by one all-reduce. waiting: how many gradients are not computed yet."""

    weights: list[Tensor]
    waiting: int = 0
    flat: Tensor | None = None
    work: Any = field(default=None, repr=False)

    def send(self) -> None:
        gradients = [torch.zeros_like(weight) if weight.grad is None else weight.grad for weight in self.weights]
        self.flat = torch.cat([gradient.flatten() for gradient in gradients])
        self.work = dist.all_reduce(self.flat, async_op=True)

    def receive(self) -> None:
        assert self.flat is not None, "send() must come before receive()"
        self.work.wait()
        parts = self.flat.split([weight.numel() for weight in self.weights])
        for weight, part in zip(self.weights, parts, strict=True):
            weight.grad = part.view_as(weight)
        self.flat = self.work = None


class AllReduce:
    """Data parallel: every process holds all weights.

    Gradients are summed, not averaged, since the losses of the processes add up to the mean loss of the batch.
    Micro-batches accumulate on each process; during the last one the gradients are sent in buckets while the backward
    pass runs. All processes send the buckets in the same order.

    Weights without a gradient on any process in the first step are excluded, as with one process.
    """

    def __init__(self, weights: Sequence[Tensor], bucket: int = BUCKET) -> None:
        self.weights, self.size = list(weights), bucket
        self.buckets: list[Bucket] | None = None
        self.bucket_of: dict[Tensor, Bucket] = {}
        self.sending = False
        self.sent = 0
        for weight in self.weights:
            weight.register_post_accumulate_grad_hook(self._on_gradient)

    def backward(self, loss: Tensor, start: Tensor, last: bool) -> None:
        self.sending, self.sent = last and self.buckets is not None, 0
        for bucket in self.buckets or ():
            bucket.waiting = len(bucket.weights)
        loss.backward(start)

    def finish(self, *sums: Tensor) -> tuple[Tensor, ...]:
        if self.buckets is None:
            self.buckets = self._make_buckets()
            self.bucket_of = {weight: bucket for bucket in self.buckets for weight in bucket.weights}
        for bucket in self.buckets[self.sent :]:
            bucket.send()
        totals = torch.stack([value.float() for value in sums])
        dist.all_reduce(totals)
        for bucket in self.buckets:
            bucket.receive()
        self.sending, self.sent = False, 0
        return tuple(totals)

    def _on_gradient(self, weight: Tensor) -> None:
        if not self.sending or self.buckets is None:
            return
        if weight not in self.bucket_of:
            raise RuntimeError(
                "a weight without a gradient in the first step has one now; it is in no bucket to synchronize"
            )
        self.bucket_of[weight].waiting -= 1
        while self.sent < len(self.buckets) and not self.buckets[self.sent].waiting:
            self.buckets[self.sent].send()
            self.sent += 1

    def _make_buckets(self) -> list[Bucket]:
        """Return buckets of the weights in reverse order, which is that of the backward pass."""
        flags = torch.tensor([weight.grad is not None for weight in self.weights], device=self.weights[0].device).int()
        dist.all_reduce(flags)
        found: list[Bucket] = []
        space_left = 0
        for weight in [weight for weight, count in zip(self.weights, flags.tolist(), strict=True) if count][::-1]:
            needed = weight.numel() * weight.element_size()
            if not found or needed > space_left or weight.dtype != found[-1].weights[0].dtype:
                found.append(Bucket([]))
                space_left = self.size
            found[-1].weights.append(weight)
            space_left -= needed
        return found


def full(tensor: Tensor) -> Tensor:
    """Gather a sharded tensor. A collective: all processes must call it."""
    gathered: Tensor = tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor  # a DTensor has it
    return gathered
