"""The cost of a segmenter in its report: parameters and MACs of its parts."""

from patchword.analysis.cost.segmentation import CONVENTION, count_segmenter
from patchword.core.card import Card
from patchword.reports.plots import page
from patchword.reports.plots.numbers import percent


def cost_section(card: Card) -> str:
    """Return the table of the parts of a segmenter, for one training crop."""
    crop = int(card.config["crop"])
    cost = count_segmenter(card, size=(crop, crop))
    rows = [
        page.row(one.title, f"{one.macs:,}", percent(one.macs / max(cost.macs, 1), 1), f"{one.parameters:,}")
        for one in cost.sections()
    ]
    total = page.row("sum", f"{cost.macs:,}", "", f"{cost.parameters:,}", kind="total")
    head = ("part", "multiply-accumulates (MACs)", "of all", "parameters")
    html = page.table(f"One image of {crop} x {crop} pixels, a training crop", head, rows, [total], kind="measures")
    return page.section("Cost", html + page.paragraph(CONVENTION, "note"))
