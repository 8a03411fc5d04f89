"""Set before torch, transformers and triton are imported: threads, no network, no progress, kernels interpreted."""

import gc
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

# Workers that each take all cores wait for each other's threads: small steps then take ten times as long.
if workers := int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", 0)):
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // workers)))

import pytest
import torch

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"
os.environ["TRANSFORMERS_VERBOSITY"] = "error"
if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")  # read when triton is imported, whoever does so first
torch.backends.cudnn.allow_tf32 = False  # a GPU would shorten the numbers of convolutions to 10 bits

# Files of tests lie in memory where there is room: a disk waits when a file is written again or renamed over another.
MEMORY = Path("/dev/shm")
if MEMORY.is_dir() and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > 2 * 2**30:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))  # read by pytest; --basetemp takes precedence

# Tests start many Python processes: without bytecode files each of them compiles the package again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


def pytest_configure(config: pytest.Config) -> None:
    """Most runs of tests are written by hand, without a seal; the tests of seals expect the warning themselves."""
    from support.speed.quick_calls import flush_without_waiting, keep_parsers, seed_without_devices

    config.addinivalue_line("filterwarnings", "ignore::patchword.core.errors.UnsealedWarning")
    seed_without_devices()
    flush_without_waiting()
    keep_parsers()


# The files that take longest. They run first, so that at the end no worker waits for one of them.
LONG = (
    "test_every_model.py",
    "test_notebooks.py",
    "test_lab_shell.py",
    "test_runs_page.py",
    "test_lessons_page.py",
    "test_launch.py",
    "test_export.py",
    "test_every_text_model.py",
    "test_cli.py",
    "test_image_configs.py",
    "test_patches_page.py",
    "test_text_walk.py",
    "test_depthwise_conv.py",
    "test_every_detector.py",
    "test_int8.py",
    "test_frozen_vectors.py",
    "test_parallel.py",
    "test_export_pairs.py",
    "test_serving_drain.py",
    "test_power_cut.py",
    "test_export_texts.py",
    "test_text_task.py",
    "test_scene_systems.py",
    "test_distilled_study.py",
    "test_loss_spike.py",
    "test_disk_full.py",
    "test_window_attention.py",
    "test_translation.py",
    "test_attention_pattern.py",
    "test_compression.py",
    "test_hostile_files.py",
    "test_hub.py",
    "test_compile.py",
    "test_python_page.py",
    "test_first_steps.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort the tests by file, the longest files first; the order inside a file stays."""
    places = {name: place for place, name in enumerate(LONG)}
    items.sort(key=lambda item: places.get(item.path.name, len(LONG)))


def pytest_collection_finish() -> None:
    """Modules and tests stay until the end, so the garbage collector need not visit their million objects again, and
    it need not run at every 700 new objects either: both take a seventh of the suite's time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(200_000, 20, 100)


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


@pytest.fixture(autouse=True, scope="module")
def _fresh_compiler() -> None:
    """Code that one file compiled with several shapes is compiled by the next for any shape, which takes minutes."""
    if "torch._dynamo" in sys.modules:
        torch.compiler.reset()


@pytest.fixture
def quick_meta() -> Iterator[None]:
    """For tests that count operations of many models on the meta device."""
    from patchword.analysis.cost.quick_meta import QuickMeta
    from support.speed.quick_initialization import quick_initialization

    with quick_initialization(), QuickMeta():
        yield
