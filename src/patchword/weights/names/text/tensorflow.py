"""Convert the names of TensorFlow and early PyTorch files to the current form."""

import re

from patchword.core.tensor_files import Tensors

_GONE = re.compile(r"adam_[mv]$|global_step$|^beta\d_power$|\.position_ids$|^position_ids$")
_LAST = {"gamma": "weight", "beta": "bias", "kernel": "weight", "output_weights": "weight", "output_bias": "bias"}


def is_old(tensors: Tensors) -> bool:
    """True if the norms have gamma and beta."""
    return any(name.removesuffix(":0").endswith(("LayerNorm.gamma", "LayerNorm/gamma")) for name in tensors)


def modern(tensors: Tensors) -> Tensors:
    """`layer_3/output/dense/kernel` -> `layer.3.output.dense.weight`, transposed; optimizer states are dropped."""
    found: Tensors = {}
    for name, tensor in tensors.items():
        parts = re.sub(r"\blayer_(\d+)\b", r"layer.\1", name.removesuffix(":0").replace("/", ".")).split(".")
        if _GONE.search(".".join(parts)):
            continue
        transposed = parts[-1] == "kernel" and tensor.ndim == 2
        if parts[-1] == "output_weights" and len(parts) == 1:
            parts = ["classifier", "weight"]  # the authors' classifier, whose names have no scope
        elif parts[-1] == "output_bias" and len(parts) == 1:
            parts = ["classifier", "bias"]
        elif parts[:-1] == ["cls", "squad"]:
            parts = ["qa_outputs", _LAST[parts[-1]]]
        elif parts[-1].endswith("_embeddings"):
            parts = [*parts, "weight"]
        else:
            parts = [*parts[:-1], _LAST.get(parts[-1], parts[-1])]
        found[".".join(parts)] = tensor.T.contiguous() if transposed else tensor
    return found
