"""Copies of a model's modules with other submodules. The parameters, buffers and hooks stay those of the model."""

from collections.abc import Callable, Mapping
from typing import TypeVar

from torch import nn

Module = TypeVar("Module", bound=nn.Module)
Rule = Callable[[nn.Module], nn.Module | None]


def with_children(module: Module, children: Mapping[str, nn.Module | None]) -> Module:
    """A shallow copy: other submodules, the same parameters, buffers, hooks and attributes."""
    copied = object.__new__(module.__class__)  # not the class's own __new__, which FSDP overrides
    copied.__dict__.update(module.__dict__)
    copied.__dict__["_modules"] = dict(children)
    return copied


def rewritten(model: nn.Module, rules: Mapping[str, Rule]) -> nn.Module:
    """The model with each module replaced by what the rules make of it, submodules first. The given model stays as it
    is: a module is copied if one of its submodules was replaced, and shared otherwise.

    rules: from a module to its replacement, or to None; applied in order, each to the result of the one before
    """
    done: dict[nn.Module, nn.Module] = {}

    def rewrite(module: nn.Module) -> nn.Module:
        if module not in done:
            done[module] = applied(with_rewritten_children(module))
        return done[module]

    def applied(module: nn.Module) -> nn.Module:
        for rule in rules.values():
            replaced = rule(module)
            module = module if replaced is None else replaced
        return module

    def with_rewritten_children(module: nn.Module) -> nn.Module:
        children = {name: None if child is None else rewrite(child) for name, child in module._modules.items()}
        same = all(children[name] is child for name, child in module._modules.items())
        return module if same else with_children(module, children)

    return rewrite(model)
