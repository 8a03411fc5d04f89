"""Models of other libraries with our weights. A library is imported only when it is used."""

import importlib.util
import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from safetensors.torch import load_file
from torch import Tensor, nn

from patchword.benchmarking.torchvision_stub import without_torchvision
from patchword.core.errors import UserError
from patchword.layers.model import Model
from patchword.weights import save


def of_transformers(ours: Model, kind: str) -> nn.Module:
    """Build the transformers model. kind: an Auto class of transformers, e.g. AutoModelForImageClassification."""
    try:
        import transformers
    except ImportError:
        raise UserError("transformers is not installed", hint="pip install 'transformers>=5'") from None
    with TemporaryDirectory() as folder:
        found: nn.Module = getattr(transformers, kind).from_pretrained(save(ours, folder, layout="huggingface"))
    return found.eval()


def of_timm(ours: Model, source: Path) -> nn.Module:
    """Build the timm model. source: the folder that contains timm's package folder; timm need not be installed."""
    if not (source / "timm" / "__init__.py").is_file():
        raise UserError(f"timm is not in {source}", expected="a folder with timm/__init__.py, e.g. its repository")
    sys.path.insert(0, str(source))
    with without_torchvision(), TemporaryDirectory() as folder:
        import timm  # type: ignore[import-not-found, import-untyped, unused-ignore]  # not installed

        config = json.loads((save(ours, folder, layout="timm") / "config.json").read_text())
        arguments = {"num_classes": config["num_classes"], **config["model_args"]}
        found: nn.Module = timm.create_model(config["architecture"], **arguments)
        found.load_state_dict(load_file(Path(folder) / "model.safetensors"))
    return found.eval()


def of_authors(ours: Model, where: str) -> nn.Module:
    """Build the authors' model. where: FILE.py:NAME, their file and the function in it that builds the model."""
    path, _, name = where.rpartition(":")
    if not Path(path).is_file():
        raise UserError(
            f"no file at {path!r}", expected="FILE.py:NAME, e.g. cswin.py:CSWin_64_12211_tiny_224", got=where
        )
    spec = importlib.util.spec_from_file_location(f"authors_{Path(path).stem}", path)
    assert spec is not None, "a file has a specification"
    assert spec.loader is not None, "and a loader"
    module: Any = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(Path(path).resolve().parent))
    with without_torchvision(), TemporaryDirectory() as folder:
        try:
            spec.loader.exec_module(module)
        except ImportError as error:
            raise UserError(f"the authors' code needs {error.name}", hint=f"pip install {error.name}") from None
        if not hasattr(module, name):
            raise UserError(f"{path} has no {name!r}", expected="a function that makes the model")
        found: nn.Module = getattr(module, name)()
        found.load_state_dict(load_file(save(ours, folder, layout="authors") / "model.safetensors"), strict=False)
    return found.eval()


def agreement(ours: Tensor, theirs: Tensor) -> float:
    """Return the largest difference of two outputs, relative to the largest output."""
    return float((ours.float() - theirs.float()).abs().max() / theirs.float().abs().max())


def check_agreement(name: str, difference: float, most: float = 1e-3, one: str = "ours") -> None:
    if not difference < most:
        raise UserError(
            f"{one} and {name} give different outputs", expected=f"a difference under {most:g}", got=f"{difference:.1e}"
        )
