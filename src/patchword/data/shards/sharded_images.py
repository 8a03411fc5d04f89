"""Images in shards, read in place, in an order that uses few shards at a time."""

import os
import tarfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from patchword.core.errors import UserError
from patchword.data.image.decoding import decode, decode_bytes
from patchword.data.image.image_format import ImageFormat
from patchword.data.randomness import order
from patchword.data.shards import open_files
from patchword.data.shards.open_files import OpenFile, OpenFiles


@dataclass(frozen=True, eq=False)
class ShardedImages:
    """Images in shards, read on access. shard, begin, length: the position of each sample's bytes.

    No image is kept in memory.
    """

    files: OpenFiles
    shard: Tensor  # (count,) int32
    begin: Tensor  # (count,) int64
    length: Tensor  # (count,) int32
    format: ImageFormat

    @property
    def shape(self) -> tuple[int, ...]:
        return self.format.shape

    def take(self, index: Tensor) -> Tensor:
        index = index.cpu()
        numbers = self.shard[index].tolist()
        files = self.files.take(dict.fromkeys(numbers))
        places = [files[number] for number in numbers], self.begin[index].tolist(), self.length[index].tolist()
        with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
            return torch.stack(list(pool.map(self._decode, *places)))

    def subset(self, index: Tensor) -> "ShardedImages":
        return replace(self, shard=self.shard[index], begin=self.begin[index], length=self.length[index])

    def order(self, seed: int, epoch: int) -> Tensor:
        """Shuffle the shards, group them by `TOGETHER`, then shuffle the samples of each group."""
        filled = self.shard.long().bincount()  # shards of other splits have no samples here
        shards = filled.nonzero()[:, 0]
        group = torch.zeros_like(filled)
        group[shards[order(seed + 1, epoch, len(shards))]] = torch.arange(len(shards)) // open_files.TOGETHER
        shuffled = order(seed, epoch, len(self.shard))
        return shuffled[group[self.shard[shuffled].long()].argsort(stable=True)]

    def arrangement(self) -> bytes:
        return self.shard.numpy().tobytes()

    def stored(self, sample: int) -> bytes:
        """Return the bytes of the image file of a sample."""
        number = int(self.shard[sample])
        return self.files.take([number])[number].read(int(self.begin[sample]), int(self.length[sample]))

    def name_of(self, sample: int) -> str:
        """Return the shard and the entry name of a sample."""
        return str(_entry(self.files.find(int(self.shard[sample])), int(self.begin[sample])))

    def _decode(self, file: OpenFile, begin: int, length: int) -> Tensor:
        data = file.read(begin, length)
        try:
            return decode_bytes(data, file.path, self.format)
        except UserError:
            return decode(_entry(file.path, begin), self.format)  # fails again, with the entry's name


def _entry(shard: Path, begin: int) -> Path:
    """Return the entry whose bytes begin at `begin`, as a path below the shard."""
    with tarfile.open(shard, "r:") as file:
        return shard / next((info.name for info in file if info.offset_data == begin), f"byte {begin}")
