"""How the gradients of several processes become one."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
import torch.distributed as dist
from torch import Tensor

BUCKET = 25 * 2**20  # bytes that are sent together: large enough for a link's full speed, small enough to begin early


class GradientSync(Protocol):
    """What a step does with a loss. Between two calls of `finish` every process calls `backward` for its pieces."""

    def backward(self, loss: Tensor, start: Tensor, last: bool) -> None:
        """start: the gradient of the loss itself; last: no further piece of the batch follows"""
        ...

    def finish(self, *sums: Tensor) -> tuple[Tensor, ...]:
        """The weights then hold the gradient of the whole batch; also answers these sums over all processes."""
        ...


class Local:
    """One process, which has nobody to exchange with."""

    def backward(self, loss: Tensor, start: Tensor, last: bool) -> None:
        loss.backward(start)

    def finish(self, *sums: Tensor) -> tuple[Tensor, ...]:
        return sums


LOCAL = Local()


@dataclass
class Bucket:
    """Weights whose gradients travel together. waiting: those whose gradient is still to come in this step."""

    weights: list[Tensor]
    waiting: int = 0
    flat: Tensor | None = None
    work: Any = field(default=None, repr=False)

    def send(self) -> None:
        gradients = [torch.zeros_like(weight) if weight.grad is None else weight.grad for weight in self.weights]
        self.flat = torch.cat([gradient.flatten() for gradient in gradients])
        self.work = dist.all_reduce(self.flat, async_op=True)

    def receive(self) -> None:
        assert self.flat is not None, "a bucket is sent before it is received"
        self.work.wait()
        parts = self.flat.split([weight.numel() for weight in self.weights])
        for weight, part in zip(self.weights, parts, strict=True):
            weight.grad = part.view_as(weight)
        self.flat = self.work = None


class AllReduce:
    """Every process holds all weights (data parallel). Gradients are summed, since each process has computed its share
    of the batch's mean; pieces of a batch add up on each process and only the last one is sent, in buckets, while the
    backward pass goes on. All send the buckets in one order.

    Weights that no process has a gradient for in the first step are left alone, as one process would.
    """

    def __init__(self, weights: Sequence[Tensor], bucket: int = BUCKET) -> None:
        self.weights, self.size = list(weights), bucket
        self.buckets: list[Bucket] | None = None
        self.home: dict[Tensor, Bucket] = {}
        self.sending = False
        self.sent = 0
        for weight in self.weights:
            weight.register_post_accumulate_grad_hook(self._came)

    def backward(self, loss: Tensor, start: Tensor, last: bool) -> None:
        self.sending, self.sent = last and self.buckets is not None, 0
        for bucket in self.buckets or ():
            bucket.waiting = len(bucket.weights)
        loss.backward(start)

    def finish(self, *sums: Tensor) -> tuple[Tensor, ...]:
        if self.buckets is None:
            self.buckets = self._agreed()
            self.home = {weight: bucket for bucket in self.buckets for weight in bucket.weights}
        for bucket in self.buckets[self.sent :]:
            bucket.send()
        totals = torch.stack([value.float() for value in sums])
        dist.all_reduce(totals)
        for bucket in self.buckets:
            bucket.receive()
        self.sending, self.sent = False, 0
        return tuple(totals)

    def _came(self, weight: Tensor) -> None:
        if not self.sending or self.buckets is None:
            return
        if weight not in self.home:
            raise RuntimeError("a weight that had no gradient in the first step has one now: processes would part")
        self.home[weight].waiting -= 1
        while self.sent < len(self.buckets) and not self.buckets[self.sent].waiting:
            self.buckets[self.sent].send()
            self.sent += 1

    def _agreed(self) -> list[Bucket]:
        """The last weights first, in the order in which a backward pass comes to them."""
        flags = torch.tensor([weight.grad is not None for weight in self.weights], device=self.weights[0].device).int()
        dist.all_reduce(flags)
        found: list[Bucket] = []
        room = 0
        for weight in [weight for weight, count in zip(self.weights, flags.tolist(), strict=True) if count][::-1]:
            needed = weight.numel() * weight.element_size()
            if not found or needed > room or weight.dtype != found[-1].weights[0].dtype:
                found.append(Bucket([]))
                room = self.size
            found[-1].weights.append(weight)
            room -= needed
        return found
