"""robustness: measures a run on corrupted images and at other resolutions."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from patchword.cli.common import Device, Json, RunArgument, console, find_writable_run

if TYPE_CHECKING:
    from patchword.inspection.robustness import Robustness


def robustness(
    run: RunArgument,
    kinds: Annotated[
        str, typer.Option("--kinds", help="Corruptions, or the groups noise, blur, weather, digital; all or none.")
    ] = "all",
    severities: Annotated[str, typer.Option("--severities", metavar="1-5", help="One, a list, or a range.")] = "1-5",
    sizes: Annotated[str, typer.Option("--sizes", metavar="32,64", help="Other image sizes to test, in pixels.")] = "",
    count: Annotated[int | None, typer.Option("--count", min=1, help="Number of test images; all by default.")] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the random corruptions.")] = 0,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Measure accuracy under the 15 common corruptions, at five severities, and at other resolutions.

    Noise: gaussian, shot, impulse. Blur: defocus, glass, motion, zoom. Weather: snow, frost, fog, brightness. Digital:
    contrast, elastic, pixelate, jpeg. All are generated from the run's test images, with strengths scaled to their
    size; frost is a synthetic texture, not a photograph. Compare the figures between your runs, not with published
    ones. The mean corruption accuracy is the mean over kinds of the mean over severities.

    Writes robustness.json and figures into the run folder, and updates report.html if there is one. Results that are
    not measured again (--kinds none, or no --sizes) are kept if weights, images and seed are the same.

    Examples:

      patchword robustness runs/vit
      patchword robustness runs/vit --kinds blur,fog --severities 3,5 --count 1000
      patchword robustness runs/vit --kinds none --sizes 20,28,36
    """
    from patchword.cli.text.answers import progress
    from patchword.core.errors import UserError
    from patchword.core.grid import sides as sides_of
    from patchword.inspection.robustness import Plan, robustness
    from patchword.recipes.evaluation import evaluate
    from patchword.reports import write_report
    from patchword.reports.comparison.robustness import write_robustness

    found = find_writable_run(run)
    plan = Plan(_kinds(kinds), _span("severities", severities, 5), _span("sizes", sizes, 4096), count, seed)
    if not plan.kinds and not plan.sizes:
        raise UserError("nothing to measure", expected="some --kinds, or --sizes such as 20,28,36")
    card = found.model().card
    images = found.test_images(card)
    with progress(1, "of all") as bar:
        result = robustness(found, plan, device, bar)
    files = write_robustness(found, result, images, max(sides_of(card.config["image"])))
    if (found.folder / "report.html").is_file():
        files.append(write_report(found, evaluate(found, device)))
    if as_json:
        typer.echo(json.dumps(result.to_json() | {"files": [str(file) for file in files]}, indent=2))
        return
    _print(result, files)


def _kinds(text: str) -> tuple[str, ...]:
    from patchword.core.errors import UserError, nearest
    from patchword.data.corruptions import CORRUPTIONS, GROUPS

    if text in ("all", "none"):
        return tuple(CORRUPTIONS) if text == "all" else ()
    chosen: list[str] = []
    for word in text.split(","):
        if word not in CORRUPTIONS and word not in GROUPS:
            raise UserError(
                f"no corruption is called {word!r}", hint=nearest(word, [*CORRUPTIONS, *GROUPS, "all", "none"])
            )
        chosen += GROUPS.get(word, (word,))
    return tuple(kind for kind in CORRUPTIONS if kind in chosen)


def _span(name: str, text: str, most: int) -> tuple[int, ...]:
    """Parse e.g. 1,3 or 1-5."""
    from patchword.core.errors import UserError

    if not text:
        return ()
    numbers: set[int] = set()
    try:
        for part in text.split(","):
            first, _, last = part.partition("-")
            numbers |= set(range(int(first), int(last or first) + 1))
    except ValueError:
        numbers = set()
    if not numbers or min(numbers) < 1 or max(numbers) > most:
        raise UserError(f"cannot read --{name}", expected=f"numbers from 1 to {most}, e.g. 1-5 or 1,3", got=repr(text))
    return tuple(sorted(numbers))


def _print(found: "Robustness", files: list[Path]) -> None:
    from rich.table import Table

    out = console(96)
    if found.corrupted:
        severities = list(next(iter(found.corrupted.values())))
        table = Table(box=None, header_style="bold", pad_edge=False)
        for name in ("accuracy (%)", *(f"severity {severity}" for severity in severities), "mean"):
            table.add_column(name, justify="left" if name.startswith("accuracy") else "right", no_wrap=True)
        for kind, row in found.corrupted.items():
            table.add_row(kind, *(f"{100 * value:.1f}" for value in row.values()), f"{100 * found.of_kind(kind):.1f}")
        out.print(table, highlight=False)
        out.print(f"\nmean corruption accuracy: {100 * found.mean:.2f}%", highlight=False)
    out.print(f"clean accuracy: {100 * found.clean:.2f}% of {found.images:,} test images", highlight=False)
    for size, value in found.sizes.items():
        out.print(f"at {size} x {size} pixels: {100 * value:.2f}%", highlight=False)
    for file in files:
        typer.echo(file)
