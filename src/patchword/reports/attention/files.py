"""Writes attention figures and arrays: into a folder, as one figure, or the arrays alone."""

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Literal

import numpy as np
from matplotlib.figure import Figure
from torch import Tensor

from patchword.core.errors import UserError
from patchword.core.files import whole_file
from patchword.inspection.attention import ImageAttention, LayerAttention
from patchword.inspection.attention_objects import ObjectAttention
from patchword.inspection.attention_texts import TextAttention
from patchword.reports.attention.image_figures import figures_of
from patchword.reports.attention.object_figures import object_figures
from patchword.reports.attention.text_figures import text_figures
from patchword.reports.plots.figures import drawn, figure_style

Kind = Literal["png", "svg"]
_KINDS: tuple[Kind, ...] = ("png", "svg")
_ENDINGS: dict[str, Kind | Literal["npz"]] = {".png": "png", ".svg": "svg", ".npz": "npz"}


def check_out(path: Path, wanted: Sequence[str]) -> None:
    """Check the output path before the work starts. wanted: the figures that were chosen by name."""
    kind = path.suffix.lower()
    if kind and kind not in _ENDINGS and not path.is_dir():
        raise UserError(f"cannot write {path}", expected="a folder, or a name that ends in .png, .svg or .npz")
    if kind in _ENDINGS and path.is_dir():
        raise UserError(f"cannot write {path}", got="it is a folder")
    if kind in (".png", ".svg") and len(wanted) > 1:
        raise UserError(
            f"{path} holds one figure", expected="one of maps, rollout, relevance, distance", got=" and ".join(wanted)
        )
    if not kind and path.exists() and not path.is_dir():
        raise UserError(f"cannot write into {path}", got="it is a file", hint="name a folder")
    there = next(folder for folder in (path if not kind else path.parent, *path.absolute().parents) if folder.exists())
    if not (there.is_dir() and os.access(there, os.W_OK | os.X_OK)):
        got = "permission denied" if there.is_dir() else "it is a file"
        raise UserError(f"cannot write into {there}", got=got, hint="choose another folder")


def write_attention(
    look: ImageAttention | TextAttention, wanted: Sequence[str], path: Path, hide_special: bool = False
) -> list[Path]:
    """Write all files, or none if one fails. hide_special: draw a text without [CLS] and [SEP]; arrays have them."""
    kind = _ENDINGS.get(path.suffix.lower()) if not path.is_dir() else None
    contents: dict[Path, Callable[[Path], None]] = {}
    with figure_style():
        if kind != "npz":
            figures = (
                figures_of(look, wanted)
                if isinstance(look, ImageAttention)
                else text_figures(look, wanted, hide_special)
            )
            contents |= _drawings(figures, path, kind)
    if kind in (None, "npz"):
        arrays = arrays_of(look, wanted)
        contents[path if kind else path / "attention.npz"] = lambda place: _save(place, arrays)
    return _write(contents)


def write_object_attention(look: ObjectAttention, path: Path) -> list[Path]:
    """Write the figure and the arrays of a detector with queries: all files, or none if one fails."""
    kind = _ENDINGS.get(path.suffix.lower()) if not path.is_dir() else None
    contents: dict[Path, Callable[[Path], None]] = {}
    if kind != "npz":
        with figure_style():
            contents |= _drawings(object_figures(look), path, kind)
    if kind in (None, "npz"):
        arrays = object_arrays(look)
        contents[path if kind else path / "attention.npz"] = lambda place: _save(place, arrays)
    return _write(contents)


def object_arrays(look: ObjectAttention) -> dict[str, np.ndarray]:
    """Return the image, and the weights, or those of each query with its box, class and score."""
    image = {"image": look.pixels.numpy()}
    if look.point is not None:
        return image | {"weights": look.point.numpy()}
    return image | {
        "query": np.array([one.number for one in look.queries]),
        "weights": np.stack([one.weights.numpy() for one in look.queries]),
        "box": np.array([one.box for one in look.queries]),
        "class": np.array([one.name for one in look.queries]),
        "score": np.array([one.score for one in look.queries]),
    }


def _write(contents: Mapping[Path, Callable[[Path], None]]) -> list[Path]:
    with ExitStack() as all_files:
        for place, write in contents.items():
            write(all_files.enter_context(whole_file(place)))
    return list(contents)


def _drawings(figures: Mapping[str, Figure], path: Path, kind: Kind | None) -> dict[Path, Callable[[Path], None]]:
    if not figures:
        raise UserError(f"nothing to draw in {path}", hint="the model has no classes: use --rollout")
    if kind:
        return {path: _writer(drawn(next(iter(figures.values())), kind))}
    places = [(path / f"{name}.{one}", drawn(figure, one)) for name, figure in figures.items() for one in _KINDS]
    return {place: _writer(content) for place, content in places}


def _writer(content: bytes) -> Callable[[Path], None]:
    def write(place: Path) -> None:
        place.write_bytes(content)

    return write


def _save(place: Path, arrays: Mapping[str, np.ndarray]) -> None:
    with place.open("wb") as file:
        np.savez_compressed(file, **dict[str, Any](arrays))


def arrays_of(look: ImageAttention | TextAttention, wanted: Sequence[str]) -> dict[str, np.ndarray]:
    """Return numeric and string arrays only, which numpy loads without pickle."""
    tensors: dict[str, Tensor] = {}
    for layer in look.layers:
        name = f"layer_{layer.number:02d}"
        maps = (
            {"maps": layer.maps, "weights": layer.weights}
            if isinstance(layer, LayerAttention)
            else {"weights": layer.weights}
        )
        if "maps" in wanted:
            tensors |= {f"{name}_{kind}": part for kind, part in maps.items() if part is not None}
        if "distance" in wanted:
            tensors[f"{name}_distance"] = layer.distance
    for kind, part in (("rollout", look.rollout), ("relevance", look.relevance)):
        if kind in wanted and part is not None:
            tensors[kind] = part
    arrays = {name: tensor.detach().cpu().numpy() for name, tensor in tensors.items()}
    first = {"image": look.pixels.numpy()} if isinstance(look, ImageAttention) else {"tokens": np.array(look.tokens)}
    return first | arrays
