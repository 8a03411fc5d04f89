"""models: lists the models of the registry."""

import json
from typing import Annotated, Any

import typer

from patchword.cli.common import Json, console


def input_size(config: Any) -> list[int]:
    """Return the size of one input: channels, height and width, or tokens."""
    from patchword.core.grid import sides

    return [config.channels, *sides(config.image)] if hasattr(config, "image") else [config.tokens]


def models(
    pattern: Annotated[str, typer.Argument(help="A shell pattern, e.g. 'vit-*-16'.")] = "*", as_json: Json = False
) -> None:
    """List the models: name, parameters, MACs at the default input size, paper.

    Examples:

      patchword models
      patchword models 'vit-*-16'
    """
    from rich.table import Table

    from patchword.core.errors import UserError
    from patchword.models import REGISTRY

    rows: list[dict[str, Any]] = []
    for name in REGISTRY.names(pattern):
        family, variant = REGISTRY.find(name)
        size = input_size(variant.config)
        rows.append(
            {"name": name, "parameters": variant.parameters, "macs": variant.macs, "input": size, "paper": family.paper}
        )
    if not rows:
        raise UserError(f"no model matches {pattern!r}", hint="`patchword models` lists all")
    if as_json:
        typer.echo(json.dumps(rows, indent=2))
        return
    table = Table(caption="MACs: multiply-accumulates per input (papers often call them FLOPs)", caption_justify="left")
    for title in ("model", "parameters", "MACs", "input", "paper"):
        table.add_column(title, justify="right" if title in ("parameters", "MACs", "input") else "left", no_wrap=True)
    for row in rows:
        size_text = " x ".join(str(side) for side in row["input"])
        table.add_row(row["name"], f"{row['parameters']:,}", f"{row['macs']:,}", size_text, row["paper"])
    console(110).print(table)
