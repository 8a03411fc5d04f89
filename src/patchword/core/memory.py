"""How much of the main memory is free to this process."""

from pathlib import Path

ENOUGH = 1 << 62  # bytes, where the system does not tell


def free_memory(system: Path = Path("/")) -> int:
    """Bytes: what the machine has, and no more than the container or the job may still take.

    system: where the system tells of itself, at the root
    """
    return min(_machine(system), _group(system))


def _machine(system: Path) -> int:
    try:
        lines = (system / "proc/meminfo").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))
    except (OSError, ValueError, StopIteration):
        return ENOUGH


def _group(system: Path) -> int:
    """Of the control group of this process and those around it, whose limits hold for it as well (Docker, Slurm)."""
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
                found = min(found, _room(folder, limit, used))
    return found


def _room(folder: Path, limit: str, used: str) -> int:
    """What the files of the disk take of it is given back when it is needed."""
    try:
        most, taken = (folder / limit).read_text().strip(), int((folder / used).read_text())
        told = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
        kept = int(told.get("inactive_file") or told.get("total_inactive_file") or 0)
        return ENOUGH if most == "max" else max(0, int(most) - taken + kept)
    except (OSError, ValueError):
        return ENOUGH
