"""The models of the registry beside their published figures, as JSON for the page Compare.

Rows of images, texts and dense systems have the same fields. Counts are those that the registry stores, so that the
page opens at once; a dense system, which has none, is counted when it is asked for.
"""

import re
from typing import Any

from patchword.analysis.published.comparison import apart, row_of
from patchword.analysis.published.dense import PUBLISHED_DENSE, PublishedDense
from patchword.analysis.published.dense_comparison import DenseRow, dense_row_of
from patchword.analysis.published.image import ONE
from patchword.analysis.published.text import PUBLISHED_TEXTS, TASKS, PublishedText
from patchword.lab.errors import UnknownIdError
from patchword.models import REGISTRY
from patchword.models.detection import DETECTORS
from patchword.models.segmentation import SEGMENTERS

TOP1, BOX, MASK, MIOU = "ImageNet top-1", "COCO box AP", "COCO mask AP", "ADE20K mIoU"


def comparison_json() -> dict[str, Any]:
    """Return the groups of models, each with its scores and rows. Nothing is built or counted."""
    images = [name for name in REGISTRY.names() if REGISTRY.reads_images(name)]
    texts = [name for name in REGISTRY.names() if not REGISTRY.reads_images(name)]
    return {
        "images": {"scores": [TOP1], "rows": [_image_row(name) for name in images]},
        "texts": {"scores": list(TASKS), "rows": [_text_row(name) for name in texts]},
        "dense": {"scores": [BOX, MASK, MIOU], "rows": [_dense_row(number) for number in range(len(PUBLISHED_DENSE))]},
    }


def counted_json(id: str) -> dict[str, Any]:
    """Return the counted parameters and MACs of a dense system, which takes about half a second."""
    number = _DENSE_IDS.get(id)
    if number is None:
        raise UnknownIdError(f"no published detector or segmenter has the id {id[:80]!r}")
    row: DenseRow = dense_row_of(PUBLISHED_DENSE[number])
    return {"parameters": row.parameters, "macs": row.macs, "marks": row.marks()}


def year_of(paper: str) -> int | None:
    """Return the year of a paper.

    >>> year_of("arXiv:2010.11929"), year_of("Radford et al., 2018"), year_of("")
    (2020, 2018, None)
    """
    if found := re.search(r"arXiv:(\d\d)\d\d\.", paper):
        return 2000 + int(found[1])
    found = re.search(r"\b(?:19|20)\d\d\b", paper)
    return int(found[0]) if found else None


def _image_row(name: str) -> dict[str, Any]:
    row, (family, _) = row_of(name), REGISTRY.find(name)
    published = row.published
    scores = {} if published.top1 is None else {TOP1: _score(published.top1, published.trained, published.source)}
    return {
        **_named(name, row.family, family.paper, name),
        "input": f"{row.image[0]} × {row.image[1]}",
        "line": [row.family, *row.image, _beyond_size(row.size), published.trained],
        "usual": published.trained in ("", ONE),
        "parameters": row.parameters,
        "macs": row.macs,
        "published": {"parameters": published.parameters, "macs": published.macs, "source": published.source},
        "marks": row.marks(),
        "scores": scores,
    }


def _text_row(name: str) -> dict[str, Any]:
    family, variant = REGISTRY.find(name)
    published = PUBLISHED_TEXTS.get(name, PublishedText())
    mark = apart(published.parameters, variant.parameters / 1e6, "M")
    size = name.removeprefix(f"{family.name}-")
    return {
        **_named(name, family.title, family.paper, name),
        "input": f"{variant.config.tokens} tokens",
        "line": [family.title, _beyond_size(size)],
        "usual": True,
        "parameters": variant.parameters,
        "macs": variant.macs,
        "published": {"parameters": published.parameters, "macs": None, "source": published.source},
        "marks": {"parameters": mark} if mark else {},
        "scores": {one.task: _score(one.value, one.part, one.source) for one in published.scores},
    }


def _dense_row(number: int) -> dict[str, Any]:
    one = PUBLISHED_DENSE[number]
    family = (SEGMENTERS if one.system in SEGMENTERS else DETECTORS)[one.system]
    figures = {BOX: one.box_ap, MASK: one.mask_ap, MIOU: one.miou}
    return {
        **_named(one.name, family.title, family.paper, one.system),
        "id": _dense_id(one),
        "label": ", ".join(filter(None, (one.backbone, one.schedule.partition(",")[0]))),
        "backbone": one.backbone,
        "input": f"{one.size[0]} × {one.size[1]}",
        "line": [one.system, one.schedule, one.backbone.partition("-")[0]],
        "usual": True,
        "parameters": None,
        "macs": None,
        "published": {"parameters": one.parameters, "macs": one.macs, "source": one.source},
        "marks": {},
        "scores": {
            name: _score(value, one.schedule, one.source) for name, value in figures.items() if value is not None
        },
    }


def _named(name: str, family: str, paper: str, code: str) -> dict[str, Any]:
    names = {"id": name, "label": name, "model": name, "family": family}
    return {**names, "paper": paper, "year": year_of(paper), "code": code}


def _score(value: float, note: str, source: str) -> dict[str, Any]:
    return {"value": value, "note": note, "source": source}


def _beyond_size(size: str) -> str:
    """Return what a variant's name has besides its size; only models that are equal in it are connected."""
    return re.sub(r"^([a-z]+|\d+)", "", size)


def _dense_id(one: PublishedDense) -> str:
    return re.sub(r"[^a-z0-9]+", "-", one.name.lower()).strip("-")


_DENSE_IDS = {_dense_id(one): number for number, one in enumerate(PUBLISHED_DENSE)}
assert len(_DENSE_IDS) == len(PUBLISHED_DENSE)
