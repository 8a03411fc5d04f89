"""ELMo in the authors' format: an options.json with the sizes and an HDF5 file with the weights.

`load` opens them like any other weights: load("elmo_2x4096_weights.hdf5"), or the folder of both files.

The file follows TensorFlow's conventions. Matrices are (inputs, outputs). The gates of an LSTM are in the order i, g,
f, o, and 1 is added to the forget gate besides its bias. One matrix holds the input and the recurrent weights, stacked.
The character table has no row for positions without a word. The "carry" gate of a highway in the file weights the new
value, not the carried one, so it is our gate without change.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from patchword.core.card import Card
from patchword.core.device import shapes_only
from patchword.core.errors import UserError, first_few
from patchword.core.files import read_json
from patchword.core.tensor_files import Tensors
from patchword.models.text.elmo import FAMILY, Elmo, ElmoConfig, build
from patchword.weights.names.configs import require

WEIGHTS, OPTIONS, SUFFIX = "weights.hdf5", "options.json", ".hdf5"
Read = Callable[[str], Tensor]


def read_elmo(weights: str | Path, options: str | Path | None = None) -> Elmo:
    """Load the published biLM with a newly initialised layer mixture, in evaluation mode.

    weights: the HDF5 file, usually named *weights.hdf5. options: its JSON file; by default the file in the same folder
    whose name ends in options.json instead.
    """
    tensors, card = read(weights, options)
    with shapes_only():
        model = build(ElmoConfig(**card.config))
    model.load_state_dict(tensors, assign=True)
    model.card = card
    return model.requires_grad_(True).eval()


def published(folder: Path) -> Path | None:
    """Return the weight file of a folder with the authors' files; None for other folders."""
    found = sorted(path for path in folder.iterdir() if path.name.endswith(WEIGHTS))
    return found[0] if len(found) == 1 and not (folder / "config.json").is_file() else None


def read(weights: str | Path, options: str | Path | None = None) -> tuple[Tensors, Card]:
    """Return the tensors under our names, and the card of the model."""
    path = Path(weights)
    beside = Path(options) if options else path.with_name(path.name.removesuffix(WEIGHTS).removesuffix("lm_") + OPTIONS)
    if not path.is_file():
        raise UserError(f"there is no file {path}", expected="the HDF5 file of an ELMo")
    config = config_of(read_json(beside))
    with shapes_only():
        model = build(config)
    tensors = _open(path, config)
    _check(tensors, model, path)
    return tensors | _mixture(config), Card(_closest(config), asdict(config))


def _mixture(config: ElmoConfig) -> Tensors:
    """Return the initial layer mixture: it is trained per task, so the file has none."""
    return {"mixture.weights": torch.zeros(config.depth + 1), "mixture.scale": torch.ones(1)}


def config_of(options: Mapping[str, Any]) -> ElmoConfig:
    """Convert options.json to our config."""
    try:
        characters, recurrent = options["char_cnn"], options["lstm"]
        require("ELMo", recurrent, {"use_skip_connections": (False, True)})
        if characters["activation"] not in ("relu", "tanh"):
            raise UserError("this ELMo differs from the paper's", expected="relu or tanh", got=characters["activation"])
        return ElmoConfig(
            symbols=262,
            characters=characters["max_characters_per_token"],
            character_width=characters["embedding"]["dim"],
            filters=tuple((size, count) for size, count in characters["filters"]),
            highways=characters["n_highway"],
            activation=characters["activation"],
            width=recurrent["projection_dim"],
            cell=recurrent["dim"],
            depth=recurrent["n_layers"],
            cell_clip=float(recurrent["cell_clip"]),
            output_clip=float(recurrent["proj_clip"]),
        )
    except (KeyError, TypeError) as error:
        raise UserError(
            "these are not the options of an ELMo", expected="char_cnn and lstm", got=f"{type(error).__name__}: {error}"
        ) from None


def to_ours(read: Read, config: ElmoConfig) -> Tensors:
    """Return the tensors under our names. read: returns one of their tensors by name."""
    ours = {"embedding.characters.weight": torch.cat([torch.zeros(1, config.character_width), read("char_embed")])}
    for number in range(len(config.filters)):
        ours[f"embedding.filters.{number}.weight"] = read(f"CNN/W_cnn_{number}")[0].permute(2, 1, 0)
        ours[f"embedding.filters.{number}.bias"] = read(f"CNN/b_cnn_{number}")
    for number in range(config.highways):
        for name, theirs in (("candidate", "transform"), ("gate", "carry")):
            ours[f"embedding.highways.{number}.{name}.weight"] = read(f"CNN_high_{number}/W_{theirs}").T
            ours[f"embedding.highways.{number}.{name}.bias"] = read(f"CNN_high_{number}/b_{theirs}")
    ours["embedding.project.weight"] = read("CNN_proj/W_proj").T
    ours["embedding.project.bias"] = read("CNN_proj/b_proj")
    for number in range(config.depth):
        ways = [_layer(read, f"RNN_{way}/RNN/MultiRNNCell/Cell{number}/LSTMCell", config.width) for way in (0, 1)]
        for name in ways[0]:
            ours[f"encoder.layers.{number}.{name}"] = torch.stack([way[name] for way in ways])
    return {name: tensor.contiguous() for name, tensor in ours.items()}


def _layer(read: Read, prefix: str, inputs: int) -> Tensors:
    """Convert one layer in one direction."""
    joint, bias = _ordered(read(f"{prefix}/W_0")), _ordered(read(f"{prefix}/B")[None])
    cells = bias.shape[1] // 4
    bias[:, cells : 2 * cells] += 1
    return {"inputs": joint[:inputs], "recurrent": joint[inputs:], "bias": bias, "output": read(f"{prefix}/W_P_0")}


def _ordered(gates: Tensor) -> Tensor:
    """Reorder the LSTM gates along the last axis: i, g, f, o -> i, f, o, g."""
    inward, new, forget, outward = gates.chunk(4, -1)
    return torch.cat([inward, forget, outward, new], -1)


def _open(path: Path, config: ElmoConfig) -> Tensors:
    if find_spec("h5py") is None:
        raise UserError("HDF5 files need the package h5py", hint='pip install "patchword[elmo]"')
    import h5py

    try:
        with h5py.File(path, "r") as file:

            def read(name: str) -> Tensor:
                _refuse_links(file, name, path)
                if not isinstance(found := file.get(name), h5py.Dataset):
                    raise UserError(f"{path} does not fit its options", expected=name, got="no such tensor")
                if found.nbytes > 100 * found.id.get_storage_size() + 2**20:
                    raise UserError(f"{path}: {name} is not in the file", expected=f"{found.nbytes:,} bytes")
                return torch.from_numpy(np.asarray(found, dtype=np.float32))

            return to_ours(read, config)
    except UserError:
        raise
    except (OSError, TypeError, ValueError, RuntimeError, IndexError) as error:
        raise UserError(f"cannot read {path}", expected="an HDF5 file", got=str(error)) from None


def _refuse_links(file: Any, name: str, path: Path) -> None:
    """Refuse links and external data: an entry could refer to any file on the disk."""
    import h5py

    steps = name.split("/")
    for end in range(1, len(steps) + 1):
        step = "/".join(steps[:end])
        if step in file and not isinstance(file.get(step, getlink=True), h5py.HardLink):
            raise UserError(f"{path}: {step} is a link", expected="tensors in the file itself")
    found = file.get(name)
    if isinstance(found, h5py.Dataset) and (found.external or found.is_virtual):
        raise UserError(f"{path}: {name} is in another file", expected="tensors in the file itself")


def _check(tensors: Tensors, model: Elmo, path: Path) -> None:
    expected = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items() if "mixture." not in name}
    wrong = [
        f"{name}: expected {shape}, got {tuple(tensors[name].shape)}"
        for name, shape in expected.items()
        if tuple(tensors[name].shape) != shape
    ]
    if wrong:
        listed = "\n".join(first_few(wrong))
        raise UserError(f"{path} does not fit its options: {len(wrong)} tensors differ", hint=listed)


def _closest(config: ElmoConfig) -> str:
    """Return the model name with these sizes, or one of the same width."""
    names = FAMILY.names()
    equal = [name for name, variant in names.items() if variant.config == config]
    return (equal or [name for name, variant in names.items() if variant.config.width == config.width] or [*names])[-1]
