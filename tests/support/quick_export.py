"""Makes the exports to ONNX of one process share the table of operators that torch.onnx builds anew for each of them."""

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
