"""tools/docs_sources.py: links from the documentation to files of the repository."""

import pytest

from support.source_code import load_tool


@pytest.fixture(scope="module")
def sources():
    return load_tool("docs_sources")


@pytest.fixture
def root(tmp_path):
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "vit.py").write_text("x = 1\n", encoding="utf-8")
    (tmp_path / "result.json").write_text("{}\n", encoding="utf-8")
    return tmp_path


def test_links_outside_of_docs_point_to_the_copies(sources, root):
    page = "[ViT](../src/vit.py#L1), [figures](../result.json), [BERT](bert.md)"
    assert sources.outside(page, root) == {"src/vit.py", "result.json"}
    assert sources.rewrite(page, root) == "[ViT](source/src/vit.py.md), [figures](source/result.json), [BERT](bert.md)"


def test_a_link_to_a_missing_file_is_left_for_mkdocs_to_report(sources, root):
    page = "[gone](../src/gone.py)"
    assert sources.outside(page, root) == set()
    assert sources.rewrite(page, root) == page


def test_the_fence_around_a_source_file_is_longer_than_those_inside(sources):
    page = sources.as_page("notes.md", "`````\ncode\n`````\n")
    assert page == "# `notes.md`\n\n``````markdown\n`````\ncode\n`````\n``````\n"
