"""The names of Grover in its authors' TensorFlow files, converted to an .npz; kernels are transposed."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from patchword.core.tensor_files import Tensors
from patchword.weights.names.name_table import Layout, rows
from patchword.weights.names.text.gpt import sizes

_OPTIMIZER = re.compile(r"global_step$|/adafactor_|/adam_[mv]$")
_LAST = {"gamma": "weight", "beta": "bias", "kernel": "weight"}
_BLOCK, _THEIRS = "encoder.blocks.{i}.", "layer{i}."
_ROWS = rows(
    ("embedding.words.weight", "embeddings.word_embed"),
    ("embedding.positions.weight", "embeddings.pos_embed"),
    ("embedding.norm.{p}", "embeddings.LayerNorm_embed_norm.{p}"),
    (
        _BLOCK + "attention.sublayer.projection.joint.{p}",
        tuple(f"{_THEIRS}{name}_layer.{{p}}" for name in ("query", "key", "value")),
    ),
    (_BLOCK + "attention.sublayer.output.{p}", _THEIRS + "context_projection_layer.{p}"),
    (_BLOCK + "feed_forward.sublayer.norm.{p}", _THEIRS + "LayerNorm_mlp_ln0.{p}"),
    (_BLOCK + "feed_forward.sublayer.up.{p}", _THEIRS + "intermediate.{p}"),
    (_BLOCK + "feed_forward.sublayer.down.{p}", _THEIRS + "output.{p}"),
    (_BLOCK + "feed_forward.norm.{p}", _THEIRS + "LayerNorm_mlp_ln1.{p}"),
)


@dataclass(frozen=True)
class GroverLayout(Layout):
    """Grover's TensorFlow checkpoints; newslm/layer03/output/kernel is layer3.output.weight in the rows."""

    file: str = "model.npz"

    def to_ours(self, tensors: Mapping[str, Tensor]) -> tuple[Tensors, list[str]]:
        theirs = {_torch_name(name): name for name in tensors if not _OPTIMIZER.search(name)}
        transposed = {
            ours: tensors[name].T.contiguous() if name.endswith("/kernel") else tensors[name]
            for ours, name in theirs.items()
        }
        ours, unknown = super().to_ours(transposed)
        return ours, [theirs[name] for name in unknown]

    def to_theirs(self, tensors: Mapping[str, Tensor]) -> Tensors:
        found = super().to_theirs(tensors)
        return {
            _their_name(name): tensor.T.contiguous() if _is_kernel(name) else tensor for name, tensor in found.items()
        }


def _torch_name(name: str) -> str:
    path = name.removeprefix("newslm/").split("/")
    path[0] = re.sub(r"layer0*(\d+)", r"layer\1", path[0])
    return ".".join([*path[:-1], _LAST.get(path[-1], path[-1])])


def _is_kernel(name: str) -> bool:
    return name.endswith(".weight") and "LayerNorm_" not in name


def _their_name(name: str) -> str:
    *path, leaf = name.split(".")
    path[0] = re.sub(r"layer(\d+)", lambda found: f"layer{int(found[1]):02d}", path[0])
    if "LayerNorm_" in name:
        leaf = {"weight": "gamma", "bias": "beta"}[leaf]
    return "/".join(["newslm", *path, "kernel" if _is_kernel(name) else leaf])


LAYOUTS = (
    GroverLayout(
        "authors",
        "grover",
        _ROWS,
        ("newslm/embeddings/word_embed", "newslm/layer00/LayerNorm_mlp_ln0/gamma"),
        sizes,
        {"head": "words"},
        needs={"head": "words", "position": "learned", "activation": "gelu", "norm_eps": 1e-5},
    ),
)
