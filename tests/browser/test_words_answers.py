"""The page Words with fine-tuned models: tags, answers and classes, as text and never as markup."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

import patchword
from support.lab.actions import saved, saved_json
from support.lab.browser import Open, expect
from support.lab.process import running_lab
from support.lab.tuned import write_tuned

TEXT = "The cat sat <b>on</b> the mat."


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {folder.name: folder for folder in write_tuned(tmp_path_factory.mktemp("tuned"))}


@pytest.fixture(scope="module")
def lab(folders: dict[str, Path]) -> Iterator[str]:
    with running_lab(*folders.values()) as address:
        yield address


def test_tags_answers_and_classes(visit: Open, folders: dict[str, Path]) -> None:
    found = visit(f"#/words?view=answers&model=tags&text={quote(TEXT)}&question={quote('Who sat?')}")
    page = found.page
    expect(page.locator("[data-figure=marked]")).to_contain_text("cat")
    tags = patchword.pipeline(folders["tags"]).tag(TEXT)[0]
    assert [one["tag"] for one in saved_json(page, "Save the answers")["words"]] == [one.tag for one in tags.words]
    assert page.locator("main b", has_text="on").count() == sum("on" in one.text for one in tags.spans)
    assert saved(page, "Save the answers", "SVG").startswith(b"<svg")
    assert not found.violations()
    page.get_by_label("Model", exact=True).select_option("span")
    best = patchword.pipeline(folders["span"]).answer("Who sat?", TEXT)
    expect(page.locator("main ol li").first).to_contain_text(f"{100 * best.probability:.1f} %")
    assert saved_json(page, "Save the answers")["answer"] == best.answer
    page.get_by_label("Model", exact=True).select_option("classes")
    expect(page.locator("[data-figure=probabilities]")).to_be_visible()
    classes = patchword.pipeline(folders["classes"])(TEXT)[0].classes
    assert [name for name, _ in saved_json(page, "Save the answers")["classes"]] == [name for name, _ in classes]
    assert not found.violations()
    assert found.overflow() <= 0
