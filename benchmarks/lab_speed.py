"""How soon the lab answers: milliseconds from an action to the frame that shows it, and of a request for attention.

Run with `python benchmarks/lab_speed.py [--minilm FOLDER]` on a machine that does nothing else; needs Chromium.
"""

import argparse
import json
import shutil
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import numpy as np
from playwright.sync_api import sync_playwright

from patchword.weights.local_path import local_path
from support.lab.actions import draw
from support.lab.process import running_lab

SLIDERS = {  # page, what it shows when it is ready, the slider
    "Cost: width": ("#/cost", "[data-check=agrees]", "#field-width"),
    "Embeddings: layer": ("#/embeddings?model=digits-vit&set=sample", "[data-ready=yes]", "#embeddings-layer"),
    "Positions: length": ("#/positions", "[data-figure=matrix]", "#length"),
    "Positions: weight of the kernel": ("#/positions?show=convolution", "[data-check=agrees]", "#kernel-5"),
    "Landscape: azimuth": ("#/landscape?runs=zoo:vit-exercise", "[data-figure=landscape]", "#azimuth"),
    "Draw: query patch": ("#/draw", "[data-figure=heads]", "#query"),
    "Windows: head, Big Bird, 64 x 64 blocks": (
        "#/windows?model=bigbird-base&tokens=4096",
        "[data-keys]",
        "#windows-head",
    ),
}
HEADS = {  # buttons that choose a head
    "Words: head": ("#/words?view=attention", "[data-figure=sheet]"),
    "Words: head, one token followed": ("#/words?view=walk", "[data-figure=stream]"),
    "Patches: head": ("#/patches", "[data-look]"),
}
QUERIES = {  # arrow keys move the query
    "Windows: query, 56 x 56 tokens": ("#/windows?model=swin-tiny&stage=1&block=2", "[data-keys]"),
    "Windows: query, Big Bird, 64 x 64 blocks": ("#/windows?model=bigbird-base&tokens=4096", "[data-keys]"),
}

FRAMES = """async (selector) => {
  const slider = document.querySelector(selector), times = []
  const keys = ['ArrowRight', 'ArrowLeft']
  for (let turn = 0; turn < 41; turn++) {
    await new Promise((resolve) => setTimeout(resolve, 60))
    const start = performance.now()
    if (turn % 2) slider.stepDown(); else slider.stepUp()
    slider.dispatchEvent(new Event('input', { bubbles: true }))
    await new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)))
    times.push(performance.now() - start)
  }
  return times
}"""

PRESSES = """async () => {
  const times = []
  for (let turn = 0; turn < 41; turn++) {
    await new Promise((resolve) => setTimeout(resolve, 60))
    const button = document.querySelector(`[aria-label="Head ${2 - (turn % 2)}"]`)
    const start = performance.now()
    button.click()
    await new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)))
    times.push(performance.now() - start)
  }
  return times
}"""

KEYS = """async () => {
  const surface = document.querySelector('[data-surface=first]'), times = []
  const keys = ['ArrowDown', 'ArrowRight', 'ArrowUp', 'ArrowLeft']
  for (let turn = 0; turn < 41; turn++) {
    await new Promise((resolve) => setTimeout(resolve, 60))
    const start = performance.now()
    surface.dispatchEvent(new KeyboardEvent('keydown', { key: keys[turn % 4], bubbles: true }))
    await new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)))
    times.push(performance.now() - start)
  }
  return times
}"""

STROKE = """async () => {
  const surface = document.querySelector('.surface'), box = surface.getBoundingClientRect(), times = []
  const send = (kind, x, y) => {
    const place = { clientX: box.x + x * box.width / 28, clientY: box.y + y * box.height / 28 }
    const all = { bubbles: true, pointerId: 1, isPrimary: true, button: 0, buttons: 1, ...place }
    surface.dispatchEvent(new PointerEvent(kind, all))
  }
  surface.setPointerCapture = () => {}
  send('pointerdown', 8, 6)
  for (let turn = 0; turn < 41; turn++) {
    await new Promise((resolve) => setTimeout(resolve, 60))
    const start = performance.now()
    // Registered before the stroke, so that its timer is before that of the model, which runs after the frame.
    const painted = new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)))
    send('pointermove', 8 + (turn % 12), 6 + turn / 3)
    await painted
    times.push(performance.now() - start)
  }
  send('pointerup', 12, 20)
  return times
}"""

TURNS = """async () => {
  const surface = document.querySelector('[role=application]'), times = []
  let before = performance.now()
  for (let turn = 0; turn < 61; turn++) {
    surface.dispatchEvent(new KeyboardEvent('keydown', { key: 'ArrowRight', bubbles: true }))
    await new Promise(requestAnimationFrame)
    times.push(performance.now() - before)
    before = performance.now()
  }
  return times
}"""

IMAGES = """async () => {
  const times = []
  for (let turn = 0; turn < 21; turn++) {
    const canvas = new OffscreenCanvas(28, 28), paint = canvas.getContext('2d')
    paint.fillStyle = `rgb(${turn * 9} 80 120)`
    paint.fillRect(turn, 3, 9, 20)
    const image = await canvas.convertToBlob({ type: 'image/png' })
    const start = performance.now()
    const reply = await fetch('/api/look/vit-exercise', { method: 'POST', body: image,
      headers: { 'content-type': 'application/octet-stream' } })
    if (!reply.ok) throw new Error(await reply.text())
    await reply.arrayBuffer()
    times.push(performance.now() - start)
  }
  return times
}"""

SENTENCES = """async (id) => {
  const times = []
  for (let turn = 0; turn < 21; turn++) {
    const text = `The animal did not cross street number ${turn} because it was too tired.`
    const start = performance.now()
    const reply = await fetch(`/api/words/${id}/attention`, { method: 'POST', body: JSON.stringify({ text }),
      headers: { 'content-type': 'application/json' } })
    if (!reply.ok) throw new Error(await reply.text())
    await reply.arrayBuffer()
    times.push(performance.now() - start)
  }
  return times
}"""


def row(name: str, times: list[float], limit: float) -> None:
    """Print the median and the slowest of the times after the first."""
    middle, slowest = statistics.median(times[1:]), max(times[1:])
    print(f"| {name} | {middle:.0f} | {slowest:.0f} | {limit:.0f} |", flush=True)


def with_fine_landscape(name: str, folder: Path) -> Path:
    """Return a copy of a model of the zoo whose landscape has 41 x 41 points, interpolated between its own."""
    copy = Path(shutil.copytree(local_path(f"zoo:{name}"), folder / f"fine-{name}"))
    kept = json.loads((copy / "landscape.json").read_text())
    places = np.linspace(-1, 1, 41)
    for values in ("loss", "accuracy"):
        rows = np.array([np.interp(places, kept["places"], row) for row in kept[values]])
        kept[values] = np.array([np.interp(places, kept["places"], column) for column in rows.T]).T.tolist()
    (copy / "landscape.json").write_text(json.dumps(kept | {"places": places.tolist()}))
    return copy


def visit(page: Any, place: str, ready: str) -> None:
    page.evaluate(f"location.hash = '{place}'")
    page.wait_for_selector(ready)
    page.wait_for_timeout(1500)


def measure(page: Any, address: str, model: str | None, surfaces: list[str]) -> None:
    page.goto(address)
    page.wait_for_load_state("networkidle")
    paints = "performance.getEntriesByName('first-contentful-paint').map((entry) => entry.startTime)"
    first = page.evaluate(paints)
    print("| action | median, ms | slowest, ms | limit, ms |\n|---|---|---|---|")
    if first:
        print(f"| first paint | {first[0]:.0f} | | 500 |")
    for name, (place, ready, slider) in SLIDERS.items():
        visit(page, place, ready)
        row(name, page.evaluate(FRAMES, slider), 50)
    for script, places in ((PRESSES, HEADS), (KEYS, QUERIES)):
        for name, (place, ready) in places.items():
            visit(page, place, ready)
            row(name, page.evaluate(script), 50)
    page.evaluate("location.hash = '#/draw'")
    page.wait_for_selector("[data-figure=heads]")
    draw(page)
    row("Draw: stroke", page.evaluate(STROKE), 50)
    page.evaluate(f"location.hash = '#/landscape?runs={','.join(f'@{name}' for name in surfaces)}'")
    page.wait_for_selector("[data-figure=landscape]")
    page.wait_for_timeout(1500)
    row("Landscape: frame, two surfaces of 41 x 41 turning", page.evaluate(TURNS), 33)
    row("attention of a new image, vit-exercise", page.evaluate(IMAGES), 200)
    if model:
        row("attention of a sentence, MiniLM", page.evaluate(SENTENCES, model), 300)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minilm", type=Path, help="the folder of a BERT, e.g. all-MiniLM-L6-v2")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        surfaces = [with_fine_landscape(name, Path(scratch)) for name in ("vit-exercise", "resnet-mini")]
        run(given.minilm, surfaces)


def run(minilm: Path | None, surfaces: list[Path]) -> None:
    models = [*([minilm] if minilm else []), *surfaces]
    with running_lab(*models) as address, sync_playwright() as playwright:
        chromium = shutil.which("chromium") or "/usr/bin/chromium"
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1366, "height": 768})
        measure(page, address, minilm.name.lower() if minilm else None, [surface.name for surface in surfaces])
        browser.close()


if __name__ == "__main__":
    main()
