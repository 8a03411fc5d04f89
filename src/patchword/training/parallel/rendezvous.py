"""Connects the processes of a run, and leaves them, in bounded time."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Literal

import torch
import torch.distributed as dist
from torch.distributed.rendezvous import rendezvous

from patchword.core.errors import PeerLostError, UserError
from patchword.training.parallel.process_group import DataParallel, SingleProcess
from patchword.training.parallel.rank import LAUNCHER, Rank, rank_of
from patchword.training.parallel.sharded import Sharded

CONNECT_TIMEOUT = timedelta(seconds=120)  # until all processes are connected
COLLECTIVE_TIMEOUT = timedelta(minutes=30)  # for one process to wait for another: longer means that one hangs
LEAVE_SECONDS = 5.0  # to leave the group after an error
NOTE = "PATCHWORD_JOINED"  # a file descriptor, over which this process reports its progress to the launcher
STARTED, CONNECTED, SAVED = b"b", b"m", b"s"  # the reports; SAVED: a checkpoint


@contextmanager
def join_group(sharding: Literal["none", "full"] = "none", device: str = "auto") -> Iterator[SingleProcess]:
    """Connect this process to the others that the environment names, inside the `with` block; yield the group."""
    rank = rank_of()
    if rank is None:
        yield SingleProcess()
        return
    group = (Sharded if sharding == "full" else DataParallel)(rank.rank, rank.size, _connect(rank, device))
    try:
        yield group
    except BaseException as error:
        _leave(group)
        if not isinstance(error, RuntimeError) or not (isinstance(error, dist.DistError) or "gloo" in str(error)):
            raise
        raise PeerLostError(
            f"another of the {rank.size} processes of this run has ended; its own message gives the reason"
        ) from None
    _destroy(group)


def _destroy(group: DataParallel) -> None:
    """Leave the group and end its threads.

    They end with the last reference to the group of torch. One that still frees a tensor when the process ends would
    abort it.
    """
    del group.cpu_group
    dist.destroy_process_group()


def _leave(group: DataParallel) -> None:
    """Leave the group after an error, with a time limit, since other processes may wait in another collective."""

    def destroy() -> None:
        with suppress(Exception):  # the first error is the one to report
            _destroy(group)

    thread = threading.Thread(target=destroy, daemon=True)
    thread.start()
    thread.join(LEAVE_SECONDS)


def _connect(rank: Rank, device: str) -> dist.ProcessGroup:
    """Connect to the other processes; return their gloo group. If there are GPUs, each process uses one, with NCCL."""
    on_gpu = torch.cuda.is_available() and not device.startswith("cpu")
    if on_gpu:
        if rank.local >= torch.cuda.device_count():
            raise UserError(
                "more processes than GPUs on this machine", expected=torch.cuda.device_count(), got=rank.local + 1
            )
        torch.cuda.set_device(rank.local)
    report_to_launcher(STARTED)
    os.environ.setdefault("MASTER_PORT", "29500")
    for name, value in (("RANK", rank.rank), ("WORLD_SIZE", rank.size), ("LOCAL_RANK", rank.local)):
        os.environ[name] = str(value)
    try:
        store, index, size = next(rendezvous("env://", timeout=CONNECT_TIMEOUT))
        options = {"store": store, "rank": index, "world_size": size, "timeout": COLLECTIVE_TIMEOUT}
        dist.init_process_group("nccl" if on_gpu else "gloo", **options)
        cpu_group = dist.new_group(backend="gloo", timeout=COLLECTIVE_TIMEOUT) if on_gpu else dist.group.WORLD
        assert isinstance(cpu_group, dist.ProcessGroup), "this process is a member of the group"
    except (dist.DistStoreError, dist.DistNetworkError) as error:
        where = f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
        raise UserError(
            f"the {rank.size} processes did not find each other at {where}",
            got=str(error).splitlines()[0],
            hint="check that all of them were started, and that each can reach this address",
        ) from None
    report_to_launcher(CONNECTED)
    if alive := os.environ.get(LAUNCHER):
        threading.Thread(target=_stop_with_launcher, args=(int(alive),), daemon=True).start()
    return cpu_group


def report_to_launcher(progress: bytes) -> None:
    """Report the progress of this process, if a launcher started it."""
    if descriptor := os.environ.get(NOTE):
        os.write(int(descriptor), progress)


def _stop_with_launcher(alive: int) -> None:
    """Send SIGTERM to this process when the launcher has ended: then the pipe has no writer any more."""
    os.read(alive, 1)
    os.kill(os.getpid(), signal.SIGTERM)
