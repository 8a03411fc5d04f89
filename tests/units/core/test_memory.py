"""Free memory, as a made-up system tells it."""

import pytest

from patchword.core.memory import ENOUGH, free_memory

GIB = 2**30


@pytest.fixture
def system(tmp_path):
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/meminfo").write_text("MemTotal: 99 kB\nMemAvailable: 4194304 kB\n")  # 4 GiB
    return tmp_path


def grouped(folder, most: str, used: int, limit: str, current: str, inactive: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / limit).write_text(f"{most}\n")
    (folder / current).write_text(f"{used}\n")
    (folder / "memory.stat").write_text(f"anon 5\n{inactive} {GIB}\n")


V2 = ("memory.max", "memory.current", "inactive_file")
V1 = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")


def test_the_machine_alone(system):
    assert free_memory(system) == 4 * GIB


def test_a_container_may_have_less(system):
    (system / "proc/self/cgroup").write_text("0::/jobs/mine\n")
    grouped(system / "sys/fs/cgroup/jobs/mine", "max", 9 * GIB, *V2)
    assert free_memory(system) == 4 * GIB
    grouped(system / "sys/fs/cgroup/jobs", str(3 * GIB), 2 * GIB, *V2)  # around it
    assert free_memory(system) == 2 * GIB  # one that is free, and one that files of the disk take
    grouped(system / "sys/fs/cgroup/jobs/mine", str(2 * GIB), 3 * GIB, *V2)
    assert free_memory(system) == 0


def test_the_older_kind_of_groups(system):
    (system / "proc/self/cgroup").write_text("7:cpu,cpuacct:/x\n3:memory:/job\n0::/\n")
    grouped(system / "sys/fs/cgroup/memory/job", str(2 * GIB), 2 * GIB, *V1)
    assert free_memory(system) == GIB


def test_a_system_that_tells_nothing(tmp_path):
    assert free_memory(tmp_path) == ENOUGH
