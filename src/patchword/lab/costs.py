"""The cost of a registry model with changed fields as JSON, with the formulas that the page computes itself."""

import json
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict
from typing import Any

from patchword.analysis.cost import count
from patchword.core.card import Card
from patchword.core.errors import UserError, nearest
from patchword.core.grid import sides
from patchword.lab.errors import UnknownIdError
from patchword.lab.field_limits import check_tokens, read_fields
from patchword.models import REGISTRY
from patchword.models.registry import takes_mlp_ratio

MOST_SAVED = 64


def registry_json() -> dict[str, Any]:
    """Return all models of the registry with their counts; no model is built."""
    rows = []
    for name in REGISTRY.names():
        family, variant = REGISTRY.find(name)
        config = variant.config
        size = [config.channels, *sides(config.image)] if hasattr(config, "image") else [config.tokens]
        counts = {"parameters": variant.parameters, "macs": variant.macs}
        rows.append({"name": name, "family": family.name, "title": family.title, **counts, "input": size})
    return {"models": rows}


def cost_json(model: str, pairs: Sequence[tuple[str, str]] = ()) -> dict[str, Any]:
    """Return the cost of a model of the registry, and that of its first block.

    pairs: names and values of config fields, as texts. The answer is `Cost.to_json` with `fields`, all fields of the
    config; `mlp_ratio`, if the model has a hidden width; and `block`, the `Cost.to_json` of block 1.
    """
    if model not in REGISTRY.names():
        hint = f"{nearest(model[:80], REGISTRY.names())} (/api/registry lists all)"
        raise UnknownIdError(f"no model is called {model[:80]!r}", hint=hint)
    overrides = read_fields(pairs, vars(REGISTRY.find(model)[1].config))
    config = asdict(REGISTRY.configure(model, overrides))
    check_tokens(config)
    try:
        whole = count(Card(model, config))
    except UserError:
        raise
    except (ArithmeticError, AssertionError, MemoryError, RuntimeError, ValueError) as error:
        # The registry checks each field alone; parts of a model refuse fields that do not fit each other.
        reason = str(error).partition("\n")[0][:200]
        raise UserError(f"{model} cannot be built with these fields", got=reason or type(error).__name__) from None
    ratio = {"mlp_ratio": config["hidden"] / config["width"]} if takes_mlp_ratio(config) else {}
    block = whole.below(whole.blocks[0]).to_json() if whole.blocks else None
    return {**whole.to_json(), "fields": config, **ratio, "block": block}


class SavedCosts:
    """Encoded answers of `cost_json`; the last ones are kept, since sliders go back and forth.

    All counts run in one thread: they are Python, so two threads would take as long. The interpreter waits for this
    thread before it ends; a thread that is still inside torch would abort the process.
    """

    def __init__(self) -> None:
        self._saved: OrderedDict[tuple[str, tuple[tuple[str, str], ...]], bytes] = OrderedDict()
        self._thread = ThreadPoolExecutor(1, "cost")

    def start(self, model: str, pairs: Sequence[tuple[str, str]] = ()) -> "Future[bytes]":
        """Return the JSON of a cost, as bytes that are available later."""
        return self._thread.submit(self._encoded, model, pairs)

    def close(self) -> None:
        """Drop the counts that have not begun."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _encoded(self, model: str, pairs: Sequence[tuple[str, str]]) -> bytes:
        key = model, tuple(sorted(pairs))
        if key not in self._saved:
            self._saved[key] = json.dumps(cost_json(model, pairs), separators=(",", ":")).encode()
        self._saved.move_to_end(key)
        while len(self._saved) > MOST_SAVED:
            self._saved.popitem(last=False)
        return self._saved[key]
