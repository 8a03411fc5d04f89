import pytest

from patchword.core.errors import UserError
from patchword.data.text.formats.glue import GLUE, read_glue
from patchword.data.text.formats.labels import label_ids, numbers
from patchword.objectives.metrics.metrics import METRICS

ROWS = {
    "cola": ("CoLA", None, ["gj04\t1\t\tShe left.", "gj04\t0\t*\tLeft she."]),
    "sst2": ("SST-2", "sentence\tlabel", ["a joy \t1", 'no " joy \t0']),
    "mrpc": ("MRPC", "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String", ['1\t1\t2\ta\t" b', "0\t3\t4\tc\td"]),
    "stsb": ("STS-B", "index\tgenre\tsentence1\tsentence2\tscore", ["0\tx\ta\tb\t5.000", "1\tx\tc\td\t0.25"]),
    "qqp": ("QQP", "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate", ["0\t1\t2\ta\tb\t1", "1\t1\t2\ta\t\t0"]),
    "mnli": ("MNLI", "index\tsentence1\tsentence2\tlabel1\tgold_label", ["0\ta\tb\tx\tcontradiction"]),
    "qnli": ("QNLI", "index\tquestion\tsentence\tlabel", ["0\ta\tb\tentailment", "1\ta\tb\tnot_entailment"]),
    "rte": ("RTE", "index\tsentence1\tsentence2\tlabel", ["0\ta\tb\tnot_entailment"]),
    "wnli": ("WNLI", "index\tsentence1\tsentence2\tlabel", ["0\ta\tb\t1", "1\ta\tb\t0"]),
}
FIRST = {"cola": 1, "sst2": 1, "mrpc": 1, "qqp": 1, "mnli": 2, "qnli": 0, "rte": 1, "wnli": 1}


def write(folder, task, name, header=True, extra=()):
    home, names, rows = ROWS[task]
    (folder / home).mkdir(exist_ok=True)
    lines = [*([names] if names and header else []), *rows, *extra]
    (folder / home / name).write_text("\n".join(lines) + "\n", encoding="utf-8")


@pytest.mark.parametrize("task", GLUE)
def test_a_task_is_read_with_its_quirks(tmp_path, task):
    write(tmp_path, task, "train.tsv")
    table = read_glue(task, tmp_path, "train")
    assert len(table) == len(ROWS[task][2])
    assert ("pair" in table.columns) == (task not in ("cola", "sst2"))
    if task == "stsb":
        assert numbers(table).tolist() == [5.0, 0.25]
    else:
        assert int(label_ids(table, GLUE[task].labels)[0]) == FIRST[task]


def test_cola_has_no_header_and_marks_are_characters(tmp_path):
    write(tmp_path, "cola", "train.tsv")
    write(tmp_path, "mrpc", "train.tsv")
    assert read_glue("cola", tmp_path).columns == {
        "text": ["She left.", "Left she."],
        "label": ["acceptable", "unacceptable"],
    }
    assert read_glue("mrpc", tmp_path).columns["pair"] == ['" b', "d"]


def test_the_labels_of_mnli_are_in_the_order_of_the_data_set():
    assert GLUE["mnli"].labels == ("entailment", "neutral", "contradiction")
    assert GLUE["qnli"].labels == ("entailment", "not_entailment")


def test_every_metric_is_known_and_one_counts():
    assert len(GLUE) == 9
    assert all(task.counts in task.metrics and set(task.metrics) <= METRICS.keys() for task in GLUE.values())
    assert {name: task.counts for name, task in GLUE.items() if task.counts != "accuracy"} == {
        "cola": "matthews",
        "mrpc": "f1",
        "stsb": "spearman",
        "qqp": "f1",
    }


def test_mnli_has_two_validation_parts(tmp_path):
    write(tmp_path, "mnli", "dev_matched.tsv")
    write(tmp_path, "mnli", "dev_mismatched.tsv")
    assert read_glue("mnli", tmp_path, "validation").path.name == "dev_matched.tsv"
    assert read_glue("mnli", tmp_path, "validation-mismatched").path.name == "dev_mismatched.tsv"


def test_a_test_part_has_no_labels(tmp_path):
    (tmp_path / "CoLA").mkdir()
    (tmp_path / "CoLA" / "test.tsv").write_text("index\tsentence\n0\tBill whistled.\n")
    assert read_glue("cola", tmp_path, "test").columns == {"text": ["Bill whistled."]}


def test_mrpc_is_read_as_published_only_while_nothing_overlaps(tmp_path):
    write(tmp_path, "mrpc", "msr_paraphrase_train.txt")
    write(tmp_path, "mrpc", "msr_paraphrase_test.txt")
    assert read_glue("mrpc", tmp_path).columns["label"] == ["equivalent", "not_equivalent"]
    assert "label" in read_glue("mrpc", tmp_path, "test").columns
    write(tmp_path, "mrpc", "dev.tsv")  # its rows come from the published training file
    with pytest.raises(UserError, match=r"train\.tsv is missing"):
        read_glue("mrpc", tmp_path)


def test_short_rows_of_qqp_are_dropped(tmp_path):
    write(tmp_path, "qqp", "train.tsv", extra=["2\t1\t2\tcut short"])
    assert len(read_glue("qqp", tmp_path)) == 2
    write(tmp_path, "qnli", "train.tsv", extra=["2\tcut short"])
    with pytest.raises(UserError, match=r"QNLI/train\.tsv, line 4, column 'sentence': the row is too short"):
        read_glue("qnli", tmp_path)


@pytest.mark.parametrize("name", ["sst2", "SST_2", "SST-2"])
def test_the_folder_is_found_by_any_of_its_names(tmp_path, name):
    write(tmp_path, "sst2", "dev.tsv")
    (tmp_path / "SST-2").rename(tmp_path / name)
    for folder in (tmp_path, tmp_path / name):
        assert len(read_glue("sst2", folder, "validation")) == 2


@pytest.mark.parametrize(
    ("task", "part", "message"),
    [
        ("qnli", "train", r"QNLI.train\.tsv is missing\nqnli needs it for its train part"),
        ("rte", "train", r"has no folder RTE"),
        ("qnly", "train", r"GLUE has no task 'qnly'\ndid you mean 'qnli'"),
        (
            "qnli",
            "validation-mismatched",
            r"qnli has no part 'validation-mismatched': expected train, validation, test",
        ),
    ],
)
def test_what_is_missing_is_named(tmp_path, task, part, message):
    write(tmp_path, "qnli", "dev.tsv")
    with pytest.raises(UserError, match=message):
        read_glue(task, tmp_path, part)


def test_a_missing_folder_and_a_wrong_label_are_named(tmp_path):
    with pytest.raises(UserError, match="there is no folder"):
        read_glue("rte", tmp_path / "nothing")
    write(tmp_path, "sst2", "train.tsv", extra=["fine\t2"])
    with pytest.raises(UserError, match=r"train\.tsv, line 4, column 'label': expected 0 or 1, got '2'"):
        read_glue("sst2", tmp_path)


def test_a_file_is_not_the_folder_of_glue(tmp_path):
    write(tmp_path, "sst2", "train.tsv")
    file = next(tmp_path.rglob("train.tsv"))
    with pytest.raises(UserError, match=r"train\.tsv is a file: expected the folder of GLUE.*\ngive its folder"):
        read_glue("sst2", file)
