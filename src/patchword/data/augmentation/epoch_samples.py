"""The samples of an epoch: their order, their repeats, and mixing partners. The batch size does not change them."""

from typing import NamedTuple

import torch
from torch import Tensor

from patchword.core.device import to_device
from patchword.core.work_sharing import WorkSharing
from patchword.data.sampling import occurrences


class Epoch(NamedTuple):
    """The samples of an epoch. samples: indices in the data set. keys: random seeds, different per occurrence."""

    samples: Tensor
    keys: Tensor


def epoch_samples(order: Tensor, repeats: int = 1) -> Epoch:
    """Return the samples of an epoch in order; with repeats, fewer samples, each several times (Hoffer et al., 2020).

    Two neighbours alternate until both have occurred `repeats` times, so the views of an image share a batch, but no
    image is mixed with itself. The order itself may have a sample several times (`BalancedSampler`).
    """
    place = torch.arange(len(order))
    samples = order[2 * (place // (2 * repeats)) + place % 2]
    return Epoch(samples, samples + len(order) * occurrences(samples))


class MixGroup(NamedTuple):
    """Some batches and their mixing partners.

    sizes: of the batches. places: positions in the epoch, first of the batches, then of partners outside of them.
    partners: for each sample, the index of its partner in `places`.
    """

    sizes: tuple[int, ...]
    places: slice | Tensor
    partners: Tensor

    @property
    def own(self) -> slice:
        """Return the range of the batches' own samples in `places`."""
        return slice(0, sum(self.sizes))

    def of(self, values: Tensor) -> Tensor:
        """Return the values of an epoch at these positions."""
        return values[self.places if isinstance(self.places, slice) else to_device(self.places, values.device)]


def without_partners(start: int, end: int, count: int) -> MixGroup:
    """Return the samples from `start` to `end` without mixing partners."""
    return MixGroup((end - start,), slice(start, end), torch.arange(end - start))


def for_process(part: MixGroup, size: int, group: WorkSharing) -> MixGroup:
    """Return this process's part of batches of `size` samples, with all mixing partners of its samples."""
    own_samples = [group.share(batch) for batch in torch.arange(part.own.stop).split(size)]
    own, sizes = torch.cat(own_samples), tuple(map(len, own_samples))
    if len(own) == part.own.stop:
        return part._replace(sizes=sizes)
    partners = part.partners[own]
    chosen = torch.cat([own, partners[~torch.isin(partners, own)]])
    places = torch.arange(part.places.start, part.places.stop) if isinstance(part.places, slice) else part.places
    return MixGroup(sizes, places[chosen], _positions_in(partners, chosen))


def with_partners(start: int, end: int, count: int) -> MixGroup:
    """Return the samples from `start` to `end` with partners: the other sample of a pair of neighbours, or itself.

    Ranges with odd ends need a partner or two from outside of the range.
    """
    own = torch.arange(start, end)
    partners = torch.where((own ^ 1) < count, own ^ 1, own)
    others = partners[(partners < start) | (partners >= end)]
    if not len(others):
        return MixGroup((len(own),), slice(start, end), partners - start)
    places = torch.cat([own, others])
    return MixGroup((len(own),), places, _positions_in(partners, places))


def _positions_in(partners: Tensor, places: Tensor) -> Tensor:
    """Return the index of each partner in `places`."""
    ordered, order = places.sort()
    return order[torch.searchsorted(ordered, partners)]
