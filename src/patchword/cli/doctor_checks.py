"""The checks of `doctor`, each independent of the others."""

import importlib
import importlib.metadata
import os
import platform
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

_OPTIONAL = {
    "tensorboard": ("training curves in TensorBoard", "pip install 'patchword[log]'"),
    "mlflow": ("recording runs with MLflow", "pip install 'patchword[mlflow]'"),
    "wandb": ("recording runs with Weights & Biases", "pip install 'patchword[wandb]'"),
    "sklearn": ("the digits data set, which needs no download", "pip install 'patchword[digits]'"),
    "huggingface_hub": ("pretrained models by name", "pip install 'patchword[hub]'"),
    "onnxruntime": ("export to ONNX", "pip install 'patchword[onnx]'"),
    "transformers": ("used by the tests only", ""),
}


@dataclass(frozen=True)
class Check:
    name: str
    state: Literal["good", "absent", "broken"]
    found: str
    fix: str = ""


def examine() -> Iterator[Check]:
    """Run all checks, one after the other."""
    yield Check("python", "good", f"{platform.python_version()} on {platform.machine()} {platform.system()}")
    yield _torch()
    yield _accelerator()
    yield _processor()
    yield _torchvision()
    for module, (purpose, fix) in _OPTIONAL.items():
        yield _optional(module, purpose, fix)
    yield from _data()
    yield _disk()


def _torch() -> Check:
    try:
        import torch

        torch.ones(2) @ torch.ones(2)
    except Exception as error:
        return Check("torch", "broken", _first_line(error), "pip install --force-reinstall 'torch>=2.11'")
    version = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])
    if version < (2, 11):
        return Check("torch", "broken", f"{torch.__version__} is too old", "pip install --upgrade 'torch>=2.11'")
    return Check("torch", "good", torch.__version__)


def _accelerator() -> Check:
    import torch

    if not torch.accelerator.is_available():
        return Check("accelerator", "absent", "none; everything runs on the CPU")
    device = torch.accelerator.current_accelerator()
    count = torch.accelerator.device_count()
    name = torch.cuda.get_device_name() if device and device.type == "cuda" else str(device)
    try:
        torch.ones(8, 8, device=device).sum().item()
    except Exception as error:
        return Check("accelerator", "broken", f"{name}: {_first_line(error)}", "check the driver against torch's build")
    return Check("accelerator", "good", f"{count} x {name}")


def _processor() -> Check:
    import torch

    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return Check("processor", "good", f"{cores} cores, {torch.get_num_threads()} threads used, {memory:.0f} GiB memory")


def _torchvision() -> Check:
    """A torchvision built for another torch breaks many libraries at import; patchword does not use it."""
    try:
        version = importlib.metadata.version("torchvision")
    except importlib.metadata.PackageNotFoundError:
        return Check("torchvision", "absent", "not needed")
    try:
        importlib.import_module("torchvision")
    except Exception as error:
        found = f"{version} is installed and cannot be imported: {_first_line(error)}"
        return Check("torchvision", "broken", found, "pip uninstall torchvision   (patchword does not need it)")
    return Check("torchvision", "good", f"{version}, not needed")


def _optional(module: str, purpose: str, fix: str) -> Check:
    try:
        found = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name == module:
            return Check(module, "absent", f"for {purpose}", fix)
        return Check(module, "broken", _first_line(error), f"pip install --force-reinstall {module}")
    except Exception as error:
        return Check(module, "broken", _first_line(error), f"pip install --force-reinstall {module}")
    return Check(module, "good", f"{getattr(found, '__version__', '')}: {purpose}")


def _data() -> Iterator[Check]:
    from patchword.core.errors import UserError
    from patchword.data.image.image_format import ImageFormat
    from patchword.data.image.named_datasets import DATASETS, find_dataset, open_source

    for name in DATASETS:
        found = find_dataset(name)
        if found is None:
            yield Check(name, "absent", "", f"patchword data get {name}")
            continue
        try:
            source = open_source(name)
            source.check(ImageFormat(28, 1))
            count = len(source.read("train", ImageFormat(28, 1)))
            yield Check(name, "good", f"{count:,} training images, {found[1]}")
        except UserError as error:
            yield Check(name, "broken", _first_line(error), f"remove {found[0]}, then: patchword data get {name}")


def _disk() -> Check:
    free = shutil.disk_usage(Path.cwd()).free / 2**30
    if not os.access(Path.cwd(), os.W_OK):
        return Check("this folder", "broken", "cannot be written to", "cd to a folder of your own")
    state: Literal["good", "broken"] = "good" if free > 1 else "broken"
    return Check("disk", state, f"{free:.0f} GiB free here", "" if free > 1 else "free some space: runs need it")


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
