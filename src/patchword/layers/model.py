"""What every model of the registry is, of images or of texts."""

from torch import nn

from patchword.core.card import Card


class Model(nn.Module):
    """An encoder with a head."""

    card: Card  # set by the registry: the model's name and sizes
    head: nn.Module
