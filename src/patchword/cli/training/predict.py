"""predict: applies a run to your own images or texts."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from patchword.cli.common import Device, Download, Precision, console, fetch_model, trained_model
from patchword.cli.completion import run_names
from patchword.cli.text.answers import Answers, check_places, messages, progress, report_truncation
from patchword.cli.text.sharded import ShardOptions, ShardRows, run_in_shards
from patchword.cli.training.class_outputs import write_classes

if TYPE_CHECKING:
    from patchword.pipelines.texts import TextEngine
    from patchword.recipes.text.inference.requests import TypedOptions


_SHOWN = 5  # images without a prediction that are named


def predict(
    model: Annotated[
        str,
        typer.Argument(
            metavar="RUN",
            help="A run, folder or file of a saved model, zoo:NAME, or hf:OWNER/REPO.",
            autocompletion=run_names,
        ),
    ],
    inputs: Annotated[
        list[str] | None,
        typer.Argument(metavar="INPUT...", help="Images or folders of images; texts, files of texts, or - for stdin."),
    ] = None,
    to: Annotated[Path | None, typer.Option("--csv", help="Write the predictions to this CSV file.")] = None,
    jsonl: Annotated[
        Path | None, typer.Option("--jsonl", help="Write the predictions to this file, one JSON record per line.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON record per line.")] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="FILE",
            help="Of a classifier or a model of texts: write the predictions in shards, for any number of rows, to a "
            ".parquet, .arrow, .jsonl or .csv file. A killed command, given again, goes on.",
        ),
    ] = None,
    shard: ShardRows = None,
    coco: Annotated[
        Path | None, typer.Option("--coco", help="Of a detector: write the objects as COCO's result list.")
    ] = None,
    draw: Annotated[
        Path | None,
        typer.Option("--draw", metavar="FOLDER", help="Of a detector or a segmenter: write the drawn images here."),
    ] = None,
    masks: Annotated[
        Path | None,
        typer.Option(
            "--masks", metavar="FOLDER", help="Of a segmenter: write PNG files of class numbers with a palette here."
        ),
    ] = None,
    polygons: Annotated[
        Path | None,
        typer.Option("--polygons", metavar="FILE", help="Of a segmenter: write the regions as COCO JSON polygons."),
    ] = None,
    score: Annotated[
        float | None,
        typer.Option("--score", help="Of a detector: the lowest score of an object; by default 0.3.", min=0, max=1),
    ] = None,
    every: Annotated[
        float | None,
        typer.Option(
            "--every",
            metavar="SECONDS",
            help="Of a detector: time between the frames of a video; by default 1, 0 is every frame.",
            min=0,
        ),
    ] = None,
    top: Annotated[int, typer.Option("--top", help="How many classes or answers to show.", min=1)] = 3,
    text: Annotated[
        str, typer.Option("--text", metavar="COLUMN", help="The table column to read; by default the recipe's.")
    ] = "",
    pair: Annotated[str, typer.Option("--pair", help="The second text; for a table, its column.")] = "",
    question: Annotated[str, typer.Option("--question", help="The question to answer from the text.")] = "",
    empty: Annotated[
        bool | None,
        typer.Option("--empty/--no-empty", help="Whether a question may have no answer; by default as in training."),
    ] = None,
    on_broken: Annotated[
        Literal["skip", "stop"],
        typer.Option(
            "--on-broken",
            help="Of images and rows that cannot be read: skip, which predicts the others and gives these an error "
            "instead, or stop.",
        ),
    ] = "skip",
    calibrated: Annotated[
        bool,
        typer.Option("--calibrated", help="Of a classifier: scale the probabilities by the run's fitted temperature."),
    ] = False,
    device: Device = "auto",
    precision: Precision = "auto",
    download: Download = False,
) -> None:
    """Predict with a trained run: classes, objects or label maps of images, classes of texts, numbers, tags, answers.

    Texts are typed, piped in, or in files: .txt (one per line), .csv, .tsv, .jsonl, .conll(u), SQuAD's .json. The other
    columns of a table, such as an id, are copied to the output. A detector also takes video files.

    Examples:

      patchword predict zoo:digits-vit digit.png
      patchword predict runs/demo photo.png more/photos --csv answers.csv
      patchword predict runs/cells more/photos --draw drawn --coco found.json
      patchword predict runs/streets photos --masks labels --polygons regions.json
      patchword predict runs/reviews "What a film!"
      patchword predict runs/reviews new.csv --csv answers.csv
      patchword predict runs/reviews millions.parquet --out answers.parquet
      patchword predict runs/names "Ada Lovelace lived in London." --json
      patchword predict runs/squad article.txt --question "Who was it?" --top 5
    """
    from patchword.pipelines.detection.opening import is_detector
    from patchword.pipelines.segmentation.opening import holds_segmenter
    from patchword.pipelines.texts import TextEngine
    from patchword.recipes.text.inference.requests import TypedOptions

    check_places(to, jsonl, coco, polygons)
    fetch_model(model, download)
    options = ShardOptions(shard, on_broken)
    if out is not None:
        from patchword.pipelines.bulk.work import PredictWork

        files = {"--csv": to, "--jsonl": jsonl, "--json": as_json or None, "--coco": coco, "--draw": draw}
        only = {"--masks": masks, "--polygons": polygons, "--score": score, "--every": every}
        _refuse_beside_out({**files, **only})
        words = TypedOptions(text, pair, question)
        work = PredictWork(model, words, top, empty, calibrated, device, precision)
        run_in_shards(work, inputs or (), out, options)
        return
    options.refuse_without_out(inputs or ())
    if holds_segmenter(_folder(model)):
        from patchword.cli.training.predict_labels import LabelOutputs, predict_labels

        _refuse_options(model, {"--coco": coco, "--score": score, "--every": every}, "detectors")
        _refuse_options(model, {"--calibrated": calibrated or None}, "classifiers")
        predict_labels(
            _folder(model), inputs or (), LabelOutputs(to, jsonl, masks, draw, polygons, as_json), device, precision
        )
        return
    _refuse_options(model, {"--masks": masks, "--polygons": polygons}, "segmenters")
    if is_detector(_folder(model)):
        from patchword.cli.training.object_outputs import ObjectOutputs
        from patchword.cli.training.predict_objects import predict_objects

        _refuse_options(model, {"--calibrated": calibrated or None}, "classifiers")
        outputs = ObjectOutputs(to, jsonl, coco, draw, as_json)
        predict_objects(_folder(model), inputs or (), outputs, score, every, device, precision)
        return
    _refuse_options(model, {"--coco": coco, "--draw": draw, "--score": score, "--every": every}, "detectors")
    if reads_texts(model):
        kept = as_json or to is not None or jsonl is not None
        opened = TextEngine.open(model, device, precision)
        engine = opened.calibrated() if calibrated else opened
        answers = _texts(engine, inputs or (), TypedOptions(text, pair, question), top, empty, kept, on_broken)
        if as_json:
            for line in answers.json_lines():
                typer.echo(line, nl=False)
        answers.write(to, jsonl, messages(as_json))
        if not (as_json or to or jsonl):
            answers.print(console())
        report_skipped([str(one.error) for one in answers.asked if one.error], len(answers.asked), as_json)
        return
    from patchword.api.run import find_folder
    from patchword.core.errors import UserError
    from patchword.pipelines.answering import classify_images
    from patchword.pipelines.image_inputs import list_images
    from patchword.pipelines.images import ImageEngine

    refuse_pretrained(model)
    found = trained_model(Path(model))
    images = list_images(inputs or [])
    classifier = ImageEngine.of(found, device, precision, model, find_folder(_folder(model)))
    predictions = classify_images(classifier.calibrated() if calibrated else classifier, images, top)
    errors = [answer.error for answer in predictions if answer.error]
    if errors and on_broken == "stop":
        raise UserError(errors[0], hint="--on-broken skip predicts the others")
    write_classes(predictions, to, jsonl, as_json)
    report_skipped(errors, len(predictions), as_json)


def _refuse_beside_out(options: Mapping[str, object]) -> None:
    from patchword.core.errors import UserError

    given = [name for name, value in options.items() if value is not None]
    if given:
        raise UserError(f"--out and {given[0]} were given", expected="one of them", hint="--out works in shards")


def _refuse_options(model: str, options: Mapping[str, object], kind: str) -> None:
    from patchword.core.errors import UserError

    given = [name for name, value in options.items() if value is not None]
    if given:
        raise UserError(f"{given[0]} is an option for {kind}", got=f"{model}, which is none")


def reads_texts(model: str) -> bool:
    """Return whether a run or a saved model reads texts (else images)."""
    from patchword.core.formats.sentence_transformers import encoder_folder
    from patchword.data.text.tokenizers.loading import NAMES
    from patchword.recipes.image.recipe import ImageDataRecipe
    from patchword.recipes.schema.reading import read_recipe

    folder = _folder(model)
    if (folder / "recipe.yaml").is_file():
        return not isinstance(read_recipe(folder / "recipe.yaml"), ImageDataRecipe)
    beside = encoder_folder(folder) if folder.is_dir() else folder.parent
    return folder.exists() and any((beside / name).is_file() for name in NAMES)


def refuse_pretrained(model: str) -> None:
    """Raise an error for a run on unlabelled images, whose head is untrained."""
    from patchword.core.errors import UserError
    from patchword.recipes.image.recipe import ImageRecipe
    from patchword.recipes.schema.reading import read_recipe

    path = _folder(model) / "recipe.yaml"
    if path.is_file() and not isinstance(read_recipe(path), ImageRecipe):
        hint = f"fine-tune it: `patchword train finetune-images model={path.parent} data=FOLDER`"
        raise UserError(f"{model} is pretrained only; it has no classes yet", hint=hint)


def _folder(model: str) -> Path:
    from patchword.weights.local_path import local_path

    given = local_path(model)
    return next((path for path in (given, Path("runs") / model) if path.exists()), given)


def _texts(
    engine: "TextEngine",
    inputs: Sequence[str],
    words: "TypedOptions",
    top: int,
    empty: bool | None,
    kept: bool,
    on_broken: str,
) -> Answers:
    """Predict for texts. kept: True if the output is a file or JSON, which repeats the other columns of a table.

    A row that cannot be read has an error in the place of its answer, unless no row can be read.
    """
    from patchword.cli.text.columns import others_of
    from patchword.recipes.text.inference.answers import NoAnswer
    from patchword.recipes.text.tasks.all_tasks import task_spec_of

    recipe = engine.recipe(paired=bool(words.pair))
    goal = task_spec_of(recipe)
    texts = goal.asked(inputs, words)
    good = [one for one in texts if one.error is None]
    for error in (one.error for one in texts if one.error is not None and (on_broken == "stop" or not good)):
        raise error
    with progress(len(good)) as bar:
        found = iter(engine.predict(good, recipe, top, empty, bar))
    answers = [next(found) if one.error is None else NoAnswer(str(one.error).splitlines()[0]) for one in texts]
    report_truncation(engine.reader.counts, recipe.length)
    others = others_of(recipe, texts, words) if kept else {}
    return Answers(texts, answers, goal.asked_as, others)


def report_skipped(errors: Sequence[str], total: int, as_json: bool) -> None:
    """Print how many inputs have no prediction, and name the first of them."""
    if not errors:
        return
    out = messages(as_json)
    for error in errors[:_SHOWN]:
        out.print(f"note: no prediction: {error.splitlines()[0]}", highlight=False, markup=False)
    if len(errors) > _SHOWN:
        out.print(f"note: and {len(errors) - _SHOWN:,} more without a prediction", highlight=False)
    out.print(f"{len(errors):,} of {total:,} skipped", highlight=False)
