"""attention-as-convolution: builds self-attention that computes a convolution exactly, checks it and draws it."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from patchword.cli.common import Json, console

if TYPE_CHECKING:
    from torch import Tensor

Kernels = Annotated[
    list[int] | None,
    typer.Option("--kernel", metavar="K", min=1, max=15, help="Side of a random kernel. Repeatable."),
]
Patches = Annotated[
    list[int] | None,
    typer.Option("--patch", metavar="P", min=1, max=64, help="Side of a token in pixels; 1: pixels. Repeatable."),
]


def attention_as_convolution(
    kernel: Kernels = None,
    patch: Patches = None,
    image: Annotated[int, typer.Option("--image", min=1, max=64, help="Side of the images in pixels.")] = 12,
    weights: Annotated[
        Path | None, typer.Option("--weights", metavar="FILE", help="Take the kernel from a .safetensors or .npz file.")
    ] = None,
    tensor: Annotated[str, typer.Option("--tensor", metavar="NAME", help="Name of the kernel in that file.")] = "",
    seed: Annotated[int, typer.Option("--seed", help="Seed of the random kernels and images.")] = 0,
    out: Annotated[Path, typer.Option("--out", metavar="FOLDER", help="Output folder for the figures.")] = Path(
        "attention-as-convolution"
    ),
    as_json: Json = False,
) -> None:
    """Build the attention layer that computes a K x K convolution exactly, check it, and draw what the heads attend to.

    Without options: random kernels of 3 x 3 and 5 x 5, with pixels and with patches of 4 x 4 as tokens.

    Examples:

      patchword attention-as-convolution
      patchword attention-as-convolution --kernel 7 --patch 2
      patchword attention-as-convolution --weights model.safetensors --tensor conv1.weight
    """
    from patchword.core.files import make_folder

    kernels = [_from_file(weights, tensor)] if weights else [_random(side, seed) for side in kernel or (3, 5)]
    cases = [(found, side) for found in kernels for side in patch or (1, 4)]
    for found, side in cases:
        _check_fits(found[0], image, side)
    make_folder(out)
    rows = [_row(found, side, image, seed, out) for found, side in cases]
    if as_json:
        typer.echo(json.dumps({"image": [image, image], "seed": seed, "layers": rows}, indent=2))
    else:
        _print(rows)


def _random(side: int, seed: int) -> "tuple[Tensor, Tensor | None]":
    import torch

    generator = torch.Generator().manual_seed(seed)
    return torch.randn(4, 3, side, side, generator=generator), torch.randn(4, generator=generator)


def _from_file(path: Path, name: str) -> "tuple[Tensor, Tensor | None]":
    from patchword.core.errors import UserError, nearest
    from patchword.core.tensor_files import read_tensors

    tensors, _ = read_tensors(path)
    if name not in tensors:
        kernels = [key for key, value in tensors.items() if value.ndim == 4]
        raise UserError(f"{path} has no tensor {name!r}", expected="--tensor NAME", hint=nearest(name, kernels))
    bias = tensors.get(name.removesuffix("weight") + "bias")
    return tensors[name].float(), None if bias is None else bias.float()


def _check_fits(weight: "Tensor", image: int, patch: int) -> None:
    """Check the sizes before anything is built: a large kernel with many channels needs gigabytes."""
    from patchword.analysis.attention.as_convolution import check_sizes

    check_sizes(weight, (image, image), patch)


def _row(found: "tuple[Tensor, Tensor | None]", patch: int, image: int, seed: int, out: Path) -> dict[str, Any]:
    import torch

    from patchword.analysis.attention.as_convolution import attention_for, heads_needed, largest_error
    from patchword.reports.attention.convolution_heads import write_heads

    weight, bias = found
    side = weight.shape[-1]
    layer = attention_for(weight, bias, image, patch)
    images = torch.randn(2, weight.shape[1], image, image, generator=torch.Generator().manual_seed(seed + 1))
    tokens = "pixels" if patch == 1 else f"patches of {patch} x {patch}"
    title = f"A {side} × {side} convolution by {len(layer.offsets)} heads over {tokens.replace(' x ', ' × ')}"
    name = f"kernel-{side}-" + ("pixels" if patch == 1 else f"patches-{patch}")
    files = write_heads(layer, layer.attention_weights(images), title, out, name)
    return {
        "kernel": list(weight.shape),
        "tokens": tokens,
        "heads": len(layer.offsets),
        "formula": heads_needed(side, patch),
        "idle": layer.idle,
        "error": largest_error(layer, weight, bias, images),
        "files": [str(file) for file in files],
    }


def _print(rows: list[dict[str, Any]]) -> None:
    from rich.table import Table

    out = console(100)
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in ("kernel", "tokens", "heads", "formula", "unused heads", "largest error"):
        table.add_column(name, justify="left" if name in ("kernel", "tokens") else "right", no_wrap=True)
    for row in rows:
        outputs, channels, side, _ = row["kernel"]
        kernel = f"{side} x {side}, {channels} -> {outputs}"
        numbers = (str(row[name]) for name in ("heads", "formula", "idle"))
        table.add_row(kernel, row["tokens"], *numbers, f"{row['error']:.1e}")
    out.print(table, highlight=False)
    about = (
        "formula: (2 ceil((K - 1) / (2P)) + 1)^2; error: compared with torch's convolution, with borders, in float32,"
    )
    out.print(f"[dim]{about} relative to its largest output[/dim]", highlight=False)
    for row in rows:
        for file in row["files"]:
            out.print(file, highlight=False, markup=False)
