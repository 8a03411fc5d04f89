"""The one table of colours: what has a name has the same colour and marker in every figure, whatever else is drawn.

The hues are Okabe and Ito's, which colour-blind readers can tell apart, without yellow, which is hard to see on white.
The marker differs, too, so that nothing depends on colour alone.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple
from zlib import crc32

INK, GREY, FAINT, TEXT = "#1c2024", "#8a939c", "#e9ecef", "#4d565f"
BLUE, ORANGE, GREEN, PINK = "#0072b2", "#d55e00", "#009e73", "#cc79a7"
AMBER, SKY, BROWN, PURPLE = "#e69f00", "#56b4e9", "#8c6d31", "#5e4fa2"
HIGHLIGHT, INDIRECT = ORANGE, "#f4c5a3"  # the one colour of what a figure is about; reached through an earlier block
QUERY = "#0a5cff"  # the token that asks: neither a grey of an image nor a colour of a map


class Style(NamedTuple):
    """How the points of one name are drawn."""

    color: str
    marker: str


IMAGE_FAMILIES = {
    "ViT": Style(INK, "o"),
    "DeiT": Style("#2f9bd6", "s"),
    "Swin": Style("#0059a5", "^"),
    "CvT": Style("#c98a00", "D"),
    "CSWin": Style(ORANGE, "v"),
    "Pale": Style("#008f69", "P"),
    "PVT": Style("#c2609a", "X"),
    "Mixer": Style(BROWN, "h"),
    "ResNet": Style("#6c757d", "<"),
    "RegNetY": Style(PURPLE, ">"),
}
_PATTERNS = {  # of attention: as the family that has it
    "global": IMAGE_FAMILIES["ViT"],
    "window": IMAGE_FAMILIES["Swin"],
    "cross-shaped": IMAGE_FAMILIES["CSWin"],
}
TEXT_FAMILIES = {
    "BERT": Style(INK, "o"),
    "RoBERTa": Style("#0059a5", "^"),
    "ALBERT": Style(ORANGE, "v"),
    "DistilBERT": Style("#2f9bd6", "s"),
    "TinyBERT": Style("#008f69", "P"),
    "MobileBERT": Style("#c2609a", "X"),
    "ERNIE 1.0": Style(BROWN, "h"),
    "XLM": Style(PURPLE, ">"),
    "Big Bird": Style("#c98a00", "D"),
    "GPT": Style("#7a0403", "p"),
    "GPT-2": Style("#b3261e", "*"),
    "Grover": Style("#4b6b2f", "d"),
}
_TRANSLATORS_AND_VECTORS = {
    "LSTM": Style("#6c757d", "<"),
    "LSTM-attention": Style(ORANGE, "v"),
    "Transformer": Style(BLUE, "o"),
    "ELMo": Style(PINK, "D"),
    "CoVe": Style(AMBER, "s"),
    "word2vec": Style(SKY, "P"),
}
_POSITIONS = {  # encodings of positions
    "none": Style(GREY, "x"),
    "learned": Style(ORANGE, "s"),
    "sinusoidal": Style(BLUE, "o"),
    "sinusoidal-halves": Style(SKY, "P"),
    "sinusoidal-t2t": Style(INK, "v"),
    "shaw": Style(GREEN, "D"),
    "fourier": Style(BROWN, "^"),
    "floater": Style(AMBER, "*"),
}
_METHODS = {
    "without": Style(BLUE, "o"),
    "with": Style(ORANGE, "s"),
    "scratch": Style(BLUE, "o"),
    "pretrained": Style(ORANGE, "s"),
    "training": Style(BLUE, "o"),
    "validation": Style(ORANGE, "s"),
    "masked": Style(BLUE, "o"),
    "causal": Style(ORANGE, "s"),
    "soft": Style(BLUE, "o"),
    "hard": Style(ORANGE, "s"),
    "token": Style(GREEN, "D"),
    "random": Style(GREY, "x"),
}
_DATA_SETS = {
    "CoLA": Style(BLUE, "o"),
    "SST2": Style(ORANGE, "s"),
    "MRPC": Style(GREEN, "D"),
    "STSB": Style(PINK, "^"),
    "QQP": Style(AMBER, "v"),
    "MNLI": Style(SKY, "P"),
    "QNLI": Style(INK, "X"),
    "RTE": Style(BROWN, "h"),
    "WNLI": Style(PURPLE, ">"),
}
_CORRUPTIONS = {  # distinct within a group, which is one panel
    "gaussian": Style(BLUE, "o"),
    "shot": Style(ORANGE, "s"),
    "impulse": Style(GREEN, "D"),
    "defocus": Style(BLUE, "o"),
    "glass": Style(ORANGE, "s"),
    "motion": Style(GREEN, "D"),
    "zoom": Style(PINK, "^"),
    "snow": Style(BLUE, "o"),
    "frost": Style(ORANGE, "s"),
    "fog": Style(GREEN, "D"),
    "brightness": Style(PINK, "^"),
    "contrast": Style(BLUE, "o"),
    "elastic": Style(ORANGE, "s"),
    "pixelate": Style(GREEN, "D"),
    "jpeg": Style(PINK, "^"),
}
_TABLES = (
    IMAGE_FAMILIES,
    _PATTERNS,
    TEXT_FAMILIES,
    _TRANSLATORS_AND_VECTORS,
    _POSITIONS,
    _METHODS,
    _DATA_SETS,
    _CORRUPTIONS,
)
STYLES = {name.casefold(): style for table in _TABLES for name, style in table.items()}

OTHER = Style("#6c757d", "o")  # a family that is not in the table
_SPARE = tuple(
    Style(*both)
    for both in zip((BLUE, ORANGE, GREEN, PINK, AMBER, SKY, INK, BROWN, PURPLE, "#b3261e"), "osD^vPXh>*", strict=True)
)


def style_of(name: str) -> Style:
    """Return the style of a name of the table, in any case; OTHER if it is not there."""
    return STYLES.get(name.casefold(), OTHER)


def styles_of(names: Iterable[str]) -> dict[str, Style]:
    """Return a style per name: those of the table, and for other names, such as those of runs, one of ten.

    Which of the ten follows from the name. Only if two names of one figure would share a style, one of them gets the
    next that is free.
    """
    given = list(dict.fromkeys(names))
    found = {name: STYLES[name.casefold()] for name in given if name.casefold() in STYLES}
    for name in sorted(set(given) - set(found)):
        found[name] = _spare(name, [style.color for style in found.values()])
    return {name: found[name] for name in given}


def _spare(name: str, taken: Sequence[str]) -> Style:
    first = crc32(name.encode())
    turned = [_SPARE[(first + step) % len(_SPARE)] for step in range(len(_SPARE))]
    return min(turned, key=lambda style: taken.count(style.color))  # the first of those that are used least


def style_of_number(number: int) -> Style:
    """Return the style of what has a number and no name, such as head 3 or the second eigenvalue; from 1."""
    return _SPARE[(number - 1) % len(_SPARE)]
