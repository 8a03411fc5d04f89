"""data shard: splits a data set into shards, on one or several disks."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from patchword.cli.common import console

if TYPE_CHECKING:
    from patchword.data.shards.writing import ShardContents


def shard(
    what: Annotated[str, typer.Argument(metavar="DATA", help="Images, or texts to pretrain on.")],
    out: Annotated[
        list[Path], typer.Option("--out", metavar="FOLDER", help="Output folder; repeat it for folders on other disks.")
    ],
    size: Annotated[str, typer.Option("--size", metavar="BYTES", help="Size of a shard, e.g. 256MB or 1GB.")] = "256MB",
    documents: Annotated[
        str,
        typer.Option(
            "--documents",
            help="How documents are separated: line, blank (lines), doc (tags), file; auto detects it.",
        ),
    ] = "auto",
) -> None:
    """Split a data set into shards: a few files of equal size instead of millions, on one disk or on several.

    Images (a folder of classes, a .zip or .tar of one, a .csv or .jsonl with path and label) become plain .tar files;
    texts (.txt, .md, .jsonl with a field text, or folders of them) become .jsonl files. shards.json lists them with
    their counts, sizes and digests. All images are checked first, and faults are reported together. A shard is written
    completely or not at all; after a stop, the same command continues after the last shard.

    With several --out, shards go to the first folder until its disk is full, then to the next. You can move shards
    later: add their new folder to `folders` in shards.json. `patchword data check` verifies all digests.

    Examples:

      patchword data shard my/images --out shards
      patchword data shard my/images --out /disk1/shards --out /disk2/shards --size 1GB
      patchword train image-folder-vit data=shards
      patchword data shard corpus.txt --out texts
      patchword train bert-pretrain text=texts
    """
    from patchword.core.disk_space import format_bytes
    from patchword.data.shards.folders import Folders, parse_size
    from patchword.data.shards.writing import write_shards
    from patchword.reports.plots.numbers import counted

    shard_size, screen = parse_size(size), console()
    with screen.status(f"reading {what}") as status:

        def checking(done: int, of: int) -> None:
            status.update(f"checking {what}: {done / of:.1%}")

        def writing(done: int, of: int) -> None:
            status.update(f"writing shards of {what}: {done / of:.1%}")

        contents = _contents(what, documents)
        manifest = write_shards(contents, Folders(tuple(out)), shard_size, checking, writing)
    files = counted(len(manifest.shards), "shard")
    held = format_bytes(sum(shard.bytes for shard in manifest.shards))
    samples = counted(manifest.samples, "image" if manifest.kind == "images" else "document")
    screen.print(f"{samples} in {files}, {held}: {out[0]}", highlight=False, markup=False)


def _contents(what: str, documents: str) -> "ShardContents":
    from patchword.data.image.named_datasets import open_source
    from patchword.data.shards.image_contents import image_contents
    from patchword.data.shards.text_contents import holds_texts, text_contents

    return text_contents(Path(what), documents) if holds_texts(Path(what)) else image_contents(open_source(what), what)
