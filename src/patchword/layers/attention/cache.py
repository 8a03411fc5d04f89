"""Cache of keys and values, for generating a text token by token."""

from torch import Tensor, nn

from patchword.layers.attention.projection import Projected


class Cache:
    """The keys and values of each attention so far; the buffers double in size when they are full.

    Other parts can store tensors, too: the keys of an encoder's output, the state of an LSTM.
    """

    def __init__(self) -> None:
        self.length = 0  # tokens so far
        self._kept: dict[nn.Module, tuple[Tensor, Tensor, int]] = {}
        self._known: dict[nn.Module, tuple[Tensor, Tensor]] = {}

    def extend(self, owner: nn.Module, projected: Projected) -> Projected:
        """Appends the new keys and values of one attention, and returns all of them with the queries."""
        count = projected.key.shape[1]
        old_key, old_value, used = self._kept.get(owner, (None, None, 0))
        key, value = _with_room(old_key, projected.key, used), _with_room(old_value, projected.value, used)
        key[:, used : used + count], value[:, used : used + count] = projected.key, projected.value
        self._kept[owner] = key, value, used + count
        self.length = used + count
        return projected._replace(key=key[:, : self.length], value=value[:, : self.length], qkv=None)

    def known(self, owner: nn.Module) -> tuple[Tensor, Tensor] | None:
        """Returns what a part stored last, or None."""
        return self._known.get(owner)

    def keep(self, owner: nn.Module, first: Tensor, second: Tensor) -> None:
        """Stores two tensors, (batch, ...) each, and replaces those that the part stored before."""
        self._known[owner] = first, second

    def take(self, index: Tensor) -> None:
        """Keeps the sequences at `index` (batch indices), in that order: the beams that beam search continues."""
        self._kept = {owner: (key[index], value[index], used) for owner, (key, value, used) in self._kept.items()}
        self._known = {owner: (first[index], second[index]) for owner, (first, second) in self._known.items()}


def _with_room(old: Tensor | None, new: Tensor, used: int) -> Tensor:
    needed = used + new.shape[1]
    if old is not None and old.shape[1] >= needed:
        return old
    grown = new.new_empty(new.shape[0], max(64, 2 * needed), new.shape[2])
    if old is not None:
        grown[:, :used] = old[:, :used]
    return grown
