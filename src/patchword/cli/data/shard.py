"""data shard: a set into shards, for what does not fit on one disk."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from patchword.cli.common import console

if TYPE_CHECKING:
    from patchword.data.shards.writing import Contents


def shard(
    what: Annotated[str, typer.Argument(metavar="DATA", help="Pictures, or texts to pretrain on.")],
    out: Annotated[
        list[Path], typer.Option("--out", metavar="FOLDER", help="Where to; repeat it for folders on other disks.")
    ],
    size: Annotated[str, typer.Option("--size", metavar="BYTES", help="Of a shard, e.g. 256MB or 1GB.")] = "256MB",
    documents: Annotated[
        str, typer.Option("--documents", help="How texts are separated: auto, line, blank, doc or file.")
    ] = "auto",
) -> None:
    """Cut a data set into shards: some files of equal size instead of millions, on one disk or on several.

    Pictures (a folder of classes, a .zip or .tar of one, a .csv or .jsonl with path and label) become plain .tar files;
    texts (.txt, .md, .jsonl with a field text, or folders of them) become .jsonl files. shards.json lists them with
    their counts, sizes and digests. All pictures are checked first, and faults are told as one report. A shard is
    written whole or not at all; after a stop, the same command goes on behind the last one.

    With several --out, a folder is filled until its disk is full, then the next. Shards can be moved later: add their
    new folder to `folders` in shards.json. `patchword data check` reads them all and compares the digests.

    Examples:

      patchword data shard my/pictures --out shards
      patchword data shard my/pictures --out /disk1/shards --out /disk2/shards --size 1GB
      patchword train image-folder-vit data=shards
      patchword data shard corpus.txt --out texts
      patchword train bert-pretrain text=texts
    """
    from patchword.core.disk_space import in_bytes
    from patchword.data.shards.folders import Folders, size_of
    from patchword.data.shards.writing import write_shards
    from patchword.reports.plots.numbers import counted

    begun, told = size_of(size), console()
    with told.status(f"reading {what}") as status:

        def checking(done: int, of: int) -> None:
            status.update(f"checking {what}: {done / of:.1%}")

        def writing(done: int, of: int) -> None:
            status.update(f"writing shards of {what}: {done / of:.1%}")

        contents = _contents(what, documents)
        manifest = write_shards(contents, Folders(tuple(out)), begun, checking, writing)
    files = counted(len(manifest.shards), "shard")
    held = in_bytes(sum(shard.bytes for shard in manifest.shards))
    samples = counted(manifest.samples, "picture" if manifest.kind == "pictures" else "document")
    told.print(f"{samples} in {files}, {held}: {out[0]}", highlight=False, markup=False)


def _contents(what: str, documents: str) -> "Contents":
    from patchword.data.image.named_datasets import open_source
    from patchword.data.shards.image_contents import pictures_of
    from patchword.data.shards.text_contents import holds_texts, texts_of

    return texts_of(Path(what), documents) if holds_texts(Path(what)) else pictures_of(open_source(what), what)
