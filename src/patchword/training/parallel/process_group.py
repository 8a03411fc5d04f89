"""The processes of a run: what they tell each other, and the little that differs from one process."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from safetensors.torch import load, save
from torch import Tensor, nn

from patchword.core.work_sharing import SINGLE, Answer, WorkSharing
from patchword.training.cancellation import Abandoned
from patchword.training.parallel.batch_norm import together
from patchword.training.parallel.gradient_sync import LOCAL, AllReduce, GradientSync
from patchword.training.parallel.shared_batch import all_shared
from patchword.training.signals import stop_asked
from patchword.training.step import Batch

Item = TypeVar("Item")


class SingleProcess:
    """A run of one process."""

    is_main, size = True, 1
    deal: WorkSharing = SINGLE

    def agree(self, *asked: bool) -> tuple[bool, ...]:
        """What any process asks for, all do."""
        return asked

    def parts(self, accumulate: int) -> int:
        """Pieces that this process works on a batch in, so that a piece needs as much memory as with one process."""
        return accumulate

    def first(self, held: AbstractContextManager[None]) -> AbstractContextManager[None]:
        """What only the first process holds."""
        return held

    def alone(self, asked: Callable[[], bool]) -> Callable[[], bool]:
        """A question that a single process may act on; several go on until they agree, as they do in `map`."""
        return asked

    def batches(self, own: Iterator[Batch]) -> Iterator[Batch]:
        """This process's parts of batches, with what an objective must know of the whole ones."""
        return own

    def prepare(self, model: nn.Module) -> None:
        """Before the first step, and before an optimizer is made."""

    def exchange(self, model: nn.Module, weights: Sequence[Tensor]) -> GradientSync:
        return LOCAL

    def save(self, model: nn.Module, write: Callable[[], None]) -> None:
        """write: the model as it is now"""
        write()

    def seed(self, seed: int, mix: Callable[[int, int], int]) -> int:
        """Of this process's dropout in a step: another on every process, since each has other samples."""
        return seed


SINGLE_PROCESS = SingleProcess()


class DataParallel(SingleProcess):
    """One of several. Gradients go over the fast links; a few numbers a step through the main memory (`host`)."""

    def __init__(self, number: int, size: int, host: dist.ProcessGroup) -> None:
        self.number, self.size, self.host = number, size, host
        self.is_main, self.deal = number == 0, self

    def share(self, index: Tensor) -> Tensor:
        """Pairs of neighbours in turn, so that texts of like length are spread over all, pictures that are mixed with
        each other are at one place, and the order of the samples does not depend on the number of processes.

        A batch of fewer samples than processes is worked on by all: each then counts as often as all others.
        """
        if len(index) < self.size:
            return index
        together = 2 if len(index) >= 2 * self.size else 1
        return index[torch.arange(len(index), device=index.device) // together % self.size == self.number]

    def map(self, ask: Callable[[Item], Answer], items: Sequence[Item]) -> list[Answer]:
        """Every process asks as often as the others, since all meet inside of a model whose weights are dealt out.

        Before each round they agree whether one was asked to stop; all then leave it in the middle.
        """
        told: dict[str, Tensor] = {}
        for turn in range(-(-len(items) // self.size)):
            if any(self.agree(stop_asked())):
                raise Abandoned
            answer = ask(items[min(turn * self.size + self.number, len(items) - 1)])
            told |= {f"{turn}.{part}": tensor.cpu().contiguous() for part, tensor in enumerate(answer)}
        answers = [_answers(load(data)) for data in self._gather_bytes(save(told))]
        return [answers[number % self.size][number // self.size] for number in range(len(items))]

    def agree(self, *asked: bool) -> tuple[bool, ...]:
        flags = torch.tensor(asked or (False,), dtype=torch.int32)
        dist.all_reduce(flags, dist.ReduceOp.MAX, group=self.host)
        return tuple(map(bool, flags.tolist()))[: len(asked)]

    def parts(self, accumulate: int) -> int:
        return -(-accumulate // self.size)

    def first(self, held: AbstractContextManager[None]) -> AbstractContextManager[None]:
        return held if self.is_main else nullcontext()

    def alone(self, asked: Callable[[], bool]) -> Callable[[], bool]:
        return lambda: False

    def batches(self, own: Iterator[Batch]) -> Iterator[Batch]:
        return all_shared(own, self.gather)

    def prepare(self, model: nn.Module) -> None:
        """All begin with the weights of the first process."""
        together(model)
        for tensor in (*model.parameters(), *model.buffers()):
            dist.broadcast(tensor.data, 0)

    def exchange(self, model: nn.Module, weights: Sequence[Tensor]) -> GradientSync:
        return AllReduce(weights)

    def save(self, model: nn.Module, write: Callable[[], None]) -> None:
        if self.is_main:
            write()

    def seed(self, seed: int, mix: Callable[[int, int], int]) -> int:
        return mix(seed, self.number) if self.number else seed

    def gather(self, own: Tensor) -> list[Tensor]:
        found = [torch.empty_like(own) for _ in range(self.size)]
        dist.all_gather(found, own, group=self.host)
        return found

    def told(self, tensors: Mapping[str, Tensor] | None, words: Any = None) -> tuple[dict[str, Tensor], Any]:
        """What the first process gives, to all; one tensor after the other, so that no copy of all is made."""
        own = {name: (list(tensor.shape), _kind(tensor)) for name, tensor in (tensors or {}).items()}
        sent = json.dumps([own, words]).encode() if self.is_main else b""
        header, words = json.loads(self._gather_bytes(sent)[0])
        found = {}
        for name, (shape, kind) in header.items():
            whole = tensors[name].contiguous() if self.is_main and tensors else torch.empty(shape, dtype=_type(kind))
            dist.broadcast(whole, 0, group=self.host)
            found[name] = whole
        return found, words

    def _gather_bytes(self, data: bytes) -> list[bytes]:
        """Of each process some bytes, which need not be as many."""
        lengths = [int(length) for length in self.gather(torch.tensor([len(data)]))]
        padded = torch.zeros(max(1, *lengths), dtype=torch.uint8)
        padded[: len(data)] = torch.frombuffer(bytearray(data), dtype=torch.uint8) if data else padded[:0]
        gathered = zip(self.gather(padded), lengths, strict=True)
        return [part[:length].numpy().tobytes() for part, length in gathered]


def _answers(told: Mapping[str, Tensor]) -> list[Answer]:
    """By turn and part."""
    found: dict[int, dict[int, Tensor]] = {}
    for name, tensor in told.items():
        turn, part = map(int, name.split("."))
        found.setdefault(turn, {})[part] = tensor
    return [tuple(parts[part] for part in sorted(parts)) for _, parts in sorted(found.items())]


def _kind(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _type(kind: str) -> torch.dtype:
    found: torch.dtype = getattr(torch, kind)
    return found
