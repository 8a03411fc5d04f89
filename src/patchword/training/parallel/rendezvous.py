"""Finding the other processes of a run, in bounded time."""

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

MEETING = timedelta(seconds=120)  # that all have to come together
WAITING = timedelta(minutes=30)  # that one waits for another in a step: longer means that something hangs
PARTING = 5.0  # seconds after an error
NOTE = "PATCHWORD_JOINED"  # a file descriptor, by which the launcher hears how far this process is
BEGUN, MET, SAVED = b"b", b"m", b"s"  # looks for the others, has found them, has saved a checkpoint


@contextmanager
def joined(sharding: Literal["none", "full"] = "none", device: str = "auto") -> Iterator[SingleProcess]:
    """The group that the environment tells of; one process where it tells of none."""
    place = rank_of()
    if place is None:
        yield SingleProcess()
        return
    host = _meet(place, device)
    kind = Sharded if sharding == "full" else DataParallel
    try:
        yield kind(place.number, place.size, host)
    except BaseException as error:
        _part()
        if not isinstance(error, RuntimeError) or not (isinstance(error, dist.DistError) or "gloo" in str(error)):
            raise
        raise PeerLostError(f"another of the {place.size} processes of this run has ended") from None
    dist.destroy_process_group()


def _part() -> None:
    """After an error the others may wait for something else, and this one for them: not for long. Threads that are
    still there when a process ends would end it as if it had crashed."""

    def leave() -> None:
        with suppress(Exception):  # one error is enough
            dist.destroy_process_group()

    parting = threading.Thread(target=leave, daemon=True)
    parting.start()
    parting.join(PARTING)


def _meet(place: Rank, device: str) -> dist.ProcessGroup:
    """Where there are GPUs each process takes one, and gradients go through NCCL."""
    accelerated = torch.cuda.is_available() and not device.startswith("cpu")
    if accelerated:
        if place.local >= torch.cuda.device_count():
            raise UserError(
                "more processes than GPUs on this machine", expected=torch.cuda.device_count(), got=place.local + 1
            )
        torch.cuda.set_device(place.local)
    tell_launcher(BEGUN)
    os.environ.setdefault("MASTER_PORT", "29500")
    for name, value in (("RANK", place.number), ("WORLD_SIZE", place.size), ("LOCAL_RANK", place.local)):
        os.environ[name] = str(value)
    try:
        store, number, size = next(rendezvous("env://", timeout=MEETING))
        options = {"store": store, "rank": number, "world_size": size, "timeout": WAITING}
        dist.init_process_group("nccl" if accelerated else "gloo", **options)
        host = dist.new_group(backend="gloo", timeout=WAITING) if accelerated else dist.group.WORLD
        assert isinstance(host, dist.ProcessGroup), "this process is one of them"
    except (dist.DistStoreError, dist.DistNetworkError) as error:
        where = f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
        raise UserError(
            f"the {place.size} processes did not find each other at {where}", got=str(error).splitlines()[0]
        ) from None
    tell_launcher(MET)
    if alive := os.environ.get(LAUNCHER):
        threading.Thread(target=_end_with, args=(int(alive),), daemon=True).start()
    return host


def tell_launcher(word: bytes) -> None:
    """How far this process is, if there is a launcher that listens."""
    if told := os.environ.get(NOTE):
        os.write(int(told), word)


def _end_with(alive: int) -> None:
    """Asks this process to stop when the launcher is gone, of which this pipe is left without a writer."""
    os.read(alive, 1)
    os.kill(os.getpid(), signal.SIGTERM)
