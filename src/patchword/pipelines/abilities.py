"""What a pipeline can be asked, which depends on the kind of its model and on its head."""

from patchword.core.errors import UserError
from patchword.pipelines.detection.engine import DetectionEngine
from patchword.pipelines.images import ImageEngine
from patchword.pipelines.segmentation.engine import SegmentationEngine
from patchword.pipelines.texts import TextEngine
from patchword.recipes.elmo.embedder import ElmoEmbedder
from patchword.recipes.translation.translating import Translating

Engine = ImageEngine | TextEngine | ElmoEmbedder | Translating | DetectionEngine | SegmentationEngine

_TITLES = {
    "p(image)": "predict classes",
    "p(text)": "predict",
    "p.detect": "detect objects",
    "p.segment": "segment images",
    "p.answer": "answer questions",
    "p.tag": "tag words",
    "p.fill": "fill masks",
    "p.generate": "generate text",
    "p.translate": "translate",
    "p.embed": "embed",
    "p.attention": "show attention",
}


def abilities(engine: Engine) -> tuple[str, ...]:
    """Return what can be asked, as a user types it."""
    if isinstance(engine, Translating):
        return "p.translate", "p.cost"
    if isinstance(engine, ElmoEmbedder):
        return "p.embed", "p.cost"
    if isinstance(engine, DetectionEngine):
        return "p(image)", "p.detect", "p.cost"
    if isinstance(engine, SegmentationEngine):
        return "p(image)", "p.segment", "p.cost"
    common = ("p.embed", "p.attention", "p.cost")
    if isinstance(engine, ImageEngine):
        return ("p(image)", *common) if engine.has_classes else common
    own = {"tags": ("p(text)", "p.tag"), "span": ("p.answer",), None: ()}.get(engine.task, ("p(text)",))
    if engine.reader.head in ("words", "pretraining"):
        own = ("p.generate",) if engine.reader.model.causal else ("p.fill",)
    return (*own, *common)


def require(engine: Engine, ability: str) -> None:
    """Raise an error that names what the model can do, if it cannot do this."""
    can = abilities(engine)
    if ability not in can:
        card = engine.model.card if not isinstance(engine, TextEngine) else engine.reader.model.card
        head = card.config.get("head")
        got = f"{card.model!r} with the head {head!r}" if head else repr(card.model)
        raise UserError(f"{engine.name} cannot {_TITLES[ability]}", got=got, hint=f"it can do: {', '.join(can)}")
