"""What a model attends to in an image or a text: arrays, and figures for notebooks."""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor

from patchword.core.errors import UserError
from patchword.inspection.attention import ImageAttention, look
from patchword.inspection.attention_options import AttentionOptions
from patchword.inspection.attention_texts import TextAttention
from patchword.pipelines.html import png
from patchword.pipelines.image_inputs import ImageInput, list_images
from patchword.pipelines.images import ImageEngine
from patchword.reports.attention.image_figures import figures_of
from patchword.reports.attention.text_figures import text_figures
from patchword.reports.plots.figures import drawn, figure_style

_PIXELS = 75  # per inch of a figure
FloatArray: TypeAlias = np.ndarray[tuple[int, ...], np.dtype[np.float32]]


@dataclass(frozen=True, repr=False)
class Attention:
    """The attention of a model over one image or one text. A notebook shows rollout and relevance as figures.

    found: all of it, as the verb `attention` computes it
    """

    found: ImageAttention | TextAttention

    @property
    def tokens(self) -> tuple[str, ...]:
        """The tokens of the text; empty for an image."""
        return self.found.tokens if isinstance(self.found, TextAttention) else ()

    @property
    def layers(self) -> tuple[int, ...]:
        """The numbers of the layers, from 1."""
        return tuple(layer.number for layer in self.found.layers)

    @property
    def maps(self) -> tuple[FloatArray, ...]:
        """One array per layer. Image: (heads, rows, columns) of patches. Text: (heads, query tokens, key tokens)."""
        if isinstance(self.found, ImageAttention):
            return tuple(_array(layer.maps) for layer in self.found.layers)
        return tuple(_array(layer.weights) for layer in self.found.layers)

    @property
    def rollout(self) -> FloatArray:
        """Attention through all layers. Image: (rows, columns) of patches. Text: (tokens, tokens)."""
        assert self.found.rollout is not None, "a pipeline computes the rollout"
        return _array(self.found.rollout)

    @property
    def relevance(self) -> FloatArray | None:
        """Relevance for the class `about`: (rows, columns) of patches, or (tokens,); None without classes."""
        return None if self.found.relevance is None else _array(self.found.relevance)

    @property
    def about(self) -> str:
        """The class that the relevance is about."""
        return self.found.about

    def __repr__(self) -> str:
        heads = sum(len(layer.heads) for layer in self.found.layers)
        about = f", relevance for {self.about!r}" if self.about else ""
        return f"Attention({self.found.model}: {len(self.layers)} layers, {heads} heads, rollout{about})"

    def _repr_html_(self) -> str:
        """Return the figures of rollout and relevance: over the image, or as a matrix of tokens."""
        wanted = ("rollout", "relevance")
        with figure_style():
            if isinstance(self.found, ImageAttention):
                figures = figures_of(self.found, wanted)
            else:
                figures = text_figures(self.found, wanted)
            return "".join(
                png(drawn(figure, "png"), name, f"width:{_PIXELS * figure.get_figwidth():.0f}px;max-width:100%")
                for name, figure in figures.items()
            )


def image_attention(engine: ImageEngine, image: ImageInput, options: AttentionOptions) -> Attention:
    """Compute the attention over one image."""
    found = list_images(image)
    if len(found) != 1:
        raise UserError("attention is that of one image", expected="one image", got=f"{len(found):,}")
    pixels = engine.transform.pixels(found[0])
    if pixels.dtype != torch.uint8:
        raise UserError("attention is drawn over pixels", expected="a path, a PIL image, or uint8", got="float values")
    return Attention(look(engine.model, pixels[None], options))


def _array(values: Tensor) -> FloatArray:
    found: FloatArray = values.detach().float().cpu().numpy()
    return found
