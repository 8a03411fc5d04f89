"""The base class of every model in the registry."""

from torch import nn

from patchword.core.card import Card


class Model(nn.Module):
    """A model with a head and a card."""

    card: Card  # set by the registry: the model's name and sizes
    head: nn.Module
