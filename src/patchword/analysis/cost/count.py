"""Counts cost: the model runs once on the meta device, which has shapes but no values, and rules read the shapes."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, cast

import torch
from torch import nn

from patchword.analysis.cost.cost import Cost
from patchword.analysis.cost.quick_meta import QuickMeta
from patchword.analysis.cost.rules import FREE, OWN_RULES, RULES, TEXT_HEADS, Call, Line, Rule
from patchword.analysis.cost.sizes import stage_sizes
from patchword.core.card import Card
from patchword.core.errors import UserError, nearest
from patchword.core.text import Pair, Text
from patchword.layers import Block, Bottleneck, ConvResidual
from patchword.layers.pyramid import Stage
from patchword.models import REGISTRY
from patchword.models.numbering import index_of
from patchword.models.registry import Input, takes_mlp_ratio


def count(card: Card, part: str = "", inputs: Input | None = None) -> Cost:
    """Return the cost of a model or one of its parts, at its own input size or for `inputs` on the meta device.

    >>> count(model.card, "stages.0.encoder.blocks.0").macs
    """
    with torch.device("meta"):
        model = REGISTRY.create(card.model, **card.config).eval()
        example = REGISTRY.example(card) if inputs is None else inputs
        calls = calls_of(model, lambda: model(example))
    names = [name for name, _ in model.named_modules()]
    if part not in names:
        raise UserError(f"{card.model!r} has no part {part!r}", hint=nearest(part, names))
    lines = tuple(_named(line, card) for line in module_lines(model.get_submodule(part), part, calls))
    cost = Cost(
        *(card.model, part, input_shape(example), lines),
        blocks=block_names(model),
        stages=stage_sizes(model, calls),
        facts=mlp_ratio(card),
    )
    expected = sum(parameter.numel() for parameter in model.get_submodule(part).parameters())
    assert cost.parameters == expected, f"the rules count {cost.parameters} parameters, the model has {expected}"
    return cost


def input_shape(example: Input) -> tuple[int, ...]:
    """Return the shape of the images, of the token ids (of a pair: the target's), or of the vectors."""
    if isinstance(example, Pair):
        return tuple(example.target.ids.shape)
    return tuple(example.ids.shape if isinstance(example, Text) else example.shape)


def text_of(card: Card, tokens: int) -> Text:
    """Return a text with this many tokens on the meta device, as input for `count`."""
    if REGISTRY.reads_images(card.model):
        raise UserError(f"{card.model!r} reads images", expected="a model of texts", hint="try --set image=384")
    config = REGISTRY.configure(card.model, card.config)
    longest = getattr(config, "max_length", tokens)  # a recurrent model has no maximum length
    if not 0 < tokens <= longest:
        raise UserError(f"{card.model!r} reads at most {longest} tokens", got=tokens)
    with torch.device("meta"):
        return cast(Text, config.example(tokens))


def lines_of(module: nn.Module, *inputs: Any) -> list[Line]:
    """Return the cost lines of any module made of our parts, run once on these inputs."""
    return list(module_lines(module, "", calls_of(module, lambda: module(*inputs))))


def blocks_of(card: Card) -> list[str]:
    """Return the names of a model's blocks, in the order they run."""
    with torch.device("meta"):
        return list(block_names(REGISTRY.create(card.model, **card.config)))


def block_of(card: Card, number: int) -> str:
    """Return the name of one block of a model. number: from 1, as papers count layers; -1 is the last.

    >>> block_of(model.card, 1)
    'stages.0.encoder.blocks.0'
    """
    names = blocks_of(card)
    if not names:
        hint = f"`patchword show {card.model}` lists the parts; count one with --part"
        raise UserError(f"{card.model!r} has no blocks", hint=hint)
    return names[index_of("block", number, len(names), repr(card.model))]


def block_names(model: nn.Module) -> tuple[str, ...]:
    """Return the names of the blocks of a model, in the order they run."""
    kinds = Block | Bottleneck | ConvResidual
    return tuple(name for name, module in model.named_modules() if isinstance(module, kinds))


def mlp_ratio(card: Card) -> tuple[str, ...]:
    """Return the hidden width of the feed-forward relative to the width; nothing if the model has no such fields."""
    if not takes_mlp_ratio(card.config):
        return ()
    width, hidden = card.config["width"], card.config["hidden"]
    return (f"MLP ratio: {hidden / width:g} (hidden {hidden:,} / width {width:,})",)


def _named(line: Line, card: Card) -> Line:
    """Name the last linear layer of a text model, which only its config defines."""
    label = TEXT_HEADS.get(card.config.get("head", ""))
    return replace(line, label=label) if label and line.part == "head.linear" else line


@torch.no_grad()
def calls_of(model: nn.Module, run: Callable[[], object]) -> dict[str, list[Call]]:
    """Record every call of every part that has a rule while `run` calls the model; a part may run more than once."""
    calls: dict[str, list[Call]] = {}
    handles = [
        module.register_forward_hook(
            lambda _, arguments, output, name=name: calls.setdefault(name, []).append(Call(arguments, output))
        )
        for name, module in model.named_modules()
        if type(module) in RULES or type(module) in OWN_RULES or isinstance(module, Stage)
    ]
    try:
        with QuickMeta():  # type: ignore[no-untyped-call]  # torch's base class has no types
            run()
    finally:
        for handle in handles:
            handle.remove()
    return calls


def module_lines(
    module: nn.Module, part: str, calls: dict[str, list[Call]], rules: Mapping[type[nn.Module], Rule] = RULES
) -> Iterable[Line]:
    """Yield the cost lines of a module and its children. part: its name in the model."""
    rule = rules.get(type(module)) or OWN_RULES.get(type(module))
    # The table of a position bias is read by attention and never called itself.
    for number, call in enumerate(calls.get(part, [Call((), None)]) if rule else ()):
        for line in rule(part, module, call):  # type: ignore[misc]  # without a rule there are no calls
            yield line if number == 0 else replace(line, parameters=None)  # weights count once
    if type(module) in rules:
        return
    is_leaf = not any(True for _ in module.children())
    if not rule and (any(True for _ in module.parameters(recurse=False)) or (is_leaf and not isinstance(module, FREE))):
        raise TypeError(
            f"no rule counts {type(module).__name__} at {part!r}; add one to patchword.analysis.cost.rules.RULES"
        )
    for name, child in module.named_children():
        yield from module_lines(child, f"{part}.{name}" if part else name, calls, rules)
