"""evaluate: evaluates a run on its test set."""

from patchword.cli.common import DataFields, DataSettings, Device, RunArgument, console, find_run, settings_of


def evaluate(
    run: RunArgument,
    fields: DataFields = None,
    settings: DataSettings = None,
    device: Device = "auto",
) -> None:
    """Evaluate a run's best weights on the test set: loss, accuracy per class and overall; updates the report.

    A detector is evaluated by the average precision (AP) of its boxes and masks, a segmenter by its mean IoU.

    With fields such as test=FILE or data=FOLDER the run is evaluated on other data. The result is written to the folder
    `evaluations` of the run, for classifiers with a report; the run's own result and report stay unchanged. Of images,
    the test split is read, or all of them if there is none. The other data may lack classes, which is stated; a class
    that the model does not know is an error.

    Examples:

      patchword evaluate runs/demo
      patchword evaluate runs/pets data=other/photos
      patchword evaluate runs/squad test=other.json language=chinese
    """
    from patchword.api.evaluation import finish
    from patchword.recipes.results.other_data import evaluate_on
    from patchword.reports.run.kinds import result_lines, write_other_report

    found, changes = find_run(run), settings_of(settings, fields)
    if not changes:
        finish(found, console(), device)
        return
    result, changed, path = evaluate_on(found, changes, device)
    report = write_other_report(changed, result, path.with_suffix(".html"))
    lines = [*result_lines(result), "", f"result: {path}", *([f"report: {report}"] if report else [])]
    for line in lines:
        console().print(line, highlight=False, markup=False)
