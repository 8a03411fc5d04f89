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
    pattern: Annotated[str, typer.Argument(metavar="PATTERN", help="A shell pattern, e.g. 'vit-*-16'.")] = "*",
    pretrained: Annotated[
        bool, typer.Option("--pretrained", help="List the public checkpoints that `patchword get` fetches.")
    ] = False,
    zoo: Annotated[
        bool, typer.Option("--zoo", help="List the trained models that come along, with their scores.")
    ] = False,
    as_json: Json = False,
) -> None:
    """List the models: name, parameters, MACs at the default input size, paper; then detectors and segmenters.

    Examples:

      patchword models
      patchword models 'vit-*-16'
      patchword models '*rcnn'
      patchword models --pretrained
      patchword models --zoo
    """
    if zoo:
        from patchword.cli.models.zoo import print_zoo

        print_zoo(pattern, as_json)
        return
    if pretrained:
        _checkpoints(pattern, as_json)
        return
    from patchword.cli.models.detectors import detector_rows, print_detectors
    from patchword.cli.models.segmenters import print_segmenters, segmenter_rows
    from patchword.core.errors import UserError
    from patchword.models import REGISTRY

    rows: list[dict[str, Any]] = []
    for name in REGISTRY.names(pattern):
        family, variant = REGISTRY.find(name)
        size = input_size(variant.config)
        rows.append(
            {"name": name, "parameters": variant.parameters, "macs": variant.macs, "input": size, "paper": family.paper}
        )
    detectors, segmenters = detector_rows(pattern), segmenter_rows(pattern)
    if not rows and not detectors and not segmenters:
        raise UserError(f"no model matches {pattern!r}", hint="`patchword models` lists all")
    if as_json:
        typer.echo(json.dumps([*rows, *detectors, *segmenters], indent=2))
        return
    if rows:
        _print_models(rows)
    if detectors:
        print_detectors(detectors)
    if segmenters:
        print_segmenters(segmenters)


def _print_models(rows: list[dict[str, Any]]) -> None:
    from rich.table import Table

    table = Table(caption="MACs: multiply-accumulates per input (papers often call them FLOPs)", caption_justify="left")
    for title in ("model", "parameters", "MACs", "input", "paper"):
        table.add_column(title, justify="right" if title in ("parameters", "MACs", "input") else "left", no_wrap=True)
    for row in rows:
        size_text = " x ".join(str(side) for side in row["input"])
        table.add_row(row["name"], f"{row['parameters']:,}", f"{row['macs']:,}", size_text, row["paper"])
    console(110).print(table)


def _checkpoints(pattern: str, as_json: bool) -> None:
    """List the public checkpoints of the models: name on the hub, size, licence, published score."""
    from rich.table import Table

    from patchword.core.disk_space import format_bytes
    from patchword.core.errors import UserError
    from patchword.models import REGISTRY
    from patchword.weights.hub.pretrained import PRETRAINED

    found = {name: PRETRAINED[name] for name in REGISTRY.names(pattern) if name in PRETRAINED}
    if not found:
        hint = "`patchword models --pretrained` lists all; `patchword get hf:OWNER/REPO` fetches any other"
        raise UserError(f"no public checkpoint is known for {pattern!r}", hint=hint)
    if as_json:
        rows = [
            {"name": name, "checkpoint": str(one.name), "size": one.size, "licence": one.licence, "top1": one.score}
            for name, one in found.items()
        ]
        typer.echo(json.dumps(rows, indent=2))
        return
    caption = (
        "`patchword get MODEL` fetches one. top-1: published accuracy (%) on ImageNet-1k, where the source gives one. "
        "Names, sizes and licences were not checked against the hub: read the licence on the model's page."
    )
    table = Table(caption=caption, caption_justify="left")
    for title in ("model", "checkpoint", "size", "licence", "top-1"):
        table.add_column(title, justify="right" if title in ("size", "top-1") else "left", no_wrap=True)
    for name, one in found.items():
        score = "" if one.score is None else f"{one.score:.1f}"
        table.add_row(name, str(one.name), format_bytes(one.size), one.licence, score)
    console(120).print(table)
