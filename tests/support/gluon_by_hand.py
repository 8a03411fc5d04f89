"""Simulates Gluon kernels on a CPU: each group of warps is a thread.

Operands of an asynchronous product or store must be unchanged in shared memory from its start until the wait for it;
otherwise the output is NaN. An asynchronous load arrives after a delay, and until then its destination is NaN. So the
simulation detects slots that are released or read too early, and groups that wait for each other forever. It does not
detect a missing barrier between the warps of one group, which are one thread here.
"""

import random
import threading
import time
from pathlib import Path
from types import FunctionType, SimpleNamespace

import torch

PATIENCE = 20.0  # seconds
PAUSE = 1e-4  # seconds before a product is finished, so that other threads can run first
LATE = 2e-3  # seconds until a load arrives, at most
_mine = threading.local()  # the products and stores that a group has started and not waited for


class StuckError(Exception):
    """A group waits for a barrier that never completes."""


class Barrier:
    def __init__(self):
        self.changed, self.phase = threading.Condition(), 0

    def init(self, count):
        self.count = self.left = count
        self.bytes = 0

    def arrive(self, arrivals=0, size=0):
        """size: bytes that are expected; negative if they have arrived"""
        with self.changed:
            self.left -= arrivals
            self.bytes += size
            assert self.left >= 0, "more arrivals than the barrier expects"
            if self.left == 0 and self.bytes == 0:
                self.phase, self.left = self.phase + 1, self.count
                self.changed.notify_all()

    def wait(self, phase):
        """Waits until the phase of this parity is over. Before the first phase, parity 1 counts as over."""
        with self.changed:
            if not self.changed.wait_for(lambda: self.phase % 2 != int(phase) % 2, PATIENCE):
                raise StuckError


class SharedTile:
    """A tile in shared memory."""

    def __init__(self, numbers):
        self.numbers = numbers
        self.shape, self.dtype = numbers.shape, numbers.dtype

    def index(self, which):
        return SharedTile(self.numbers[int(which)])

    def permute(self, order):
        return SharedTile(self.numbers.permute(order))

    def slice(self, first, length, axis):
        return SharedTile(self.numbers.narrow(axis, first, length))

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
    """A TMA descriptor: a matrix that is loaded and stored in tiles of (rows, columns)."""

    def __init__(self, matrix, rows, columns):
        self.matrix, self.dtype, self.layout = matrix, matrix.dtype, None
        self.block_type = SimpleNamespace(shape=[rows, columns])

    def slices(self, corner):
        """Returns the part of the matrix that a tile covers, and the part of the tile that is inside the matrix."""
        row, column = (int(each) for each in corner)
        inside = self.matrix[row:, column:][: self.block_type.shape[0], : self.block_type.shape[1]]
        return inside, tuple(slice(0, size) for size in inside.shape)


class Operand:
    """The contents of a tile when an operation started; NaN if they have changed when it ends."""

    def __init__(self, thing):
        self.thing = thing
        self.before = thing.numbers.clone() if isinstance(thing, SharedTile) else thing

    def now(self):
        if isinstance(self.thing, PendingProduct):
            return self.thing.numbers
        same = not isinstance(self.thing, SharedTile) or torch.equal(self.before, self.thing.numbers)
        return self.before if same else torch.full_like(self.before, torch.nan)


class PendingProduct:
    """An asynchronous product that was started."""

    def __init__(self, left, right, total):
        self.parts = [Operand(part) for part in (left, right, total)]

    def finish(self):
        left, right, total = (part.now() for part in self.parts)
        self.numbers = left.float() @ right.float()
        if total is not None:
            self.numbers = self.numbers + total


def _multiply(left, right, total, use_acc=True, is_async=False):
    assert is_async
    assert left.shape[1] == right.shape[0]
    pending = PendingProduct(left, right, total if use_acc else None)
    _mine.products.append(pending)
    return pending


def _wait_for_products(outstanding, deps):
    time.sleep(PAUSE)
    while len(_mine.products) > outstanding:
        _mine.products.pop(0).finish()
    found = tuple(each.numbers if hasattr(each, "numbers") else each for each in deps)  # or still pending
    return found if len(found) > 1 else found[0]


def _fetch(described, corner, ready, place):
    inside, where = described.slices(corner)
    place.numbers.fill_(torch.nan)

    def arrive():
        time.sleep(random.uniform(0.5, 1) * LATE)
        place.numbers.zero_()
        place.numbers[where].copy_(inside)
        ready.arrive(size=-2 * place.numbers.numel())  # the kernel is for 16-bit numbers

    threading.Thread(target=arrive, daemon=True).start()


def _send(described, corner, place):
    _mine.stores.append((described, corner, Operand(place)))


def _wait_for_stores(outstanding):
    while len(_mine.stores) > outstanding:
        described, corner, operand = _mine.stores.pop(0)
        inside, where = described.slices(corner)
        inside.copy_(operand.now()[where])


def _warp_specialize(tasks, warps, registers):
    assert len(tasks) == len(warps) + 1 == len(registers) + 1
    failed = []

    def act(function, given):
        _mine.products, _mine.stores = [], []
        try:
            function(*given)
            assert not _mine.products
            assert not _mine.stores
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


def _allocate_shared_memory(dtype, shape, layout):
    if dtype is torch.int64:
        bars = [Barrier() for _ in range(shape[0])]
        return SimpleNamespace(index=lambda which: bars[int(which)])
    return SharedTile(torch.full(shape, torch.nan, dtype=dtype))


def _range(*limits):
    return (torch.tensor(number) for number in range(*(int(limit) for limit in limits)))


def _nothing(*_, **__):
    return None


def _simulated_names(program, programs):
    """Returns the names of Gluon and Triton that kernels use, as functions of torch."""
    gl = SimpleNamespace(
        int32=torch.int32, int64=torch.int64, float32=torch.float32,
        sum=torch.sum, where=torch.where, rsqrt=torch.rsqrt, reshape=torch.reshape, permute=torch.permute,
        split=lambda x: x.unbind(-1),
        program_id=lambda axis: program, num_programs=lambda axis: programs, static_range=range,
        arange=lambda first, last, layout: torch.arange(first, last), convert_layout=lambda x, layout: x,
        zeros=lambda shape, dtype, layout: torch.zeros(shape, dtype=dtype),
        allocate_shared_memory=_allocate_shared_memory,
        load=lambda pointer, mask=True, other=0.0: pointer.load(mask, other), warp_specialize=_warp_specialize,
        cdiv=lambda one, other: -(-int(one) // other), SliceLayout=_nothing,
        DotOperandLayout=_nothing,
        NVMMADistributedLayout=lambda version, warps, shape: SimpleNamespace(instr_shape=shape),
    )  # fmt: skip
    bars = SimpleNamespace(
        init=lambda bar, count: bar.init(count), wait=lambda bar, phase: bar.wait(phase),
        arrive=lambda bar, count: bar.arrive(count), expect=lambda bar, size: bar.arrive(1, size),
        MBarrierLayout=_nothing,
    )  # fmt: skip
    tl = SimpleNamespace(abs=torch.abs, maximum=lambda x, other: x.clamp(min=other), exp2=torch.exp2)
    return {
        "gl": gl, "tl": tl, "mbarrier": bars, "tma": SimpleNamespace(store_wait=_wait_for_stores), "fetch": _fetch,
        "send": _send, "barrier": _nothing, "fence_async_shared": _nothing, "warpgroup_mma": _multiply,
        "warpgroup_mma_wait": lambda outstanding, deps: _wait_for_products(outstanding, deps), "range": _range,
    }  # fmt: skip


_NAMES = {}


def _simulated(function):
    """Returns the Python function of a kernel, with the simulated names as its globals."""

    def seen(name, thing):
        if name in _NAMES:
            return _NAMES[name]
        if type(thing).__name__ == "constexpr":
            return thing.value
        return _simulated(thing) if hasattr(thing, "fn") and hasattr(thing, "arg_names") else thing

    made = function.fn
    names = {**made.__globals__, "range": None}
    globals_ = {name: seen(name, thing) for name, thing in names.items() if name in made.__code__.co_names}
    return FunctionType(made.__code__, {**globals_, "__builtins__": __builtins__}, made.__name__)


def changed(kernel, old, new):
    """Returns the kernel with one piece of its source text replaced."""
    made = kernel.fn
    text = Path(made.__code__.co_filename).read_text()
    assert text.count(old) == 1, f"{text.count(old)} times: {old}"
    found = made.__globals__ | {"__name__": "changed"}
    exec(compile(text.replace(old, new), made.__code__.co_filename, "exec"), found)
    return found[made.__name__]


def act(kernel, programs, *given):
    """Runs the programs of the kernel one after the other. Tensors become pointers; descriptors are Described."""
    given = [Pointer(each) if isinstance(each, torch.Tensor) else each for each in given]
    for program in range(programs):
        _NAMES.clear()
        _NAMES.update(_simulated_names(program, programs))
        _simulated(kernel)(*given)


def is_seen(monkeypatch, run):
    """True if a slow run shows an error: NaN in the output, or a group that waits forever."""
    for name, seconds in (("PAUSE", 5e-3), ("LATE", 2e-2), ("PATIENCE", 2.0)):
        monkeypatch.setitem(globals(), name, seconds)
    try:
        return bool(run().isnan().any())
    except (StuckError, AssertionError, TypeError):  # TypeError: a pending product is added
        return True
