import pytest

from patchword.analysis.published.text import PUBLISHED_TEXTS, TASKS
from patchword.models import REGISTRY

ENTRIES = pytest.mark.parametrize(("name", "row"), PUBLISHED_TEXTS.items(), ids=PUBLISHED_TEXTS)
WORDS_OUTSIDE = (
    "bert-base-multilingual",
    "bert-base-multilingual-uncased",
)  # printed as if words were those of English


@ENTRIES
def test_every_figure_has_its_source(name, row):
    assert row.parameters is not None or row.scores, "a model without a figure is left out"
    assert (row.parameters is None) == (row.source == "")
    for source in row.sources():
        assert "arXiv" in source or "authors'" in source or "Hugging Face's" in source


@ENTRIES
def test_a_score_is_a_percentage_of_a_known_task_and_stands_there_once(name, row):
    tasks = [score.task for score in row.scores]
    assert set(tasks) <= set(TASKS)
    assert len(tasks) == len(set(tasks))
    assert all(50 < score.value < 100 for score in row.scores)
    assert all(score.part in ("dev", "test") for score in row.scores)


def test_every_model_is_in_the_registry_and_reads_texts():
    assert PUBLISHED_TEXTS.keys() <= set(REGISTRY.names())
    assert not any(REGISTRY.reads_images(name) for name in PUBLISHED_TEXTS)


@pytest.mark.parametrize("name", [name for name in PUBLISHED_TEXTS if name not in WORDS_OUTSIDE])
def test_the_parameters_are_those_of_the_model_built_here(name):
    row, variant = PUBLISHED_TEXTS[name], REGISTRY.find(name)[1]
    if row.parameters is not None:
        assert row.parameters == pytest.approx(variant.parameters / 1e6, rel=0.08)


@pytest.mark.parametrize("sizes", [("tiny", "mini", "small", "medium", "base", "large"), ("base", "large")])
def test_larger_models_of_a_family_score_higher(sizes):
    families = ["bert"] if len(sizes) > 2 else ["roberta", "albert"]
    for family in families:
        scores = [PUBLISHED_TEXTS[f"{family}-{size}"].score("MNLI-m").value for size in sizes]
        assert scores == sorted(scores)


def test_figures_are_printed_as_they_were():
    assert PUBLISHED_TEXTS["bert-medium"].score("MNLI-m").printed() == "80.0 test"
    assert PUBLISHED_TEXTS["bert-base"].score("SQuAD 1.1 F1").printed() == "88.41 dev"
