"""The attention patterns of a model of texts as JSON: a kind for each pair of a query and a key, and what it costs.

A row and a column are one token, or one block of tokens of a Big Bird. The pairs are those of `text_patterns`.
"""

from collections.abc import Sequence
from typing import Any

from patchword.analysis.attention_pattern import TextPattern, by_part, text_patterns, text_receptive_fields
from patchword.analysis.attention_pattern.text import KINDS, part_of
from patchword.analysis.cost import Cost, count
from patchword.analysis.cost.count import text_of
from patchword.core.card import Card
from patchword.core.errors import UserError


def text_patterns_json(card: Card, tokens: int, lengths: Sequence[int]) -> dict[str, Any]:
    """Return every part of a model of texts: its patterns, and the patterns and the cost of each of its layers.

    tokens: of the text. lengths: those that the page offers.
    """
    try:
        found = by_part(text_patterns(card, tokens))
        cost = count(card, inputs=text_of(card, tokens))
    except UserError:
        raise
    except (ArithmeticError, AssertionError, MemoryError, RuntimeError, ValueError) as error:
        # The registry checks each field alone; parts of a model refuse fields that do not fit each other.
        reason = str(error).partition("\n")[0][:200]
        raise UserError(f"{card.model} cannot be built", got=reason or type(error).__name__) from None
    parts = [part_json(part, cost) for part in found]
    return {"model": card.model, "tokens": tokens, "lengths": list(lengths), "kinds": KINDS, "parts": parts}


def part_json(part: Sequence[TextPattern], cost: Cost) -> dict[str, Any]:
    """Return one part: encoder, decoder, or memory, the attention to a translator's source."""
    first = part[0]
    depth = max(max(pattern.layers) for pattern in part)
    macs = _attention_macs(first.part, cost, depth)
    row = 9 * len(first.kinds) // 20
    fields = text_receptive_fields(part, row) if first.part != "memory" else []
    layers = []
    for number in range(1, depth + 1):
        own = [index for index, pattern in enumerate(part) if number in pattern.layers]
        computed = sum(len(part[index].heads) * part[index].computed for index in own)
        whole = sum(len(part[index].heads) for index in own) * first.all_pairs
        # Every computed pair costs the same; global attention computes all, once each.
        all_macs, rest = divmod(macs * whole, computed)
        assert rest == 0, "the attention products are not those of the computed pairs"
        layers.append({"patterns": own, "attention_macs": macs, "global_macs": all_macs})
    return {
        "name": first.part,
        "tokens": first.tokens,
        "keys": first.keys,
        "unit": first.unit,
        "rows": first.kinds.shape[0],
        "columns": first.kinds.shape[1],
        "layers": layers,
        "patterns": [text_pattern_json(pattern) for pattern in part],
        "receptive_field": {"row": row, "columns": [int(step.sum()) for step in fields]},
    }


def text_pattern_json(pattern: TextPattern) -> dict[str, Any]:
    """Return one pattern. pair_kinds: a digit per pair, row after row: its index in `kinds`."""
    from patchword.reports.attention_pattern import describe_text  # it imports a plotting library

    numbers = pattern.to_json()
    kept = ("layers", "heads", "pairs", "computed_pairs", "all_pairs", "density")
    return {
        **{name: numbers[name] for name in kept},
        "description": describe_text(pattern),
        "pair_kinds": bytes(pattern.kinds.flatten().add(ord("0")).tolist()).decode(),
    }


def _attention_macs(part: str, cost: Cost, depth: int) -> int:
    """Return the MACs of the attention products of one layer of a part; its layers cost the same."""
    lines = [line for line in cost.lines if line.macs and line.kind == "attention" and part_of(line.part) == part]
    each, rest = divmod(sum(line.macs.value for line in lines if line.macs), depth)
    assert rest == 0, "the layers of a part cost the same"
    return each
