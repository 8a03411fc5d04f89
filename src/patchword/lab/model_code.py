"""The source code that defines a model: one file of patchword.models, found by the registry."""

import sys
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from patchword.core.errors import nearest
from patchword.lab.errors import UnknownIdError
from patchword.models import REGISTRY
from patchword.models.detection import DETECTORS
from patchword.models.segmentation import SEGMENTERS

PACKAGE = "patchword.models"


def code_json(name: str) -> dict[str, Any]:
    """Return the file that defines the family of a model, or a detector or segmenter; an unknown name is an error."""
    modules = _modules()
    if name not in modules:
        raise UnknownIdError(f"no model is called {name[:80]!r}", hint=nearest(name[:80], modules))
    module = modules[name]
    assert module.__file__ is not None
    return {"model": name, "file": _file(module), "code": Path(module.__file__).read_text(encoding="utf-8")}


@cache
def _modules() -> dict[str, ModuleType]:
    """Return the module of every model: of a family, the one that names it FAMILY; of a system, that of its builder."""
    own = [module for name, module in sorted(sys.modules.items()) if name.startswith(f"{PACKAGE}.")]
    families = {id(module.FAMILY): module for module in own if hasattr(module, "FAMILY")}
    found = {name: families[id(family)] for family in REGISTRY.families for name in family.names()}
    detectors = {name: sys.modules[family.build.__module__] for name, family in DETECTORS.items()}
    segmenters = {name: sys.modules[family.build.__module__] for name, family in SEGMENTERS.items()}
    return found | detectors | segmenters


def _file(module: ModuleType) -> str:
    return f"{module.__name__.replace('.', '/')}.py"
