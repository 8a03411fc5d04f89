"""HTML of results for notebooks. All styles are inline, and everything that comes from the user is escaped."""

import base64
import io
import zlib
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

import numpy as np
from PIL import Image
from torch import Tensor

from patchword.core.errors import UserError
from patchword.data.image.image_file import convert_image, read_image
from patchword.pipelines.detection.answer import DetectionAnswer
from patchword.pipelines.detection.pixels import upright_image
from patchword.pipelines.image_inputs import OneImage
from patchword.pipelines.segmentation.answer import SegmentationAnswer
from patchword.pipelines.tables import shown_input
from patchword.recipes.text.inference.answers import (
    ClassAnswer,
    LabelsAnswer,
    NumberAnswer,
    SpanAnswer,
    TagAnswer,
    TextAnswer,
)
from patchword.reports.plots.numbers import shortened

_SIDE = 96  # pixels of a thumbnail
_BAR = 140  # pixels of a bar of probability 1
_CELL = "padding:6px 14px 6px 0;text-align:left;vertical-align:top"
_DRAWN = 480  # pixels of the longer side of a drawn image
_MOST_BARS = 20  # objects that have a bar
_LONGEST = 2000  # characters of a text


def table_of(rows: Iterable[str], note: str = "") -> str:
    """Return a table. rows: finished `<tr>` elements. note: a line below it."""
    below = f'<div style="opacity:.7">{escape(note)}</div>' if note else ""
    return f'<table style="border-collapse:collapse;font-size:13px">{"".join(rows)}</table>{below}'


def row_of(*cells: str) -> str:
    """Return a row. cells: finished HTML."""
    columns = "".join(f'<td style="{_CELL}">{cell}</td>' for cell in cells)
    return f"<tr>{columns}</tr>"


def prediction_rows(
    given: OneImage | str,
    pair: str | None,
    output: TextAnswer | DetectionAnswer | SegmentationAnswer | None,
    error: str,
) -> str:
    """Return the row of one prediction: the input beside its answer."""
    if output is None:
        return row_of(_input(given, pair), f'<span style="color:#c62828">{escape(error)}</span>')
    match output:
        case ClassAnswer() | LabelsAnswer():
            return row_of(_input(given, pair), bars(output.probabilities))
        case NumberAnswer():
            return row_of(_input(given, pair), f"<b>{output.number:.4g}</b>")
        case TagAnswer():
            return row_of(_tagged(output))
        case SpanAnswer():
            return row_of(_answered(str(given), pair or "", output))
        case DetectionAnswer():
            return row_of(_drawn(given, output), _object_bars(output))
        case SegmentationAnswer():
            return row_of(_drawn(given, output), bars(list(output.share.items())[:_MOST_BARS]))


def bars(probabilities: Sequence[tuple[str, float]]) -> str:
    """Return a bar per name, as long as its probability."""
    return "".join(
        '<div style="display:flex;align-items:center;line-height:1.6">'
        f'<span style="width:11em;overflow:hidden;text-overflow:ellipsis;white-space:nowrap">{escape(name)}</span>'
        f'<span style="width:{_BAR}px"><span style="display:block;height:10px;background:#3f6fb5;'
        f'width:{max(1, round(_BAR * probability))}px"></span></span>'
        f'<span style="margin-left:8px">{probability:.1%}</span></div>'
        for name, probability in probabilities
    )


def png(image: Image.Image | bytes, alt: str, style: str = "") -> str:
    """Return an inline image."""
    data = image
    if isinstance(data, Image.Image):
        buffer = io.BytesIO()
        data.save(buffer, "PNG")
        data = buffer.getvalue()
    return _inline(data, "png", alt, style)


def _inline(data: bytes, kind: str, alt: str, style: str) -> str:
    encoded = base64.b64encode(data).decode("ascii")
    return f'<img alt="{escape(alt)}" style="{style}" src="data:image/{kind};base64,{encoded}">'


def _input(given: OneImage | str, pair: str | None) -> str:
    if isinstance(given, str):
        texts = [given, *([pair] if pair is not None else [])]
        return "<br>".join(f"<span>{escape(shortened(text, _LONGEST))}</span>" for text in texts)
    thumbnail = _thumbnail(given)
    name = shown_input(given) if thumbnail is None or isinstance(given, Path) else ""
    small = png(thumbnail, name, "max-width:none") if thumbnail else ""
    return f'{small}<div style="font-size:11px;opacity:.7">{escape(name)}</div>'


def _drawn(given: OneImage | str, output: DetectionAnswer | SegmentationAnswer) -> str:
    """Return the drawn image; its name alone if the file is gone."""
    assert not isinstance(given, str), "detectors and segmenters read images"
    name = shown_input(given)
    below = f'<div style="font-size:11px;opacity:.7">{escape(name)}</div>'
    try:
        drawn = output.draw(upright_image(given), smallest=_DRAWN, largest=_DRAWN)
    except UserError:
        return below
    buffer = io.BytesIO()
    drawn.save(buffer, "JPEG", quality=88)
    return _inline(buffer.getvalue(), "jpeg", name, "max-width:none") + below


def _object_bars(output: DetectionAnswer) -> str:
    """Return a bar per object, as long as its score."""
    pairs = list(zip(output.names, output.found.scores.tolist(), strict=True))
    more = f"<div>... and {len(pairs) - _MOST_BARS:,} more</div>" if len(pairs) > _MOST_BARS else ""
    return bars(pairs[:_MOST_BARS]) + more if pairs else "no objects"


def _thumbnail(given: OneImage) -> Image.Image | None:
    """Return a small copy of an image; None for a file that is gone, and for normalized values."""
    if isinstance(given, Tensor) and given.is_floating_point():
        return None
    try:
        image = read_image(given, 3) if isinstance(given, Path) else convert_image(_opened(given), 3)
    except UserError:
        return None
    image.thumbnail((_SIDE, _SIDE))
    return image


def _opened(given: OneImage) -> Image.Image:
    if isinstance(given, Image.Image):
        return given
    array = given.permute(1, 2, 0).cpu().numpy() if isinstance(given, Tensor) else given
    assert isinstance(array, np.ndarray), "a path is read from its file"
    return Image.fromarray(array[..., 0] if array.ndim == 3 and array.shape[2] == 1 else np.ascontiguousarray(array))


def _tagged(answer: TagAnswer) -> str:
    """Return the text with a colour per kind of tag; O, which means no tag, has none."""
    parts, place = [], 0
    for word in answer.words:
        parts.append(escape(answer.text[place : word.start]))
        parts.append(_mark(answer.text[word.start : word.end], word.tag, word.probability))
        place = word.end
    return f'<div style="line-height:2.2">{"".join(parts)}{escape(answer.text[place:])}</div>'


def _mark(word: str, tag: str, probability: float) -> str:
    if tag == "O":
        return escape(word)
    return (
        f'<span title="{probability:.1%}" style="{_coloured(tag)}">{escape(word)}'
        f'<span style="font-size:10px;opacity:.75;margin-left:4px;white-space:nowrap">{escape(tag)}</span></span>'
    )


def _coloured(tag: str) -> str:
    """Return the style of a tag: B-person and I-person have the same colour."""
    kind = tag[2:] if tag[:2] in ("B-", "I-") else tag
    hue = zlib.crc32(kind.encode()) % 360
    return f"background:hsla({hue},70%,50%,.3);border-radius:3px;padding:2px 4px"


def _answered(context: str, question: str, answer: SpanAnswer) -> str:
    """Return the question, the context with the best answer marked, and the probabilities of the answers."""
    found = answer.ranked()
    best = found[0] if found else None
    if best is None or best.start is None:
        shown = escape(shortened(context, _LONGEST))
    else:
        before, after = context[: best.start][-_LONGEST // 2 :], context[best.end :][: _LONGEST // 2]
        shown = f"{escape(before)}<mark>{escape(best.text)}</mark>{escape(after)}"
    listed = bars([(one.text or "(no answer)", one.probability) for one in found])
    return f"<b>{escape(question)}</b><div>{shown}</div>{listed}"
