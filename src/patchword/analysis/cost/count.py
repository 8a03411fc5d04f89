"""Counting: the model runs once on the meta device, which has shapes but no numbers, and rules read the shapes."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, cast

import torch
from torch import nn

from patchword.analysis.cost.rules import FREE, RULES, TEXT_HEADS, Call, Kind, Line
from patchword.core.card import Card
from patchword.core.errors import UserError, nearest
from patchword.core.text import Pair, Text
from patchword.layers import Block, Bottleneck, ConvResidual
from patchword.models import REGISTRY

CONVENTION = (
    "multiply-accumulates of matrix products and convolutions, for one image or one text; biases, norms, softmax and "
    "activations are not counted. Papers call these FLOPs; counted as separate multiplications and additions they "
    "would be double."
)
_KINDS: tuple[Kind, ...] = ("linear", "attention", "convolution")


@dataclass(frozen=True)
class Cost:
    """The lines of a part, and their sums."""

    model: str
    part: str  # its name in the model; "" is the whole
    input: tuple[int, ...]
    lines: tuple[Line, ...]

    @property
    def parameters(self) -> int:
        return sum(line.parameters.value for line in self.lines if line.parameters)

    @property
    def macs(self) -> int:
        return sum(line.macs.value for line in self.lines if line.macs)

    def macs_of(self, kind: Kind) -> int:
        return sum(line.macs.value for line in self.lines if line.macs and line.kind == kind)

    def below(self, part: str) -> "Cost":
        """The same count, of one part of this part."""
        lines = tuple(line for line in self.lines if line.part == part or line.part.startswith(f"{part}."))
        return Cost(self.model, part, self.input, lines)

    def symbols(self) -> dict[str, tuple[tuple[int, ...], str]]:
        """The letters used, each with its values (a pyramid's stages differ) and its meaning."""
        used: dict[str, tuple[tuple[int, ...], str]] = {}
        for line in self.lines:
            for expression in (line.macs, line.parameters):
                for letter, (value, meaning) in (expression.symbols if expression else {}).items():
                    values, first = used.get(letter, ((), meaning))
                    used[letter] = (values if value in values else (*values, value), first)
        return used

    def to_json(self) -> dict[str, Any]:
        steps = []
        for line in self.lines:
            step: dict[str, Any] = {"part": line.part, "label": line.label, "kind": line.kind}
            for name, expression in (("macs", line.macs), ("parameters", line.parameters)):
                if expression:
                    step[name] = {"working": expression.working(), "value": expression.value}
            steps.append(step)
        return {
            "model": self.model,
            "part": self.part,
            "input": list(self.input),
            "parameters": self.parameters,
            "macs": {**{kind: self.macs_of(kind) for kind in _KINDS}, "total": self.macs},
            "convention": CONVENTION,
            "symbols": {
                name: {"value": values[0] if len(values) == 1 else list(values), "meaning": meaning}
                for name, (values, meaning) in self.symbols().items()
            },
            "steps": steps,
        }


def count(card: Card, part: str = "", inputs: Any = None) -> Cost:
    """What a model, or one of its parts, costs at its own input size, or for `inputs` on the meta device.

    >>> count(model.card, "stages.0.encoder.blocks.0").macs
    """
    with torch.device("meta"):
        model = REGISTRY.create(card.model, **card.config).eval()
        example = REGISTRY.example(card) if inputs is None else inputs
        calls = _calls(model, example)
    shape = _shape(example)
    names = [name for name, _ in model.named_modules()]
    if part not in names:
        raise UserError(f"{card.model!r} has no part {part!r}", hint=nearest(part, names))
    lines = tuple(_named(line, card) for line in _lines(model.get_submodule(part), part, calls))
    cost = Cost(card.model, part, shape, lines)
    expected = sum(parameter.numel() for parameter in model.get_submodule(part).parameters())
    assert cost.parameters == expected, f"the rules count {cost.parameters} parameters, the model has {expected}"
    return cost


def _shape(example: Any) -> tuple[int, ...]:
    if isinstance(example, Pair):
        return tuple(example.target.ids.shape)
    return tuple(example.ids.shape if isinstance(example, Text) else example.shape)


def text_of(card: Card, tokens: int) -> Text:
    """A text of so many tokens on the meta device, to count a model of texts for."""
    if REGISTRY.reads_images(card.model):
        raise UserError(f"{card.model!r} reads images", expected="a model of texts", hint="try --set image=384")
    config = REGISTRY.configure(card.model, card.config)
    longest = getattr(config, "max_length", tokens)  # a recurrent model has no end
    if not 0 < tokens <= longest:
        raise UserError(f"{card.model!r} reads {longest} tokens at most", got=tokens)
    with torch.device("meta"):
        return cast(Text, config.example(tokens))


def lines_of(module: nn.Module, *inputs: Any) -> list[Line]:
    """The lines of any composition of our parts, run once on these inputs."""
    return list(_lines(module, "", _calls(module, *inputs)))


def blocks_of(card: Card) -> list[str]:
    """The names of a model's blocks, in the order they run."""
    with torch.device("meta"):
        model = REGISTRY.create(card.model, **card.config)
    return [name for name, module in model.named_modules() if isinstance(module, Block | Bottleneck | ConvResidual)]


def _named(line: Line, card: Card) -> Line:
    """What the last linear map of a text model answers, only its config tells."""
    answers = TEXT_HEADS.get(card.config.get("head", ""))
    return replace(line, label=answers) if answers and line.part == "head.linear" else line


@torch.no_grad()
def _calls(model: nn.Module, *inputs: Any) -> dict[str, list[Call]]:
    """Every call of every part that has a rule; a part may run more than once."""
    calls: dict[str, list[Call]] = {}
    handles = [
        module.register_forward_hook(
            lambda _, arguments, answer, name=name: calls.setdefault(name, []).append(Call(arguments, answer))
        )
        for name, module in model.named_modules()
        if type(module) in RULES
    ]
    try:
        model(*inputs)
    finally:
        for handle in handles:
            handle.remove()
    return calls


def _lines(module: nn.Module, part: str, calls: dict[str, list[Call]]) -> Iterable[Line]:
    if type(module) in RULES:
        # A table that attention asks for its bias is never called itself.
        for number, call in enumerate(calls.get(part, [Call((), None)])):
            for line in RULES[type(module)](part, module, call):
                yield line if number == 0 else replace(line, parameters=None)  # weights are held once
        return
    is_leaf = not any(True for _ in module.children())
    if any(True for _ in module.parameters(recurse=False)) or (is_leaf and not isinstance(module, FREE)):
        raise TypeError(f"no rule counts {type(module).__name__} at {part!r}; add one to analysis/cost/rules.py")
    for name, child in module.named_children():
        yield from _lines(child, f"{part}.{name}" if part else name, calls)
