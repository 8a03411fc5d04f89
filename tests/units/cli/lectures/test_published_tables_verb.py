"""`patchword compare --published`: the tables of the papers."""

import json


def test_a_table_with_models_that_are_published_only(command):
    code, printed, _ = command("compare", "--published", "drcd")
    assert code == 0
    assert "QANet" in printed
    assert "published only" in printed
    assert "bert-base-multilingual" in printed
    assert "source: Hsu, Liu and Lee 2019" in printed


def test_figures_that_differ_are_explained_below(command):
    _, printed, _ = command("compare", "--published", "swin-imagenet")
    assert "regnety-16gf: swin-imagenet 82.9, compare 80.4; 80.4 is the model of its authors" in printed


def test_tables_as_json(command):
    _, printed, _ = command("compare", "--published", "glue", "--json")
    (table,) = json.loads(printed)["tables"]
    assert table["columns"][:3] == ["system", "here", "MNLI-m"]
    assert table["rows"][-1] == [
        *("BERT-large", "bert-large", "86.7", "85.9", "72.1", "92.7", "94.9", "60.5", "86.5", "89.3", "70.1", "82.1")
    ]


def test_mistakes(command):
    assert "no published table matches 'llama'" in command("compare", "--published", "llama")[2]
    assert "no --text, --dense, --speed or --out" in command("compare", "--published", "--dense")[2]
