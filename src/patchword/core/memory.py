"""Free main memory for this process, and errors where it is not enough."""

from pathlib import Path

ENOUGH = 1 << 62  # bytes, if the system does not report a limit


def free_memory(system: Path = Path("/")) -> int:
    """Return the free bytes of the machine, but not more than the limit of the container or job leaves.

    system: the root of the file system in which /proc and /sys are read
    """
    return min(_machine(system), _group(system))


def is_out_of_memory(error: BaseException) -> bool:
    """Return True for an out-of-memory error.

    torch has an exception type for it, but the CPU allocator and some NVIDIA libraries only have a message.
    """
    messages = ("not enough memory", "can't allocate memory", "ALLOC_FAILED")
    is_one = isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"
    return is_one or (isinstance(error, RuntimeError) and any(part in str(error) for part in messages))


def _machine(system: Path) -> int:
    try:
        lines = (system / "proc/meminfo").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))
    except (OSError, ValueError, StopIteration):
        return ENOUGH


def _group(system: Path) -> int:
    """Return the free bytes under the limits of this process's control group and its parents (Docker, Slurm)."""
    try:
        lines = (system / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return ENOUGH
    found = ENOUGH
    for number, kinds, path in (line.split(":", 2) for line in lines if line.count(":") >= 2):
        if number == "0" and not kinds:
            root, limit, used = system / "sys/fs/cgroup", "memory.max", "memory.current"
        elif "memory" in kinds.split(","):
            root, limit, used = system / "sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes"
        else:
            continue
        own = root / path.strip("/")
        for folder in (own, *own.parents):
            if folder.is_relative_to(root):
                found = min(found, _free_in(folder, limit, used))
    return found


def _free_in(folder: Path, limit: str, used: str) -> int:
    """Return limit - usage. Memory of the page cache counts as free, because the kernel releases it on demand."""
    try:
        most, taken = (folder / limit).read_text().strip(), int((folder / used).read_text())
        statistics = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
        kept = int(statistics.get("inactive_file") or statistics.get("total_inactive_file") or 0)
        return ENOUGH if most == "max" else max(0, int(most) - taken + kept)
    except (OSError, ValueError):
        return ENOUGH
