"""compare: compares models by published, counted and measured figures."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from patchword.cli.common import Device, Json, console
from patchword.cli.completion import benchmark_names
from patchword.cli.models.measuring import measured

if TYPE_CHECKING:
    from rich.console import Console

    from patchword.reports.comparison.comparison import Comparison
    from patchword.timing.plan import Job, Rates
    from patchword.timing.texts import TextSetting

_BATCH, _BATCH_ACCELERATOR = 8, 128
_TEXT_BATCHES = (1, 32)
_WIDE = 150
Precision = Literal["auto", "float32", "bfloat16", "int8"]


@dataclass(frozen=True)
class _Options:
    models: Sequence[str]
    device: str
    precision: Precision
    batch: int | None
    tokens: int
    seconds: float
    longest: float
    compiled: bool
    speed: bool  # whether the speed is measured


@dataclass(frozen=True)
class _Plan:
    """A checked plan. compared: builds the comparison from the rows, measured or not."""

    rows: Sequence[Any]
    jobs: "Sequence[Job]"
    rates: "Rates"
    compared: "Callable[[Sequence[Any]], Comparison]"


def compare(
    models: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="MODEL", help="Model names, or patterns such as 'swin-*'.", autocompletion=benchmark_names
        ),
    ] = None,
    text: Annotated[bool, typer.Option("--text", help="Compare text models.")] = False,
    dense: Annotated[
        bool,
        typer.Option("--dense", help="Compare published detectors and segmenters; MODEL is one of them or a backbone."),
    ] = False,
    published: Annotated[
        bool, typer.Option("--published", help="Print whole tables of the papers; MODEL is a word of them.")
    ] = False,
    speed: Annotated[bool, typer.Option("--speed", help="With --dense: also measure images per second.")] = False,
    batch: Annotated[
        int | None,
        typer.Option("--batch-size", min=1, help="Images per call (8 on a CPU, 128 on a GPU), or texts (1, 32)."),
    ] = None,
    tokens: Annotated[int, typer.Option("--tokens", min=1, help="Tokens per text.")] = 128,
    precision: Annotated[
        Precision,
        typer.Option("--precision", help="auto: bfloat16 on a GPU with bfloat16 units, else float32; texts also int8."),
    ] = "auto",
    device: Device = "auto",
    seconds: Annotated[float, typer.Option("--seconds", min=0, help="Measuring time per model.")] = 3.0,
    longest: Annotated[
        float, typer.Option("--longest", min=0, help="Skip text batches that take more than this many seconds.")
    ] = 60.0,
    no_speed: Annotated[bool, typer.Option("--no-speed", help="Measure nothing; show published figures only.")] = False,
    compiled: Annotated[bool, typer.Option("--compile", help="Measure models compiled by torch.compile.")] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="FOLDER",
            help="Output folder for tables and figures; existing ones are replaced.",
            show_default="comparison, text-comparison or dense-comparison",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Compare models: published parameters, MACs and scores, counted costs, and the speed on this machine.

    Without MODEL: the image models of the lectures, or with --text all text models. Texts are measured on the CPU in
    float32 and int8, and on a GPU if there is one. Ctrl-C keeps what was measured.

    --published prints the tables of the papers as they are printed, with the models that patchword does not have.

    Examples:

      patchword compare
      patchword compare 'swin-*' cswin-tiny --batch-size 4
      patchword compare --text 'bert-*' 'distil*' --longest 20
      patchword compare --text --no-speed
      patchword compare --dense 'swin-*' 'cswin-*' --out detectors
      patchword compare --published glue
    """
    from patchword.core.files import make_folder

    if published:
        from patchword.cli.models.published import print_tables

        print_tables(models or [], as_json, other=text or dense or speed or out is not None)
        return
    if dense or speed:
        _dense(models or [], device, batch, seconds, speed and not no_speed, out, as_json, dense and not text)
        return
    options = _Options(models or [], device, precision, batch, tokens, seconds, longest, compiled, not no_speed)
    plan, screen = _texts(options) if text else _images(options), _messages(as_json)
    folder = out or Path("text-comparison" if text else "comparison")
    make_folder(folder)
    rows, stopped = measured(plan.rows, plan.jobs, plan.rates, screen)
    if stopped and not any(row.is_measured for row in rows):
        screen.print("stopped before anything was measured; nothing was written")
        raise typer.Exit(130)
    comparison = plan.compared(rows)
    _show(comparison, folder, as_json, screen)
    if stopped:
        screen.print("stopped; the remaining models have no speed", highlight=False)
        raise typer.Exit(130)
    raise typer.Exit(1 if any(row.has_failed for row in rows) else 0)


def _show(comparison: "Comparison", folder: Path, as_json: bool, screen: "Console") -> None:
    """Print a comparison as a table or as JSON, and write its files."""
    from patchword.reports.comparison.comparison import write_comparison

    written = write_comparison(comparison, folder)
    if as_json:
        typer.echo(json.dumps(comparison.to_json(), indent=2))
    else:
        print_comparison(console(_WIDE), comparison)
    screen.print(f"\nwritten: {', '.join(str(path) for path in written)}", highlight=False, markup=False)


def _dense(
    words: Sequence[str],
    device: str,
    batch: int | None,
    seconds: float,
    speed: bool,
    out: Path | None,
    as_json: bool,
    allowed: bool,
) -> None:
    from patchword.cli.models.dense import compare_dense
    from patchword.core.errors import UserError
    from patchword.core.files import make_folder

    if not allowed:
        raise UserError("--speed is for --dense, which excludes --text", expected="--dense --speed")
    screen, folder = _messages(as_json), out or Path("dense-comparison")
    comparison = compare_dense(words, device, batch or 1, seconds, speed, screen)
    make_folder(folder)
    _show(comparison, folder, as_json, screen)
    raise typer.Exit(1 if any(row.failure for row in comparison.rows) else 0)


def _messages(as_json: bool) -> "Console":
    """Return the console for progress: stderr if stdout carries JSON."""
    from patchword.training.console import PrintableConsole

    return PrintableConsole(stderr=True, soft_wrap=True) if as_json else console()


def _images(options: _Options) -> _Plan:
    from patchword.analysis.published.comparison import chosen, row_of
    from patchword.core.device import machine, pick_device, pick_precision
    from patchword.core.errors import UserError
    from patchword.reports.comparison.image import ImageComparison
    from patchword.timing.images import Setting
    from patchword.timing.plan import Rates, image_jobs

    if options.precision == "int8":
        raise UserError("image models are not measured in int8", expected="auto, float32 or bfloat16", hint="or --text")
    rows, place = [row_of(name) for name in chosen(options.models)], pick_device(options.device)
    size = options.batch or (_BATCH if place.type == "cpu" else _BATCH_ACCELERATOR)
    setting = Setting(str(place), pick_precision(options.precision, place), size, options.seconds, options.compiled)
    used = setting if options.speed else None
    jobs = image_jobs(rows, used) if used else []
    return _Plan(rows, jobs, Rates(), lambda rows: ImageComparison(rows, used, machine(place)))


def _texts(options: _Options) -> _Plan:
    from patchword.analysis.published.text_comparison import chosen_texts, text_row_of
    from patchword.core.device import machine, pick_device
    from patchword.reports.comparison.text import TextComparison
    from patchword.timing.plan import Rates, text_jobs

    names, place, rates = chosen_texts(options.models), pick_device(options.device), Rates()
    settings = _settings(options) if options.speed else []
    rows, jobs = text_jobs([text_row_of(name, options.tokens) for name in names], settings, options.longest, rates)
    return _Plan(rows, jobs, rates, lambda rows: TextComparison(rows, settings, machine(place)))


def _settings(options: _Options) -> "list[TextSetting]":
    """Return the settings to measure; by default float32 and int8 on the CPU, and the accelerator if there is one."""
    import torch

    from patchword.core.device import pick_device, pick_precision
    from patchword.timing.texts import TextSetting

    cpu, place = torch.device("cpu"), pick_device(options.device)
    places = [cpu, place] if options.device == "auto" and place != cpu else [place]
    ways: list[tuple[str, str]] = []
    for each in places:
        if options.precision != "int8":
            ways.append((str(each), pick_precision(options.precision, each)))
        if options.precision in ("auto", "int8") and each == cpu:
            ways.append(("cpu", "int8"))
    batches = (options.batch,) if options.batch else _TEXT_BATCHES
    return [
        TextSetting(device, precision, batches, options.tokens, options.seconds, options.compiled)
        for device, precision in ways
    ]


def print_comparison(out: "Console", comparison: "Comparison") -> None:
    """Print the tables, their notes and their sources."""
    from rich.table import Table

    for sheet in comparison.sheets():
        table = Table()
        used = [index for index in range(len(sheet.columns)) if any(line[index] for line in sheet.lines)]
        for index in used:
            justify: Literal["left", "right"] = "left" if sheet.columns[index] in sheet.left else "right"
            table.add_column(sheet.columns[index].replace(", ", "\n"), justify=justify, no_wrap=True)
        for line in sheet.lines:
            table.add_row(*(line[index].replace("[", "\\[") for index in used))
        out.print(table)
    for note in comparison.notes():
        out.print(note, highlight=False, markup=False)
    if comparison.sources():
        out.print("sources:")
    for number, source in enumerate(comparison.sources(), 1):
        out.print(f"  {number:>2}  {source}", highlight=False, markup=False)
