"""data: lists the data sets, downloads one, shows, checks or shards one."""

from typing import Annotated

import typer

from patchword.cli.common import console
from patchword.cli.completion import data_names
from patchword.cli.data import check as data_check
from patchword.cli.data import shard as data_shard
from patchword.cli.data import show as data_show
from patchword.cli.help import help_of

app = typer.Typer(
    help="List the data sets; download one with `get`, see its images with `show`, find faults with `check`, split it "
    "into shards with `shard`.",
    invoke_without_command=True,
)
app.command("check", help=help_of(data_check.check))(data_check.check)
app.command("shard", help=help_of(data_shard.shard))(data_shard.shard)
app.command("show", help=help_of(data_show.show))(data_show.show)


@app.callback()
def listing(context: typer.Context) -> None:
    if context.invoked_subcommand is not None:
        return
    from rich.table import Table

    from patchword.data.image.named_datasets import DATASETS, data_folder, find_dataset

    table = Table("data set", "content")
    table.add_column("location", overflow="fold")
    for name, known in DATASETS.items():
        found = find_dataset(name)
        table.add_row(name, known.about, found[1] if found else f"[dim]absent: patchword data get {name}[/dim]")
    table.add_row("digits", "1,797 grey 8 x 8 handwritten digits", "scikit-learn, if it is installed")
    out = console()
    out.print(table)
    out.print(f"data folder: {data_folder()} (or $PATCHWORD_DATA)", highlight=False)
    out.print(
        "your own data: a folder with one sub-folder per class, a .zip of it, a folder of shards, or a .csv/.jsonl "
        "with path and label",
        highlight=False,
    )


@app.command("get")
def fetch(
    name: Annotated[str, typer.Argument(help="The name of the data set.", autocompletion=data_names)],
    yes: Annotated[bool, typer.Option("--yes", help="Install or download without asking.")] = False,
) -> None:
    """Download a data set: as a Debian package if you may install one, else as a verified download.

    Example:

      patchword data get fashion-mnist
    """
    from patchword.core.errors import UserError, nearest
    from patchword.data.image.named_datasets import DATASETS, find_dataset
    from patchword.data.image.named_datasets import fetch as bring

    if name not in DATASETS:
        raise UserError(f"no data set is called {name!r}", hint=nearest(name, DATASETS))
    if not yes and find_dataset(name) is None:
        typer.confirm(f"install or download {name} from {DATASETS[name].address}?", abort=True)
    out = console()
    bring(name, lambda text: out.print(text, highlight=False))
