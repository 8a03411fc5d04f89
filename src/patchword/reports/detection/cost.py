"""The cost of a detector in its report: parameters and MACs of its parts."""

from patchword.analysis.cost.detection import CONVENTION, DetectorCost, count_detector, largest_input
from patchword.core.card import Card
from patchword.reports.plots import page
from patchword.reports.plots.numbers import percent


def cost_section(card: Card) -> str:
    """Return the table of the parts of a detector, and the anchors of each level."""
    height, width = largest_input(card)
    cost = count_detector(card, size=(height, width))
    rows = [
        page.row(one.title, f"{one.macs:,}", percent(one.macs / max(cost.macs, 1), 1), f"{one.parameters:,}")
        for one in cost.sections()
    ]
    total = page.row("sum", f"{cost.macs:,}", "", f"{cost.parameters:,}", kind="total")
    caption = f"One image of {width} x {height} pixels, the largest that it reads"
    head = ("part", "multiply-accumulates (MACs)", "of all", "parameters")
    html = page.table(caption, head, rows, [total], kind="measures")
    notes = [*_anchors(cost), CONVENTION]
    return page.section("Cost", html + "".join(page.paragraph(note, "note") for note in notes))


def _anchors(cost: DetectorCost) -> list[str]:
    """Return a sentence on the anchors, if the detector has any."""
    levels = "; ".join(f"{one.name} {one.working()}" for one in cost.anchors)
    return [f"Anchors of each level (rows x columns x anchors per cell): {levels}."] if levels else []
