"""windows, of a model of texts: draws which tokens of a text attend to which."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from patchword.cli.common import console

if TYPE_CHECKING:
    from patchword.analysis.attention_pattern import TextPattern
    from patchword.core.card import Card


def windows_of_texts(card: "Card", out: Path, token: str, tokens: int, stage: int, as_json: bool) -> None:
    """Draw the patterns of a model of texts. stage: a part of a translator, from 1; 0: all in the table."""
    from patchword.analysis.attention_pattern import by_part, text_patterns
    from patchword.core.errors import UserError
    from patchword.reports.attention_pattern import describe_text, write_text_windows

    found = text_patterns(card, tokens)
    parts = by_part(found)
    if stage and not 1 <= stage <= len(parts):
        raise UserError(f"there is no stage {stage}", expected=f"1 to {len(parts)}" if parts[1:] else "1", got=stage)
    shown = parts[stage - 1] if stage else found
    query = _query(token, (parts[stage - 1] if stage else parts[0])[0].tokens)
    files = write_text_windows(card, found, query, out, stage)
    if as_json:
        rows = [{"pattern": describe_text(pattern), **pattern.to_json()} for pattern in shown]
        densities = {"density": _density(shown, "pairs"), "computed_density": _density(shown, "computed")}
        record: dict[str, Any] = {"model": card.model, "tokens": found[0].tokens, "token": query, **densities}
        typer.echo(json.dumps({**record, "patterns": rows, "files": [str(file) for file in files]}, indent=2))
        return
    _print_table(shown)
    for file in files:
        typer.echo(file)


def _query(token: str, tokens: int) -> int:
    from patchword.core.errors import UserError

    if not token:
        return 9 * tokens // 20
    if not token.isdecimal() or int(token) >= tokens:
        expected = f"a token of the text, 0 to {tokens - 1}"
        raise UserError("cannot read --token", expected=expected, got=repr(token), hint="--tokens sets the length")
    return int(token)


def _density(found: Sequence["TextPattern"], pairs: str) -> float:
    """Return pairs over all pairs, over all layers and heads."""
    weights = [len(pattern.layers) * len(pattern.heads) for pattern in found]
    some = sum(weight * getattr(pattern, pairs) for weight, pattern in zip(weights, found, strict=True))
    return float(some / sum(weight * pattern.all_pairs for weight, pattern in zip(weights, found, strict=True)))


def _print_table(found: Sequence["TextPattern"]) -> None:
    from rich.table import Table

    from patchword.analysis.attention_pattern import by_part
    from patchword.reports.attention_pattern import describe_text, percent, whose

    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in ("part", "tokens", "layers and heads", "pattern", "density"):
        table.add_column(name, justify="right" if name in ("tokens", "density") else "left", no_wrap=True)
    for part in by_part(found):
        for description in dict.fromkeys(describe_text(pattern) for pattern in part):
            same = [pattern for pattern in part if describe_text(pattern) == description]
            who = whose(same[0]) if len(same) == 1 else f"{len(same)} patterns by layer and head"
            table.add_row(part[0].part, f"{part[0].tokens:,}", who, description, percent(_density(same, "pairs")))
    out = console(130)
    out.print(table, highlight=False)
    attended, computed = (percent(_density(found, pairs)) for pairs in ("pairs", "computed"))
    also = f"; {computed} are computed, with masked pairs and padding" if computed != attended else ""
    out.print(f"\nattention density over all layers and heads: {attended} of all pairs{also}\n", highlight=False)
