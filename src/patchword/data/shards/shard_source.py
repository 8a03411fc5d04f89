"""A data set of images in shards, as a source for training."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import cast

import torch
from safetensors import SafetensorError
from safetensors.torch import load
from torch import Tensor

from patchword.core.errors import UserError
from patchword.data.faults import attempt, give_up, warn
from patchword.data.image.image_format import ImageFormat
from patchword.data.image.images import Images
from patchword.data.image.sources import COLOR_SAMPLE
from patchword.data.image.splits import Part, Split, has_test, has_validation, in_split
from patchword.data.progress import Progress
from patchword.data.sample_digests import Contents
from patchword.data.shards.manifest import Shard, ShardLocations, locate_shards
from patchword.data.shards.open_files import OpenFiles
from patchword.data.shards.sharded_images import ShardedImages
from patchword.data.shards.writing import index_file
from patchword.data.text.corpus.documents import digest

_FIELDS = {"begin": torch.int64, "length": torch.int32, "label": torch.int32, "key": torch.int64}


@dataclass(frozen=True)
class ShardSource:
    """Images are read from the shards per batch; the index of all images is in memory."""

    places: ShardLocations

    @property
    def name(self) -> str:
        return self.places.manifest.name

    @property
    def has_validation(self) -> bool:
        return has_validation(shard.part for shard in self.places.manifest.shards)

    @property
    def has_test(self) -> bool:
        return has_test(shard.part for shard in self.places.manifest.shards)

    def read(self, part: Part, format: ImageFormat, progress: Progress | None = None) -> Images:
        manifest = self.places.manifest
        if len(self.places.check()) < len(manifest.shards):
            give_up()
        chosen = self._in_split(part).nonzero()[:, 0]
        index = {name: values[chosen] for name, values in self._index.items()}
        pixels = ShardedImages(OpenFiles(self.places.path), index["shard"], index["begin"], index["length"], format)
        origin = f"{manifest.samples:,} images in {len(manifest.shards):,} shards"
        return Images(self.name, origin, pixels, index["label"].long(), manifest.classes, index["key"])

    def has_color(self) -> bool:
        images = self.read("train", ImageFormat(32, 3))
        pixels = images.pixels.take(torch.arange(0, len(images), -(-len(images) // COLOR_SAMPLE) or 1))
        return bool((pixels != pixels[:, :1]).any())

    def check(self, format: ImageFormat) -> None:
        """Check the classes. Sizes were checked when the manifest was read, images when the shards were written."""
        classes = self.places.manifest.classes
        if len(classes) == 1:
            raise UserError(f"all images of {self.name} have the same class", expected="two or more", got=classes[0])
        trained = set(self._index["label"][self._in_split("train")].unique().tolist())
        for label in sorted(set(range(len(classes))) - trained):
            warn("a class without training images", f"{self.name}: {classes[label]}")

    def examine(self, progress: Progress | None = None) -> int:
        attempt(self.check, ImageFormat(8, 3))
        self.places.verify(self.places.check(), progress)
        return self.places.manifest.samples

    def contents(self, part: Split) -> Contents:
        images = self.read(part, ImageFormat(8, 3))
        stored = cast(ShardedImages, images.pixels)
        return Contents([str(key) for key in images.keys.tolist()], stored.stored, stored.name_of)

    def _in_split(self, part: Part) -> Tensor:
        index = self._index  # first, since it checks the number of samples in the manifest
        given = [shard.part for shard in self.places.manifest.shards for _ in range(shard.samples)]
        return in_split(self.name, part, given, index["label"], index["key"])

    @cached_property
    def _index(self) -> dict[str, Tensor]:
        """Per image: its shard, the start and length of its bytes, its label and its key."""
        shards = self.places.manifest.shards
        found = [_read_index(self.places.folder, shard) for shard in shards]
        joined = {name: torch.cat([arrays[name] for arrays in found]) for name in _FIELDS}
        numbers = torch.arange(len(shards), dtype=torch.int32)
        return {**joined, "shard": numbers.repeat_interleave(torch.tensor([shard.samples for shard in shards]))}


def shard_source(folder: Path) -> ShardSource:
    return ShardSource(locate_shards(folder, "images", f"patchword train bert-pretrain text={folder}"))


def _read_index(folder: Path, shard: Shard) -> dict[str, Tensor]:
    path = index_file(folder, shard.file)
    try:
        if digest(path) != shard.index:
            raise ValueError("its digest differs from shards.json")
        arrays = load(path.read_bytes())
        whole = all(
            arrays[name].dtype == kind and arrays[name].shape == (shard.samples,) for name, kind in _FIELDS.items()
        )
        if not whole or not _inside(arrays, shard):
            raise ValueError("its values do not belong to the shard")
    except (OSError, ValueError, KeyError, SafetensorError) as error:
        got = getattr(error, "strerror", None) or str(error)
        raise UserError(f"cannot read {path}, the index of a shard", got=got, hint="copy it again") from None
    return arrays


def _inside(arrays: dict[str, Tensor], shard: Shard) -> bool:
    begin, length = arrays["begin"], arrays["length"]
    return bool((begin >= 0).all() and (length >= 0).all() and (begin + length <= shard.bytes).all())
