"""train: trains a recipe and writes a run folder."""

import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from patchword.cli.common import (
    Download,
    RecipeFields,
    RecipeSettings,
    Runs,
    console,
    fetch_model,
    run_output,
    settings_of,
    stopped,
)
from patchword.cli.completion import trainable
from patchword.cli.training.before_training import (
    DryRunOption,
    FindLrOption,
    JsonOption,
    before_training,
    check_before_training,
)
from patchword.cli.training.field_options import (
    FIELDS,
    BatchSize,
    Data,
    DeviceName,
    Epochs,
    ImageSize,
    LearningRate,
    ModelName,
    Seed,
    as_settings,
)
from patchword.cli.training.launch import launch, one_run_only
from patchword.cli.training.study_tables import SeedsTable, Table, table_of

if TYPE_CHECKING:
    from rich.console import Console

    from patchword.recipes import Recipe
    from patchword.recipes.run import Run
    from patchword.studies import Study


def train(
    recipe: Annotated[
        str,
        typer.Argument(
            metavar="RECIPE",
            help="A recipe, study or run by its name, a YAML file, or a folder.",
            autocompletion=trainable,
        ),
    ],
    fields: RecipeFields = None,
    settings: RecipeSettings = None,
    name: Annotated[str | None, typer.Option("--name", help="Name of the run; by default the recipe's.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Resume a run, given by its name or recipe.")] = False,
    seeds: Annotated[
        int | None,
        typer.Option(
            "--seeds", metavar="NUMBER", help="Train from this many seeds; report mean, standard deviation and median."
        ),
    ] = None,
    processes: Annotated[
        int, typer.Option("--processes", min=1, metavar="NUMBER", help="Split every batch over this many processes.")
    ] = 1,
    restarts: Annotated[
        int,
        typer.Option("--restarts", min=0, metavar="NUMBER", help="How often the run may restart after a worker dies."),
    ] = 3,
    log: Annotated[
        list[str] | None,
        typer.Option("--log", metavar="LOGGER", help="Also record the run with mlflow or wandb. Repeatable."),
    ] = None,
    runs: Runs = Path("runs"),
    download: Download = False,
    epochs: Epochs = None,
    learning_rate: LearningRate = None,
    batch_size: BatchSize = None,
    image_size: ImageSize = None,
    data: Data = None,
    model: ModelName = None,
    seed: Seed = None,
    device: DeviceName = None,
    dry_run: DryRunOption = False,
    find_lr: FindLrOption = False,
    as_json: JsonOption = False,
) -> None:
    """Train a recipe, evaluate the best weights on the test set once, and write the report.

    A study trains several recipes that differ in one thing, and reports them in one table and one figure.

    --seeds 5 trains the same recipe from the seeds 0 to 4 (or from the recipe's seed on), each in its own folder, and
    writes results.md, results.json, results.csv and a figure: on a small data set the seed can change a result more
    than the change you test. With --resume, finished seeds are not repeated; a larger number adds seeds. A study
    trains each of its runs from that many seeds.

    --processes 8 splits every batch over 8 processes, one GPU each, or on the CPU: batch size, order of the samples and
    result stay those of one process. If one dies, all restart from the newest checkpoint. See docs/scale.md.

    --dry-run reads the data, builds the model and takes a few steps, none of which is kept. It prints samples, steps,
    MACs, memory, time, disk space, and the fields that are decided automatically, such as the device.

    --find-lr takes about 100 steps with a learning rate that rises from 1e-6 to 1, on weights that are thrown away, and
    suggests the rate at which the loss falls fastest, or less. It sees only the first steps: a good rate also depends
    on the length of the run, the schedule and the batch size, so compare it with the recipe's own.

    batch_size=auto tries real steps and takes the largest size, doubled from a small one, that fits memory with
    head-room; on a CPU the one from which more samples per step are hardly faster. The run's recipe has the number, so
    a resumed run, all seeds and other machines use the same. The learning rate is not changed; the usual rules for it
    are printed.

    sam=0.05 trains with SAM, with two gradients per step (twice the time). teacher=RUN distills another model.

    Examples:

      patchword train fashion-mnist-vit
      patchword train fashion-mnist-vit epochs=5 model.depth=6
      patchword train finetune-images --model runs/mine --data images --epochs 5
      patchword train fashion-mnist-vit epochs=5 --dry-run
      patchword train finetune-images model=runs/bird data=my/images --find-lr
      patchword train image-folder-vit data=my/images
      patchword train detect-objects data=my/photos --name mine
      patchword train segment-images data=my/streets --name streets
      patchword train mine --resume
      patchword train fashion-mnist-families
      patchword train fashion-mnist-vit sam=0.05
      patchword train deit-distillation teacher=runs/fashion-mnist-resnet
      patchword train fashion-mnist-vit --processes 2
      patchword train sharpness-aware --seeds 3
      patchword train exercise-distilled compile=true --seeds 3
      patchword train classify-text model=runs/bert train=reviews.csv --seeds 5
      patchword train finetune-images model=hf:OWNER/REPO data=images --download
      patchword train fashion-mnist-vit --log mlflow
      patchword train tag model=runs/bert train=names.conll test=others.conll
      patchword train over-vectors vectors=words.txt train=names.conll
    """
    from patchword.api.training import place_of, print_duration, recipe_and_folder
    from patchword.studies import STUDIES
    from patchword.studies.seeds import check_seeds_folder, over_seeds, study_over_seeds
    from patchword.training.parallel.rank import is_main, rank_of
    from patchword.tuning.batch_size import with_batch_size

    typed, out = settings_of(settings, fields), run_output(quiet=not is_main())
    given = model, data, epochs, batch_size, learning_rate, image_size, seed, device
    options = dict(zip(FIELDS, given, strict=True))
    changes = [*_settings_of(recipe, runs, options, typed), *typed]
    if log:
        changes.append(f"loggers=[{', '.join(log)}]")
    if download:
        _fetch(recipe, changes, runs)
    many = processes > 1 or rank_of() is not None
    several = seeds is not None or recipe in STUDIES or many
    check_before_training(dry_run, find_lr, as_json, several, resume)
    if many:
        one_run_only(seeds is not None or recipe in STUDIES)
    if processes > 1 and rank_of() is None:
        place = ["--name", name] if name else []
        if not resume:  # the folder has a name: the launcher restarts with --resume, by which RECIPE may mean a run
            place = ["--name", recipe_and_folder(recipe, runs, name)[1].name]
        place += ["--runs", str(runs), *(("--resume",) if resume else ())]
        words = [sys.executable, "-m", "patchword", "train", recipe, *changes, *place]
        raise typer.Exit(
            launch(words, processes, restarts, lambda text: out.print(text, highlight=False, markup=False))
        )
    again = ["patchword", "train", recipe, *changes]
    if recipe in STUDIES:
        study = STUDIES[recipe]().with_settings(changes)
        if seeds is not None:
            study, again = study_over_seeds(study, seeds), [*again, "--seeds", str(seeds)]
        _several(Several(study, place_of(name, recipe, runs), again, table_of(study)), out, resume)
        return
    base, folder = recipe_and_folder(recipe, runs, name, resume)
    chosen = base.with_settings(changes)
    if not dry_run:  # which names the number among what was decided
        chosen = with_batch_size(chosen, folder, console(quiet=as_json or not is_main()), base.batch_size)
    if dry_run or find_lr:
        place = [*(("--name", name) if name else ()), *(("--runs", str(runs)) if runs != Path("runs") else ())]
        before_training(chosen, folder, out, find_lr, as_json, again, place)
        return
    if resume and seeds is None:
        _explain_resume(recipe, folder, out)
    if seeds is not None:
        study = over_seeds(folder.name, chosen, seeds)
        check_seeds_folder(folder)
        _several(Several(study, folder, [*again, "--seeds", str(seeds)], SeedsTable()), out, resume)
        return
    print_duration(base, chosen, folder, out)
    _run(chosen, folder, out, resume)


def _settings_of(recipe: str, runs: Path, options: Mapping[str, str | None], typed: Sequence[str]) -> list[str]:
    """Return the options as settings of a recipe, or of the runs of a study."""
    from patchword.api.training import named_recipe
    from patchword.studies import STUDIES

    if all(value is None for value in options.values()):
        return []
    first = next(iter(STUDIES[recipe]().runs.values())) if recipe in STUDIES else named_recipe(recipe, runs)[0]
    return as_settings(first, options, typed)


def _explain_resume(recipe: str, folder: Path, out: "Console") -> None:
    """Print what --resume means where it could mean something else."""
    from patchword.recipes import RECIPES

    if not (folder / "recipe.yaml").is_file():
        out.print(f"there is no run {folder} to resume; it starts from the beginning", highlight=False, markup=False)
    elif recipe in RECIPES and folder.name == recipe:
        text = f"{recipe} is a recipe and a run; --resume means the run {folder} with its own recipe"
        out.print(text, highlight=False, markup=False)


def _fetch(recipe: str, changes: Sequence[str], runs: Path) -> None:
    """Fetch the models of the hub that a recipe or a study starts from."""
    from patchword.api.training import named_recipe
    from patchword.recipes.model_choice import model_names
    from patchword.studies import STUDIES

    study = STUDIES[recipe]().with_settings(changes).runs.values() if recipe in STUDIES else None
    recipes = study or [named_recipe(recipe, runs)[0].with_settings(changes)]
    for name in dict.fromkeys(name for one in recipes for name in model_names(one)):
        fetch_model(name, download=True)


def _run(recipe: "Recipe", folder: Path, out: "Console", resume: bool) -> None:
    from patchword.api.training import train_recipe
    from patchword.training.signals import breakable

    with breakable():
        try:
            train_recipe(recipe, folder, out, resume)
        except KeyboardInterrupt:
            stopped(folder, out)


@dataclass(frozen=True)
class Several:
    """Runs that belong together: their folder, the command that resumes them, and the table of their results."""

    study: "Study"
    folder: Path
    words: Sequence[str]
    table: Table

    def again(self) -> str:
        place = ["--name", self.folder.name, "--runs", str(self.folder.parent), "--resume"]
        return shlex.join([*self.words, *place])


def _several(several: Several, out: "Console", resume: bool) -> None:
    """Train each run in its own folder; with `resume`, finished runs are not repeated."""
    from patchword.recipes.run import Run
    from patchword.recipes.run_folders.finished import was_finished
    from patchword.reports.plots.numbers import counted
    from patchword.studies.study import results

    folder = several.folder
    study = several.study.possible(lambda text: out.print(text, highlight=False, markup=False)).in_folder(folder)
    study.check(folder)
    out.print(f"{study.about} {counted(len(study.runs), 'run')}; {study.time}.", highlight=False, markup=False)
    try:
        for number, (label, recipe) in enumerate(study.runs.items(), 1):
            evaluated = (folder / label / "evaluation.json").is_file()
            done = evaluated and was_finished(folder / label, recipe)  # a stopped run may be evaluated, too
            title = f"\n[bold]{number} of {len(study.runs)}: {label}[/bold]{' (done)' if done else ''}"
            out.print(title, highlight=False)
            if not (done and resume):
                _run(recipe, folder / label, out, resume)
            _measure(study, Run(folder / label), recipe.device, out)
    except (typer.Exit, KeyboardInterrupt) as stop:
        message = f"\nresume the {several.table.name} with:\n  {several.again()}"
        out.print(message, highlight=False, markup=False)
        raise typer.Exit(stop.exit_code if isinstance(stop, typer.Exit) else 130) from None
    rows = results(study, folder)
    for path in several.table.write(study, rows, folder, out):
        out.print(str(path), highlight=False, markup=False)


def _measure(study: "Study", run: "Run", device: str, out: "Console") -> None:
    """Compute the measures that the study needs beyond the evaluation, and add them to the run's report."""
    from patchword.cli.text.answers import progress
    from patchword.recipes.evaluation import evaluate
    from patchword.reports import write_report

    missing = [measure for measure in study.measured if measure.known(run) is None]
    for measure in missing:
        out.print(f"measuring the {measure.name}", highlight=False, markup=False)
        with progress(1, "of all") as bar:
            measure.measure(run, device, bar)
    if missing:
        write_report(run, evaluate(run, device))
