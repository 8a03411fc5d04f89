"""Makes all exports to ONNX of a process share one table of operators; torch.onnx builds a new one for each export."""

from functools import cache
from importlib import import_module


def share_operators() -> None:
    """Build the list of onnxscript's operators once. A torch that has no such list stays as it is."""
    try:
        apis = import_module("torch.onnx._internal.exporter._registration").onnxscript_apis
        first = apis.get_torchlib_ops
    except (ImportError, AttributeError):
        return
    if not hasattr(first, "cache_info"):
        apis.get_torchlib_ops = cache(first)
