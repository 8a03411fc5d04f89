"""Which pictures an epoch takes, how often, and which of them meet in a mixed one; the size of a batch has no say."""

from typing import NamedTuple

import torch
from torch import Tensor

from patchword.core.group import Group


class Epoch(NamedTuple):
    """samples: numbers in the set; keys: what each one's random numbers follow from, another for each view"""

    samples: Tensor
    keys: Tensor


def epoch_of(order: Tensor, repeats: int = 1) -> Epoch:
    """The samples in this epoch's order; with repeats, fewer of them, each so often (Hoffer et al., 2020)

    Two neighbours alternate until both have been seen `repeats` times, so that views meet in a batch, but no picture
    is mixed with itself.
    """
    count = len(order)
    place = torch.arange(count)
    pair, view = place // (2 * repeats), place // 2 % repeats
    chosen = (2 * pair + place % 2).clamp(max=count - 1)
    samples = order[chosen]
    return Epoch(samples, samples + count * view)


class Company(NamedTuple):
    """size: of a batch; places: its own in the epoch, and then others it is mixed with; partners: whom each sample
    meets, counted in these places"""

    size: int
    places: slice | Tensor
    partners: Tensor


def alone(start: int, end: int, count: int) -> Company:
    """The batch from `start` to `end`, in which nobody meets anybody."""
    return Company(end - start, slice(start, end), torch.arange(end - start))


def dealt(part: Company, group: Group) -> Company:
    """Of a batch, what this process of several works on, with the partners of its samples wherever they are."""
    own = group.share(torch.arange(part.size))
    if len(own) == part.size:
        return part
    partners = part.partners[own]
    chosen = torch.cat([own, partners[~torch.isin(partners, own)]])
    places = torch.arange(part.places.start, part.places.stop) if isinstance(part.places, slice) else part.places
    return Company(len(own), places[chosen], (chosen == partners[:, None]).int().argmax(1))


def company(start: int, end: int, count: int) -> Company:
    """The same, with the partners of its samples: the other one of a pair of neighbours, itself if there is none

    A batch of an even size holds its own partners; an odd one needs a picture or two of the batches beside it.
    """
    own = torch.arange(start, end)
    partners = torch.where((own ^ 1) < count, own ^ 1, own)
    others = partners[(partners < start) | (partners >= end)]
    if not len(others):
        return Company(len(own), slice(start, end), partners - start)
    places = torch.cat([own, others])
    return Company(len(own), places, (places == partners[:, None]).int().argmax(1))
