"""The processes of a run: their collectives, and what else differs between one process and several."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from safetensors.torch import load, save
from torch import Tensor, nn

from patchword.core.work_sharing import SINGLE, Answer, WorkSharing
from patchword.training.batch import Batch
from patchword.training.cancellation import Cancelled
from patchword.training.parallel.batch_norm import synchronize_batch_norms
from patchword.training.parallel.gradient_sync import LOCAL, AllReduce, GradientSync
from patchword.training.parallel.shared_batch import all_with_global_counts
from patchword.training.signals import stop_requested

Item = TypeVar("Item")


class SingleProcess:
    """A run of one process."""

    is_main, size = True, 1
    sharing: WorkSharing = SINGLE

    def any_rank(self, *flags: bool) -> tuple[bool, ...]:
        """Return per flag whether it is True on any process."""
        return flags

    def micro_batches(self, total: int) -> int:
        """Return the micro-batches of this process, each as large as one of `total` with one process."""
        return total

    def main_only(self, context: AbstractContextManager[None]) -> AbstractContextManager[None]:
        """Return a context that only the main process enters."""
        return context

    def local_decision(self, stop: Callable[[], bool]) -> Callable[[], bool]:
        """Return `stop` for one process, which may stop at any time; several only stop together, as in `map`."""
        return stop

    def batches(self, own: Iterator[Batch]) -> Iterator[Batch]:
        """Return this process's parts of the batches, with the counts of the whole batches."""
        return own

    def prepare(self, model: nn.Module) -> None:
        """Prepare the model for the group; must come before the optimizer is built."""

    def gradient_sync(self, model: nn.Module, weights: Sequence[Tensor]) -> GradientSync:
        """Return what sums the gradients of these weights over the processes."""
        return LOCAL

    def save(self, model: nn.Module, write: Callable[[], None]) -> None:
        """Call `write`, which saves the model, in the main process, with unsharded weights."""
        write()

    def seed(self, seed: int, mix: Callable[[int, int], int]) -> int:
        """Return the seed of a step (dropout): it differs between processes, since each has other samples."""
        return seed


SINGLE_PROCESS = SingleProcess()


class DataParallel(SingleProcess):
    """One of several processes. Gradients use the fast links; a few values per step the gloo group of the CPUs."""

    def __init__(self, rank: int, size: int, cpu_group: dist.ProcessGroup) -> None:
        self.rank, self.size, self.cpu_group = rank, size, cpu_group
        self.is_main, self.sharing = rank == 0, self

    def share(self, index: Tensor) -> Tensor:
        """Return the samples of this process: pairs of neighbours in turn.

        So texts of similar length are spread over all processes, images that are mixed with each other are on one
        process, and the order of the samples does not depend on the number of processes. A batch of fewer samples than
        processes is computed by all of them, and every sample has the same weight.
        """
        if len(index) < self.size:
            return index
        run = 2 if len(index) >= 2 * self.size else 1
        return index[torch.arange(len(index), device=index.device) // run % self.size == self.rank]

    def total(self, value: Tensor) -> Tensor:
        summed = value.detach().clone()
        dist.all_reduce(summed)
        return summed

    def map(self, ask: Callable[[Item], Answer], items: Sequence[Item]) -> list[Answer]:
        """Apply `ask` to the items, split over the processes; return all results on all processes.

        Every process makes the same number of calls, since a model with sharded weights communicates in each. Before
        each round all processes raise `Cancelled` if one of them was asked to stop.
        """
        results: dict[str, Tensor] = {}
        for round_ in range(-(-len(items) // self.size)):
            if any(self.any_rank(stop_requested())):
                raise Cancelled
            answer = ask(items[min(round_ * self.size + self.rank, len(items) - 1)])
            results |= {f"{round_}.{part}": tensor.cpu().contiguous() for part, tensor in enumerate(answer)}
        answers = [_answers(load(data)) for data in self._gather_bytes(save(results))]
        return [answers[index % self.size][index // self.size] for index in range(len(items))]

    def any_rank(self, *flags: bool) -> tuple[bool, ...]:
        reduced = torch.tensor(flags or (False,), dtype=torch.int32)
        dist.all_reduce(reduced, dist.ReduceOp.MAX, group=self.cpu_group)
        return tuple(map(bool, reduced.tolist()))[: len(flags)]

    def micro_batches(self, total: int) -> int:
        return -(-total // self.size)

    def main_only(self, context: AbstractContextManager[None]) -> AbstractContextManager[None]:
        return context if self.is_main else nullcontext()

    def local_decision(self, stop: Callable[[], bool]) -> Callable[[], bool]:
        return lambda: False

    def batches(self, own: Iterator[Batch]) -> Iterator[Batch]:
        return all_with_global_counts(own, self.gather)

    def prepare(self, model: nn.Module) -> None:
        """Copy the weights of the main process to all processes."""
        synchronize_batch_norms(model)
        for tensor in (*model.parameters(), *model.buffers()):
            dist.broadcast(tensor.data, 0)

    def gradient_sync(self, model: nn.Module, weights: Sequence[Tensor]) -> GradientSync:
        return AllReduce(weights)

    def save(self, model: nn.Module, write: Callable[[], None]) -> None:
        if self.is_main:
            write()

    def seed(self, seed: int, mix: Callable[[int, int], int]) -> int:
        return mix(seed, self.rank) if self.rank else seed

    def gather(self, own: Tensor) -> list[Tensor]:
        """All-gather a CPU tensor, of the same shape on every process."""
        found = [torch.empty_like(own) for _ in range(self.size)]
        dist.all_gather(found, own, group=self.cpu_group)
        return found

    def broadcast(self, tensors: Mapping[str, Tensor] | None, values: Any = None) -> tuple[dict[str, Tensor], Any]:
        """Send tensors and JSON values from the main process to all, one tensor at a time to save memory."""
        own = {name: (list(tensor.shape), _dtype_name(tensor)) for name, tensor in (tensors or {}).items()}
        sent = json.dumps([own, values]).encode() if self.is_main else b""
        header, values = json.loads(self._gather_bytes(sent)[0])
        found = {}
        for name, (shape, dtype) in header.items():
            tensor = tensors[name].contiguous() if self.is_main and tensors else _empty(shape, dtype)
            dist.broadcast(tensor, 0, group=self.cpu_group)
            found[name] = tensor
        return found, values

    def _gather_bytes(self, data: bytes) -> list[bytes]:
        """All-gather bytes, whose number may differ between processes."""
        lengths = [int(length) for length in self.gather(torch.tensor([len(data)]))]
        padded = torch.zeros(max(1, *lengths), dtype=torch.uint8)
        padded[: len(data)] = torch.frombuffer(bytearray(data), dtype=torch.uint8) if data else padded[:0]
        gathered = zip(self.gather(padded), lengths, strict=True)
        return [part[:length].numpy().tobytes() for part, length in gathered]


def _answers(results: Mapping[str, Tensor]) -> list[Answer]:
    """Return the answers in the order of the rounds; names are ROUND.PART."""
    found: dict[int, dict[int, Tensor]] = {}
    for name, tensor in results.items():
        round_, part = map(int, name.split("."))
        found.setdefault(round_, {})[part] = tensor
    return [tuple(parts[part] for part in sorted(parts)) for _, parts in sorted(found.items())]


def _dtype_name(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _empty(shape: Sequence[int], dtype: str) -> Tensor:
    return torch.empty(shape, dtype=getattr(torch, dtype))
