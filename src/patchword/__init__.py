"""One encoder library for words and patches.

>>> import patchword
>>> model = patchword.create("vit-base-16", classes=10)

Names are imported when they are first used, so that `patchword --help` does not wait for torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from patchword import names

if TYPE_CHECKING:
    from patchword import models
    from patchword.api.bench import bench
    from patchword.api.callbacks import Callback
    from patchword.api.evaluation import evaluate
    from patchword.api.preprocessing import tokenizer, transform
    from patchword.api.run import Run
    from patchword.api.runs import compare_runs, list_runs
    from patchword.api.training import train
    from patchword.api.tuning import dry_run, find_lr
    from patchword.fusion.compile import compile
    from patchword.models import list_models
    from patchword.pipelines import Pipeline, pipeline
    from patchword.weights import create, load, save

__version__ = "0.1.0"
__all__ = [
    "Callback",
    "Pipeline",
    "Run",
    "bench",
    "compare_runs",
    "compile",
    "create",
    "dry_run",
    "evaluate",
    "find_lr",
    "list_models",
    "list_runs",
    "load",
    "models",
    "names",
    "pipeline",
    "save",
    "tokenizer",
    "train",
    "transform",
]

_HOMES = {
    "Callback": "api.callbacks",
    "Pipeline": "pipelines",
    "Run": "api.run",
    "bench": "api.bench",
    "compare_runs": "api.runs",
    "compile": "fusion.compile",
    "create": "weights",
    "dry_run": "api.tuning",
    "evaluate": "api.evaluation",
    "find_lr": "api.tuning",
    "list_models": "models",
    "list_runs": "api.runs",
    "load": "weights",
    "pipeline": "pipelines",
    "save": "weights",
    "tokenizer": "api.preprocessing",
    "train": "api.training",
    "transform": "api.preprocessing",
}


def __getattr__(name: str) -> object:
    if name == "models":
        return import_module("patchword.models")
    if name not in _HOMES:
        raise AttributeError(f"module 'patchword' has no attribute {name!r}")
    return getattr(import_module(f"patchword.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
