"""What the browser tests do on the pages of the lab."""

import json
from pathlib import Path
from typing import Any

SHIRT = [
    *(((column, 5), (column, 24)) for column in (8, 11, 14, 17, 20)),
    *(((8, 5), (3, 11)), ((20, 5), (25, 11)), ((9, 6), (4, 12)), ((19, 6), (24, 12))),
]


def move(page: Any, field: str, value: float) -> None:
    """Move a slider of the page Cost with the keyboard until it shows a value."""
    slider = page.locator(f"#field-{field}")
    slider.press("Home")
    for _ in range(400):
        shown = str(slider.get_attribute("aria-valuetext")).split()[0]
        if float(shown.replace(",", "")) == value:
            return
        slider.press("ArrowRight")
    raise AssertionError(f"{field} never shows {value}")


def sums(page: Any, model: str = "vit-exercise") -> dict[str, int]:
    """Return the sums that the page Cost shows."""
    row = page.locator(f"[data-sums='{model}']")
    names = ("layer-macs", "layer-parameters", "macs", "parameters")
    return {name: int(row.locator(f"[data-sum='{name}']").inner_text().replace(",", "")) for name in names}


def draw(page: Any, strokes: Any = SHIRT) -> None:
    """Draw lines between points of the 28 x 28 pixels with the mouse."""
    box = page.locator(".surface").bounding_box()
    side = box["width"] / 28
    for start, end in strokes:
        page.mouse.move(box["x"] + start[0] * side, box["y"] + start[1] * side)
        page.mouse.down()
        page.mouse.move(box["x"] + end[0] * side, box["y"] + end[1] * side, steps=6)
        page.mouse.up()
    page.mouse.move(1, 1)


def saved(page: Any, group: str, button: str) -> bytes:
    """Return the file that a button of a "Save" group gives."""
    with page.expect_download() as found:
        page.get_by_role("group", name=group).get_by_role("button", name=button, exact=True).click()
    return Path(found.value.path()).read_bytes()


def saved_json(page: Any, group: str) -> Any:
    return json.loads(saved(page, group, "JSON"))
