"""attention: draws what a model attends to in an image or a text."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from patchword.cli.common import (
    Device,
    Download,
    Fields,
    Json,
    Settings,
    console,
    fetch_model,
    print_lines,
    settings_of,
)
from patchword.cli.completion import model_names

if TYPE_CHECKING:
    from patchword.inspection.attention import ImageAttention
    from patchword.inspection.attention_options import AttentionOptions
    from patchword.inspection.attention_texts import TextAttention


def attention(
    model: Annotated[
        str,
        typer.Argument(
            metavar="RUN|MODEL", help="A run, a folder, zoo:NAME, or a registry name.", autocompletion=model_names
        ),
    ],
    given: Annotated[str, typer.Argument(metavar="INPUT", help="An image file, or a text in quotes.")] = "",
    fields: Fields = None,
    layer: Annotated[
        list[int] | None, typer.Option("--layer", help="Only this layer, from 1; -1 is the last. Repeatable.")
    ] = None,
    head: Annotated[list[int] | None, typer.Option("--head", help="Only this head, from 1. Repeatable.")] = None,
    rollout: Annotated[bool, typer.Option("--rollout", help="Attention rollout: all layers as one map.")] = False,
    relevance: Annotated[
        str,
        typer.Option("--relevance", metavar="CLASS", help="Relevance for a class; `predicted` is the model's answer."),
    ] = "",
    distance: Annotated[bool, typer.Option("--distance", help="Mean attention distance of each head.")] = False,
    at: Annotated[
        str, typer.Option("--at", metavar="X,Y", help="Pixel of the query patch, from 0, in the resized image.")
    ] = "",
    pair: Annotated[str, typer.Option("--pair", help="A second text.")] = "",
    hide_special: Annotated[
        bool,
        typer.Option(
            "--hide-special",
            help="Draw a text without [CLS], [SEP] and the like. Weights are not rescaled: rows sum to less than 1.",
        ),
    ] = False,
    data: Annotated[str, typer.Option("--data", metavar="test", help="Average over the run's test images.")] = "",
    count: Annotated[int, typer.Option("--count", min=1, help="With --data: number of test images.")] = 200,
    out: Annotated[Path, typer.Option("--out", help="A folder, or a .png, .svg or .npz file.")] = Path("attention"),
    as_json: Json = False,
    settings: Settings = None,
    device: Device = "auto",
    download: Download = False,
) -> None:
    """Draw what a model attends to: maps per layer and head, rollout, relevance for a class, attention distance.

    Works for every family with attention: weights of windows, stripes, pales and reduced keys are mapped back to the
    image. The query is [CLS] if there is one, else the mean of all patches, or the patch at --at X,Y. Without options,
    maps, rollout, relevance for the predicted class, and distance are all drawn. A folder gets PNG, SVG and arrays
    (.npz; with --layer, also the attention weights of all token pairs). Figures are slides of 16:9: maps beside the
    image, with the query marked; of a text, the last layer with words on both axes, beside all layers and heads.

    Of a DETR, the cross-attention of the best queries is drawn, each with its box, class and score: the last decoder
    layer and the mean of its heads, or those of --layer and --head. --at X,Y draws the self-attention of a point in
    the encoder.

    Examples:

      patchword attention runs/vit shoe.png
      patchword attention runs/swin shoe.png --layer 3 --head 2 --at 14,9 --out head.png
      patchword attention runs/vit shoe.png --relevance Sneaker --out why.svg
      patchword attention runs/vit --data test --count 200 --distance
      patchword attention runs/reviews "What a film!" --layer 2 --head 1 --hide-special
      patchword attention runs/detr street.jpg --out queries.png
    """
    from patchword.core.errors import UserError
    from patchword.inspection.attention_options import PREDICTED, AttentionOptions
    from patchword.reports.attention.files import check_out, write_attention

    if data and "=" in given:  # the input is the test set
        given, fields = "", [given, *(fields or [])]
    settings = settings_of(settings, fields)
    named = [("rollout", rollout), ("relevance", bool(relevance)), ("distance", distance)]
    wanted = [name for name, chosen in named if chosen]
    wanted = (["maps"] if wanted and (layer or head) else []) + wanted
    one = out.suffix.lower() in (".png", ".svg") or layer or head
    every = wanted or (["maps"] if one else ["maps", *(name for name, _ in named)])
    check_out(out, every)
    target = relevance or (PREDICTED if "relevance" in every else "")
    question = AttentionOptions(tuple(layer or ()), tuple(head or ()), _pixel(at), "rollout" in every, target)
    fetch_model(model, download)
    if _is_detector(model):
        from patchword.cli.inspection.attention_of_queries import show_query_attention

        given_too = [
            f"--{name}"
            for name, chosen in (*named, ("pair", bool(pair)), ("data", bool(data)), ("hide-special", hide_special))
            if chosen
        ]
        show_query_attention(model, given, question, given_too, out, as_json, settings, device)
        return
    _refuse_segmenter(model)
    of_texts = _is_of_texts(model)
    if of_texts and settings:
        _refuse_settings(model, settings)
    if hide_special and not of_texts:
        raise UserError(f"{model} reads images", expected="no --hide-special, which is for the tokens of a text")
    found = (
        _text(model, given, pair, data, question, device)
        if of_texts
        else _images(model, given, pair, data, count, question, settings, device)
    )
    files = write_attention(found, every, out, hide_special)
    if as_json:
        typer.echo(json.dumps(_record(found, files), indent=2, ensure_ascii=False))
        return
    _print(found)
    print_lines(files)


def _is_detector(model: str) -> bool:
    from patchword.models.detection import DETECTORS
    from patchword.pipelines.detection.opening import is_detector
    from patchword.weights.local_path import local_path

    return model in DETECTORS or (local_path(model).exists() and is_detector(local_path(model)))


def _refuse_segmenter(model: str) -> None:
    from patchword.cli.models.segmenters import is_segmenter
    from patchword.core.errors import UserError

    if is_segmenter(model):
        raise UserError(f"{model} is a segmenter", expected="an image classifier, a model of texts, or a DETR")


def _refuse_settings(model: str, settings: list[str]) -> None:
    from patchword.core.errors import UserError

    hint = "put a text in quotes; a second one is --pair TEXT"
    raise UserError(f"{model} reads texts", expected="no fields", got=" ".join(settings), hint=hint)


def _is_of_texts(model: str) -> bool:
    from patchword.cli.training.predict import reads_texts
    from patchword.models import REGISTRY

    if model in REGISTRY.names() and not Path(model).exists():
        return not REGISTRY.reads_images(model)
    return reads_texts(model)


def _pixel(at: str) -> tuple[int, int] | None:
    from patchword.core.errors import UserError

    if not at:
        return None
    try:
        column, row = (int(part) for part in at.split(","))
    except ValueError:
        raise UserError("cannot read --at", expected="X,Y in pixels, e.g. 14,9", got=repr(at)) from None
    return column, row


def _text(model: str, given: str, pair: str, data: str, question: "AttentionOptions", device: str) -> "TextAttention":
    from patchword.core.errors import UserError
    from patchword.data.image.sources import IMAGE_SUFFIXES
    from patchword.inspection.attention_texts import text_attention
    from patchword.recipes.text.inference.reader import open_reader

    if data or not given.strip():
        raise UserError(f"{model} reads texts", expected="a text in quotes", got=f"--data {data}" if data else "none")
    if Path(given).suffix.lower() in IMAGE_SUFFIXES and Path(given).is_file():
        raise UserError(f"{model} reads texts", expected="a text in quotes", got=f"the image {given}")
    return text_attention(open_reader(model, device), given, pair, question)


def _images(
    model: str,
    given: str,
    pair: str,
    data: str,
    count: int,
    question: "AttentionOptions",
    settings: list[str] | None,
    device: str,
) -> "ImageAttention":
    from patchword.cli.common import find_run, model_of
    from patchword.cli.text.answers import messages, progress
    from patchword.core.errors import UserError
    from patchword.inspection.attention import look
    from patchword.inspection.attention_images import opened, read_image, test_images_of
    from patchword.models import REGISTRY

    if pair:
        raise UserError(f"{model} reads images", expected="no --pair, which is a second text")
    if data and given:
        raise UserError("two inputs", expected="one image, or --data test", got=f"{given} and --data {data}")
    if model in REGISTRY.names():
        messages(as_json=True).print(f"{model} has random weights: use a run to see what was learned", style="yellow")
    found = opened(model_of(model, settings), device)
    pixels = test_images_of(find_run(Path(model)), found, data, count) if data else read_image(found, given)
    with progress(sum(map(len, pixels)), "images") as bar:
        return look(found, pixels, question, bar)


def _record(found: "ImageAttention | TextAttention", files: list[Path]) -> dict[str, object]:
    from patchword.inspection.attention import ImageAttention

    unit = "pixels" if isinstance(found, ImageAttention) else "tokens"
    rows = [
        {"layer": layer.number, "heads": list(layer.heads), f"distance_{unit}": layer.distance.tolist()}
        for layer in found.layers
    ]
    return {"model": found.model, "class": found.about, "layers": rows, "files": [str(file) for file in files]}


def _print(found: "ImageAttention | TextAttention") -> None:
    from rich.table import Table

    from patchword.inspection.attention import ImageAttention

    unit = "pixels" if isinstance(found, ImageAttention) else "tokens"
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in ("layer", "heads", f"mean distance ({unit})", "lowest head", "highest head"):
        table.add_column(name, justify="right", no_wrap=True)
    for layer in found.layers:
        far = layer.distance
        numbers = (f"{float(value):.1f}" for value in (far.mean(), far.min(), far.max()))
        table.add_row(str(layer.number), str(len(layer.heads)), *numbers)
    out = console(90)
    out.print(table, highlight=False)
    out.print(f"class: {found.about}\n" if found.about else "", highlight=False, markup=False)
