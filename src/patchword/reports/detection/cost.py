"""The cost of a detector in its report: parameters and MACs of its parts."""

from patchword.analysis.cost.detection import CONVENTION, DetectorCost, count_detector
from patchword.core.card import Card
from patchword.reports.plots import page
from patchword.reports.plots.numbers import percent

_MULTIPLE = 32  # images are padded to a multiple of it


def largest_input(card: Card) -> tuple[int, int]:
    """Return height and width of the largest image that a detector reads, in landscape format and padded."""
    sides = sorted((int(card.config["min_size"]), int(card.config["max_size"])))
    height, width = (-(-side // _MULTIPLE) * _MULTIPLE for side in sides)
    return height, width


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
    return page.section("Cost", html + page.paragraph(_anchors(cost), "note") + page.paragraph(CONVENTION, "note"))


def _anchors(cost: DetectorCost) -> str:
    levels = "; ".join(f"{one.name} {one.working()}" for one in cost.anchors)
    return f"Anchors of each level (rows x columns x anchors per cell): {levels}."
