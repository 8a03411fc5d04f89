"""compare --dense: compares detectors and segmenters by published, counted and measured figures."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from patchword.analysis.published.dense_comparison import DenseRow
    from patchword.reports.comparison.dense import DenseComparison


def compare_dense(
    words: Sequence[str], device: str, batch: int, seconds: float, speed: bool, out: "Console"
) -> "DenseComparison":
    """Return the comparison of the published systems that the words match. speed: also time them on this machine."""
    from patchword.analysis.published.dense_comparison import dense_rows
    from patchword.core.device import machine, pick_device, pick_precision
    from patchword.reports.comparison.dense import DenseComparison

    place, rows = pick_device(device), dense_rows(words)
    described = machine(place)
    if not speed:
        return DenseComparison(rows, described)
    precision = pick_precision("auto", place)
    found: dict[tuple[str, str], DenseRow] = {}
    for row in rows:
        pair = row.published.system, row.published.backbone
        if pair not in found:
            out.print(f"measuring {pair[0]}, {pair[1]}", highlight=False)
            found[pair] = _measured(row, str(place), precision, batch, seconds)
    timed = [found[row.published.system, row.published.backbone] for row in rows]
    rows = [replace(row, speed=one.speed, failure=one.failure) for row, one in zip(rows, timed, strict=True)]
    how = f"{described['device']}, batch {batch}, {precision}, torch {described['torch']}"
    return DenseComparison(rows, described, how)


def _measured(row: "DenseRow", device: str, precision: str, batch: int, seconds: float) -> "DenseRow":
    """Return the row with its speed, or with the reason why there is none."""
    from statistics import median

    import torch

    from patchword.analysis.published.dense_comparison import create_dense
    from patchword.analysis.speed import Speed, timed

    try:
        model = create_dense(row.published).eval().to(device)
        images = torch.randn(batch, 3, *row.published.size, device=device)
        if precision == "bfloat16":
            model, images = model.to(torch.bfloat16), images.to(torch.bfloat16)
        taken = timed(lambda: model(images), torch.device(device), seconds)
    except (RuntimeError, MemoryError) as error:
        return replace(row, failure=str(error).partition("\n")[0][:200])
    return replace(row, speed=Speed(batch, len(taken), median(taken), None))
