"""Kernels of Gluon, acted out on a CPU: each group of warps is a thread.

What is multiplied or sent must lie in shared memory when that is begun, and still when it is waited for, or else there
are no numbers in the answer; what is fetched arrives after a while, and until then its place holds none. So a place
that is left too early, or read too early, is seen, and groups that wait for each other forever are told. A barrier that
is missing between the warps of one group is not: they are one thread here.
"""

import random
import threading
import time
from pathlib import Path
from types import FunctionType, SimpleNamespace

import torch

PATIENCE = 20.0  # seconds
PAUSE = 1e-4  # before something is finished, so that others come first who may
LATE = 2e-3  # until what is fetched arrives, at most
_mine = threading.local()  # what a group has begun and not waited for


class StuckError(Exception):
    """somebody waits for what never comes"""


class Barrier:
    def __init__(self):
        self.changed, self.phase = threading.Condition(), 0

    def init(self, count):
        self.count = self.left = count
        self.bytes = 0

    def came(self, arrivals=0, size=0):
        """size: bytes that are awaited, or less than 0: have come"""
        with self.changed:
            self.left -= arrivals
            self.bytes += size
            assert self.left >= 0, "more have arrived than there are"
            if self.left == 0 and self.bytes == 0:
                self.phase, self.left = self.phase + 1, self.count
                self.changed.notify_all()

    def wait(self, phase):
        """until the phase of that parity is over, which at first holds for 1"""
        with self.changed:
            if not self.changed.wait_for(lambda: self.phase % 2 != int(phase) % 2, PATIENCE):
                raise StuckError


class Place:
    """in shared memory"""

    def __init__(self, numbers):
        self.numbers = numbers
        self.shape, self.dtype = numbers.shape, numbers.dtype

    def index(self, which):
        return Place(self.numbers[int(which)])

    def permute(self, order):
        return Place(self.numbers.permute(order))

    def slice(self, first, length, axis):
        return Place(self.numbers.narrow(axis, first, length))

    def load(self, layout):
        return self.numbers.clone()

    def store(self, numbers):
        assert numbers.dtype == self.dtype
        self.numbers.copy_(numbers)


class Pointer:
    def __init__(self, numbers, places=0):
        self.numbers, self.places = numbers, places

    def __add__(self, further):
        return Pointer(self.numbers, self.places + further)

    def load(self, mask=True, other=0.0):
        places, mask = torch.broadcast_tensors(torch.as_tensor(self.places), torch.as_tensor(mask))
        assert not mask.any() or 0 <= int(places[mask].min()) <= int(places[mask].max()) < self.numbers.numel()
        found = self.numbers.flatten()[places.clamp(0, self.numbers.numel() - 1)]
        return torch.where(mask, found, torch.tensor(other, dtype=found.dtype))


class Described:
    """a matrix that is fetched and sent in pieces of (rows, columns)"""

    def __init__(self, matrix, rows, columns):
        self.matrix, self.dtype, self.layout = matrix, matrix.dtype, None
        self.block_type = SimpleNamespace(shape=[rows, columns])

    def slices(self, corner):
        """where a piece lies, and how much of it lies within"""
        row, column = (int(each) for each in corner)
        inside = self.matrix[row:, column:][: self.block_type.shape[0], : self.block_type.shape[1]]
        return inside, tuple(slice(0, size) for size in inside.shape)


class Seen:
    """What lay in a place when something was begun; no numbers, if it has changed when that ends."""

    def __init__(self, thing):
        self.thing = thing
        self.before = thing.numbers.clone() if isinstance(thing, Place) else thing

    def now(self):
        if isinstance(self.thing, Coming):
            return self.thing.numbers
        same = not isinstance(self.thing, Place) or torch.equal(self.before, self.thing.numbers)
        return self.before if same else torch.full_like(self.before, torch.nan)


class Coming:
    """a product that was begun"""

    def __init__(self, left, right, total):
        self.parts = [Seen(part) for part in (left, right, total)]

    def finish(self):
        left, right, total = (part.now() for part in self.parts)
        self.numbers = left.float() @ right.float()
        if total is not None:
            self.numbers = self.numbers + total


def _multiply(left, right, total, use_acc=True, is_async=False):
    assert is_async
    assert left.shape[1] == right.shape[0]
    begun = Coming(left, right, total if use_acc else None)
    _mine.products.append(begun)
    return begun


def _products_left(outstanding, deps):
    time.sleep(PAUSE)
    while len(_mine.products) > outstanding:
        _mine.products.pop(0).finish()
    found = tuple(each.numbers if hasattr(each, "numbers") else each for each in deps)  # or it is still coming
    return found if len(found) > 1 else found[0]


def _fetch(described, corner, ready, place):
    inside, where = described.slices(corner)
    place.numbers.fill_(torch.nan)

    def arrive():
        time.sleep(random.uniform(0.5, 1) * LATE)
        place.numbers.zero_()
        place.numbers[where].copy_(inside)
        ready.came(size=-2 * place.numbers.numel())  # the kernel is for numbers of 16 bits

    threading.Thread(target=arrive, daemon=True).start()


def _send(described, corner, place):
    _mine.sent.append((described, corner, Seen(place)))


def _sent_left(outstanding):
    while len(_mine.sent) > outstanding:
        described, corner, seen = _mine.sent.pop(0)
        inside, where = described.slices(corner)
        inside.copy_(seen.now()[where])


def _at_once(tasks, warps, registers):
    assert len(tasks) == len(warps) + 1 == len(registers) + 1
    failed = []

    def act(function, given):
        _mine.products, _mine.sent = [], []
        try:
            function(*given)
            assert not _mine.products
            assert not _mine.sent
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=act, args=task, daemon=True) for task in tasks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(2 * PATIENCE)
    if failed:
        raise failed[0]
    assert not any(thread.is_alive() for thread in threads)


def _shared(kind, shape, layout):
    if kind is torch.int64:
        bars = [Barrier() for _ in range(shape[0])]
        return SimpleNamespace(index=lambda which: bars[int(which)])
    return Place(torch.full(shape, torch.nan, dtype=kind))


def _counted(*limits):
    return (torch.tensor(number) for number in range(*(int(limit) for limit in limits)))


def _nothing(*_, **__):
    return None


def _world(program, programs):
    gl = SimpleNamespace(
        int32=torch.int32, int64=torch.int64, float32=torch.float32,
        sum=torch.sum, where=torch.where, rsqrt=torch.rsqrt, reshape=torch.reshape, permute=torch.permute,
        split=lambda x: x.unbind(-1),
        program_id=lambda axis: program, num_programs=lambda axis: programs, static_range=range,
        arange=lambda first, last, layout: torch.arange(first, last), convert_layout=lambda x, layout: x,
        zeros=lambda shape, kind, layout: torch.zeros(shape, dtype=kind), allocate_shared_memory=_shared,
        load=lambda pointer, mask=True, other=0.0: pointer.load(mask, other), warp_specialize=_at_once,
        cdiv=lambda one, other: -(-int(one) // other), SliceLayout=_nothing,
        DotOperandLayout=_nothing,
        NVMMADistributedLayout=lambda version, warps, shape: SimpleNamespace(instr_shape=shape),
    )  # fmt: skip
    bars = SimpleNamespace(
        init=lambda bar, count: bar.init(count), wait=lambda bar, phase: bar.wait(phase),
        arrive=lambda bar, count: bar.came(count), expect=lambda bar, size: bar.came(1, size), MBarrierLayout=_nothing,
    )  # fmt: skip
    tl = SimpleNamespace(abs=torch.abs, maximum=lambda x, other: x.clamp(min=other), exp2=torch.exp2)
    return {
        "gl": gl, "tl": tl, "mbarrier": bars, "tma": SimpleNamespace(store_wait=_sent_left), "fetch": _fetch,
        "send": _send, "barrier": _nothing, "fence_async_shared": _nothing, "warpgroup_mma": _multiply,
        "warpgroup_mma_wait": lambda outstanding, deps: _products_left(outstanding, deps), "range": _counted,
    }  # fmt: skip


_WORLD = {}


def _acted(function):
    """The function a kernel was made of, among the things of a world that is acted out."""

    def seen(name, thing):
        if name in _WORLD:
            return _WORLD[name]
        if type(thing).__name__ == "constexpr":
            return thing.value
        return _acted(thing) if hasattr(thing, "fn") and hasattr(thing, "arg_names") else thing

    made = function.fn
    names = {**made.__globals__, "range": None}
    globals_ = {name: seen(name, thing) for name, thing in names.items() if name in made.__code__.co_names}
    return FunctionType(made.__code__, {**globals_, "__builtins__": __builtins__}, made.__name__)


def changed(kernel, old, new):
    """The kernel of a file in which one thing is written otherwise."""
    made = kernel.fn
    text = Path(made.__code__.co_filename).read_text()
    assert text.count(old) == 1, f"{text.count(old)} times: {old}"
    found = made.__globals__ | {"__name__": "changed"}
    exec(compile(text.replace(old, new), made.__code__.co_filename, "exec"), found)
    return found[made.__name__]


def act(kernel, programs, *given):
    """One program of the kernel behind the other. Tensors are given as pointers, or as Described."""
    given = [Pointer(each) if isinstance(each, torch.Tensor) else each for each in given]
    for program in range(programs):
        _WORLD.clear()
        _WORLD.update(_world(program, programs))
        _acted(kernel)(*given)


def is_seen(monkeypatch, run):
    """Whether something wrong is seen, if all take their time: an answer without numbers, or somebody stuck."""
    for name, seconds in (("PAUSE", 5e-3), ("LATE", 2e-2), ("PATIENCE", 2.0)):
        monkeypatch.setitem(globals(), name, seconds)
    try:
        return bool(run().isnan().any())
    except (StuckError, AssertionError, TypeError):  # of the last kind, if what is not there is added
        return True
