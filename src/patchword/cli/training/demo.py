"""demo: the Fashion-MNIST exercise, end to end."""

from pathlib import Path

import typer

from patchword.cli.common import Runs, console, finish


def demo(runs: Runs = Path("runs")) -> None:
    """Train the exercise's ViT for a few minutes, test it, and show what one encoder layer costs, step by step.

    Without Fashion-MNIST on this machine it uses scikit-learn's digits instead, and says so.
    """
    from patchword.analysis.cost import blocks_of, count
    from patchword.cli.models.cost import print_cost
    from patchword.data.image.named_datasets import whereabouts
    from patchword.recipes import find_recipe
    from patchword.recipes.run import Run
    from patchword.recipes.train import train
    from patchword.training.signals import stop_code

    out = console()
    if whereabouts("fashion-mnist"):
        recipe, folder = find_recipe("fashion-mnist-vit-short"), runs / "demo"
    else:
        out.print(
            "[yellow]Fashion-MNIST is not on this machine; this demo uses scikit-learn's digits instead.[/yellow]"
        )
        out.print("[yellow]`patchword data get fashion-mnist` brings it.[/yellow]\n")
        recipe, folder = find_recipe("digits-vit"), runs / "demo-digits"
    data = "Fashion-MNIST" if folder.name == "demo" else "digits"
    out.print(f"[bold]1. Training[/bold] {recipe.model.name} on {data}: {recipe.expect.time}\n", highlight=False)
    if not train(recipe, folder, out, resume=True):
        out.print("\nstopped; `patchword demo` goes on from here")
        raise typer.Exit(stop_code())
    out.print("\n[bold]2. The test set[/bold], read for the first time")
    finish(Run(folder), out, recipe.device)
    out.print("\n[bold]3. One encoder layer[/bold], counted by hand\n")
    card = Run(folder).model().card
    print_cost(out, count(card, blocks_of(card)[0]), steps=True)
    out.print(f"\nread the report: {folder / 'report.html'}", highlight=False, markup=False)
