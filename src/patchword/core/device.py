"""The device and the precision of a run, copies of tensors to a device, and models without values."""

import os
import platform
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from patchword import __version__
from patchword.core.errors import UserError

NORMAL = (nn.init.normal_, Tensor.normal_)


def pick_device(name: str) -> torch.device:
    """Return the device with this name; "auto" selects the accelerator if there is one, else the CPU."""
    if name == "auto":
        accelerator = torch.accelerator.current_accelerator(check_available=True)
        return accelerator or torch.device("cpu")
    try:
        device = torch.device(name)
        torch.ones(1, device=device).item()
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise UserError(f"cannot use device {name!r}", got=str(error).splitlines()[0], hint="device=auto") from None
    return device


def pick_precision(
    asked: Literal["auto", "float32", "bfloat16"], device: torch.device
) -> Literal["float32", "bfloat16"]:
    """Resolve "auto": bfloat16 on a GPU that supports it, float32 elsewhere."""
    if asked != "auto":
        return asked
    return "bfloat16" if device.type == "cuda" and torch.cuda.is_bf16_supported() else "float32"


def to_device(tensor: Tensor, device: torch.device | str) -> Tensor:
    """Copy a tensor to a device. CPU tensors are pinned so that the copy to a GPU is asynchronous.

    A copy back to the CPU is synchronous, because its values may be read at once.
    """
    here = tensor.device.type == "cpu"
    if here and torch.device(device).type == "cuda" and tensor.numel():
        tensor = tensor.contiguous().pin_memory()
    return tensor.to(device, non_blocking=here)


def machine(device: torch.device) -> dict[str, Any]:
    """Describe the machine and the versions, for the report of a run."""
    threads = torch.get_num_threads()
    using = "1 thread" if threads == 1 else f"{threads} threads"
    return {
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
        "processor": f"{platform.machine()}, {os.cpu_count()} cores, {using}",
        "system": platform.system(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "patchword": __version__,
    }


@contextmanager
def shapes_only() -> Iterator[None]:
    """Create tensors on the meta device, and leave out `normal_`: there are no values to set.

    PyTorch has no quick `normal_` for this device; its slow one imports the compiler, sympy and triton, for seconds.
    """
    with torch.device("meta"), _WithoutNormal():
        yield


class _WithoutNormal(TorchFunctionMode):
    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        if function in NORMAL:
            tensor: Tensor = args[0] if args else kwargs["tensor"]
            if tensor.is_meta:
                return tensor
        return function(*args, **kwargs)
