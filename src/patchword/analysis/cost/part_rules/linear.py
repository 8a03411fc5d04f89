"""Cost rules of linear layers, which are labelled by the name they have in their parent module."""

from torch import nn

from patchword.analysis.cost.expression import Expression, symbol
from patchword.analysis.cost.line import Call, Line
from patchword.layers import LinearProjection

# Labels of our linear layers, and the symbols of their input and output widths.
_LINEAR = {
    "output": ("output projection", ("D", "width"), ("D", "width")),
    "up": ("feed-forward, up", ("D", "width"), ("F", "hidden width")),
    "down": ("feed-forward, down", ("F", "hidden width"), ("D", "width")),
    "query": ("query", ("D", "width"), ("D", "width")),
    "joint": ("key, value", ("D", "width"), ("2D", "twice the width")),
    "reduce": ("patch merging", ("4C", "four neighbours"), ("2C", "twice the width before")),
    "linear": ("class head", ("D", "width"), ("K", "classes")),
    "distilled": ("distillation head", ("D", "width"), ("K", "classes")),
    "narrow": ("bottleneck, in", ("D", "width"), ("B", "width of the bottleneck")),
    "widen": ("bottleneck, out", ("B", "width of the bottleneck"), ("D", "width")),
    "shared": ("bottleneck of query and key", ("D", "width"), ("B", "width of the bottleneck")),
    "query_key": ("query, key", ("B", "width of the bottleneck"), ("2B", "twice the bottleneck")),
    "value": ("value", ("D", "width"), ("B", "width of the bottleneck")),
    "mix": ("trigram projection", ("3E", "three embeddings"), ("D", "width")),
    "candidate": ("highway", ("F", "filters"), ("F", "filters")),
    "gate": ("highway, gate", ("F", "filters"), ("F", "filters")),
    "project": ("character filters to word vector", ("F", "filters"), ("D", "width")),
    "words": ("LM head, scores of the vocabulary", ("D", "width"), ("V", "vocabulary")),
    "state": ("initial state of the decoder", ("D", "width"), ("D", "width")),
    "transform": ("LM head, transform", ("D", "width"), ("D", "width")),
}

TEXT_HEADS = {  # the label of head.linear, by the name of the head; "class head" for all others
    "next": "next sentence",
    "pretraining": "next sentence",
    "tags": "tag of each token",
    "span": "start and end of the answer",
}

# Layers called "linear", by their parent: those of a separable projection, and BERT's pooler.
_SQUARE = {"query": "query", "key": "key", "value": "value", "pool": "pooler"}
_ROWS = {"joint": ("M", "keys")}  # what a linear layer is applied to, where it is not the tokens


def linear(part: str, module: nn.Linear, call: Call) -> list[Line]:
    name = part.rsplit(".", 1)[-1]
    owner = part.rsplit(".", 2)[-2] if name == "linear" else ""
    if owner in _SQUARE:
        label, inner, outer = _SQUARE[owner], ("D", "width"), ("D", "width")
    elif ".token_mixing." in part:
        letters = ("N", "tokens"), ("T", "hidden tokens")
        label, (inner, outer) = f"token mixing, {name}", letters if name == "up" else letters[::-1]
    else:
        label, inner, outer = _LINEAR.get(name, (name, ("I", "inputs"), ("O", "outputs")))
    wide, high = _widths((*inner, module.in_features), (*outer, module.out_features))
    count = call.answer.numel() // module.out_features
    letter, meaning = ("D", "width") if ".token_mixing." in part else _ROWS.get(name, ("N", "tokens"))
    rows = symbol(letter, count, meaning)
    macs = wide * high if count == 1 else rows * wide * high
    weights = wide * high + high if module.bias is not None else wide * high
    return [Line(part, label, "linear", macs, weights)]


_BASES = {  # the meaning of the letters that occur with a factor, such as 2D
    "D": "width",
    "C": "channels before",
    "B": "width of the bottleneck",
    "E": "width of an embedding",
}
_Width = tuple[str, str, int]  # letter, meaning, value


def _widths(inner: _Width, outer: _Width) -> tuple[Expression, Expression]:
    """Return the input and the output width, with the formula of 2D or of the hidden width F."""
    return _width(inner, outer), _width(outer, inner)


def _width(width: _Width, other: _Width) -> Expression:
    letter, meaning, value = width
    derived = None
    if letter[0].isdigit() and value % int(letter[0]) == 0:
        base = symbol(letter[1:], value // int(letter[0]), _BASES[letter[1:]])
        derived = int(letter[0]) * base
    elif (meaning, other[0]) == ("hidden width", "D") and value % other[2] == 0 and value > other[2]:
        derived = value // other[2] * symbol("D", other[2], "width")
    return symbol(letter, value, meaning, derived)


def projection(part: str, module: LinearProjection, call: Call) -> list[Line]:
    width = symbol("D", module.joint.in_features, "width")
    tokens = symbol("N", call.arguments[0].shape[1], "tokens")
    each = width * width + width if module.joint.bias is not None else width * width
    return [Line(part, "query, key, value", "linear", 3 * tokens * width * width, 3 * each)]
