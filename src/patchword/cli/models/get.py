"""get: fetches a pretrained model into the cache of huggingface_hub."""

import json
from typing import TYPE_CHECKING, Annotated

import typer

from patchword.cli.common import Json, console

if TYPE_CHECKING:
    from patchword.weights.hub.download import Download


def get(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME", help="hf:OWNER/REPO, hf:OWNER/REPO@REVISION, or a model of `patchword models --pretrained`."
        ),
    ],
    update: Annotated[
        bool, typer.Option("--update", help="Ask for a newer version even if the model is on this machine.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Fetch a pretrained model; then every verb, recipe and `patchword.load` accept its name.

    Only safetensors, configs and tokenizers are fetched, and each file is verified. After an interruption the same
    command continues: finished files are not fetched again.

    Examples:

      patchword get swin-tiny
      patchword get hf:google/vit-base-patch16-224
      patchword get hf:google/vit-base-patch16-224@refs/pr/3
    """
    from patchword.core.disk_space import format_bytes
    from patchword.weights.hub.download import fetch
    from patchword.weights.hub.name import HubName, is_hub_name
    from patchword.weights.hub.pretrained import find_checkpoint

    found = HubName.parse(name) if is_hub_name(name) else find_checkpoint(name).name
    out = console(quiet=as_json)

    def announce(download: "Download") -> None:
        out.print(
            f"{found}, commit {download.commit[:12]}: {format_bytes(download.size)}", highlight=False, markup=False
        )
        for file in download.files:
            out.print(f"  {file.name}  {format_bytes(file.size)}", highlight=False, markup=False)

    try:
        folder = fetch(found, announce, update)
    except KeyboardInterrupt:
        typer.echo("\nstopped; the same command continues", err=True)
        raise typer.Exit(130) from None
    if as_json:
        sizes = {
            str(path.relative_to(folder)): path.stat().st_size for path in sorted(folder.rglob("*")) if path.is_file()
        }
        typer.echo(json.dumps({"name": str(found), "folder": str(folder), "files": sizes}, indent=2))
        return
    out.print(f"folder: {folder}", highlight=False, markup=False)
    out.print(f'use it by its name, e.g. patchword.load("{found}")', highlight=False, markup=False)
