"""demo: runs the Fashion-MNIST exercise from training to report."""

from pathlib import Path

import typer

from patchword.cli.common import Runs, run_output


def demo(runs: Runs = Path("runs")) -> None:
    """Train a small ViT for a few minutes, test it, and count the cost of one encoder layer step by step.

    Uses Fashion-MNIST, or scikit-learn's digits if Fashion-MNIST is not on this machine.

    Example:

      patchword demo
    """
    from patchword.analysis.cost import block_of, count
    from patchword.api.training import finish_run, loggers_of
    from patchword.data.image.named_datasets import find_dataset
    from patchword.recipes import find_recipe
    from patchword.recipes.run import Run
    from patchword.recipes.train import train
    from patchword.training.signals import stop_exit_code

    out = run_output()
    if find_dataset("fashion-mnist"):
        recipe, folder = find_recipe("fashion-mnist-vit-short"), runs / "demo"
    else:
        out.print("[yellow]Fashion-MNIST is not on this machine; the demo uses scikit-learn's digits instead.[/yellow]")
        out.print("[yellow]`patchword data get fashion-mnist` downloads it.[/yellow]\n")
        recipe, folder = find_recipe("digits-vit"), runs / "demo-digits"
    data = "Fashion-MNIST" if folder.name == "demo" else "digits"
    out.print(f"[bold]1. Training[/bold] {recipe.model.name} on {data}: {recipe.expect.time}\n", highlight=False)
    with loggers_of(recipe, out) as loggers:
        done = train(recipe, folder, out, resume=True, loggers=loggers)
    if not done:
        out.print("\nstopped; `patchword demo` resumes from here")
        raise typer.Exit(stop_exit_code())
    out.print("\n[bold]2. Evaluation[/bold] on the test set, which training did not read")
    finish_run(recipe, folder, out)
    out.print("\n[bold]3. The cost of one encoder layer[/bold], step by step\n")
    card = Run(folder).model().card
    out.print(count(card, block_of(card, 1)).to_text(), highlight=False, markup=False)
    out.print(f"\nread the report: {folder / 'report.html'}", highlight=False, markup=False)
