"""Which pictures an epoch takes, how often, and which of them meet in a mixed one; the size of a batch has no say."""

from typing import NamedTuple

import torch
from torch import Tensor

from patchword.core.to_device import to_device
from patchword.core.work_sharing import WorkSharing


class Epoch(NamedTuple):
    """samples: numbers in the set; keys: what each one's random numbers follow from, another for each view"""

    samples: Tensor
    keys: Tensor


def epoch_samples(order: Tensor, repeats: int = 1) -> Epoch:
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


class MixGroup(NamedTuple):
    """sizes: of some batches; places: their own in the epoch, and then others they are mixed with; partners: whom each
    sample meets, counted in these places"""

    sizes: tuple[int, ...]
    places: slice | Tensor
    partners: Tensor

    @property
    def own(self) -> slice:
        """of these places"""
        return slice(0, sum(self.sizes))

    def of(self, values: Tensor) -> Tensor:
        """the values at these places of an epoch's"""
        return values[self.places if isinstance(self.places, slice) else to_device(self.places, values.device)]


def without_partners(start: int, end: int, count: int) -> MixGroup:
    """The samples from `start` to `end`, of which nobody meets anybody."""
    return MixGroup((end - start,), slice(start, end), torch.arange(end - start))


def for_process(part: MixGroup, size: int, group: WorkSharing) -> MixGroup:
    """Of batches of that size, what this process of several works on, with the partners of its samples wherever they
    are."""
    shares = [group.share(batch) for batch in torch.arange(part.own.stop).split(size)]
    own, sizes = torch.cat(shares), tuple(map(len, shares))
    if len(own) == part.own.stop:
        return part._replace(sizes=sizes)
    partners = part.partners[own]
    chosen = torch.cat([own, partners[~torch.isin(partners, own)]])
    places = torch.arange(part.places.start, part.places.stop) if isinstance(part.places, slice) else part.places
    return MixGroup(sizes, places[chosen], _positions_in(partners, chosen))


def with_partners(start: int, end: int, count: int) -> MixGroup:
    """The same, with the partners of its samples: the other one of a pair of neighbours, itself if there is none

    An even number of them holds its own partners; an odd one needs a picture or two of those beside it.
    """
    own = torch.arange(start, end)
    partners = torch.where((own ^ 1) < count, own ^ 1, own)
    others = partners[(partners < start) | (partners >= end)]
    if not len(others):
        return MixGroup((len(own),), slice(start, end), partners - start)
    places = torch.cat([own, others])
    return MixGroup((len(own),), places, _positions_in(partners, places))


def _positions_in(partners: Tensor, places: Tensor) -> Tensor:
    """where each of them is among the places"""
    ordered, order = places.sort()
    return order[torch.searchsorted(ordered, partners)]
