import json

import pytest

from patchword.core.errors import UserError
from patchword.core.files import make_folder, read_json, whole_file, write_json, write_text


def test_whole_file_takes_its_name_at_the_end(tmp_path):
    path = tmp_path / "new" / "file.txt"
    with whole_file(path) as temporary:
        temporary.write_text("all of it")
        assert temporary.parent == path.parent  # a rename across disks would not be whole
        assert not path.exists()
    assert path.read_text() == "all of it"
    assert list(path.parent.iterdir()) == [path]


def test_whole_file_leaves_the_old_content_when_the_body_raises(tmp_path):
    path = tmp_path / "file.txt"
    path.write_text("old")

    def interrupted() -> None:
        with whole_file(path) as temporary:
            temporary.write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_text_and_json_come_back(tmp_path):
    write_text(tmp_path / "text", "Größe ×\n")
    assert (tmp_path / "text").read_text(encoding="utf-8") == "Größe ×\n"
    write_json(tmp_path / "value.json", {"label": "é", "sizes": [1, 2]})
    assert read_json(tmp_path / "value.json") == {"label": "é", "sizes": [1, 2]}
    assert "é" in (tmp_path / "value.json").read_text(encoding="utf-8")


def test_a_value_json_cannot_hold_leaves_nothing(tmp_path):
    with pytest.raises(TypeError):
        write_json(tmp_path / "value.json", {"bad": object()})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", [None, "{", b"\xff\xfe"])
def test_read_json_names_the_file_it_cannot_read(tmp_path, content):
    path = tmp_path / "config.json"
    if content is not None:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(UserError, match=r"cannot read .*config\.json"):
        read_json(path)


@pytest.mark.parametrize("below", ["file", "file/deeper"])
def test_a_folder_that_cannot_be_made_is_the_users_error(tmp_path, below):
    (tmp_path / "file").write_text("in the way")  # binds root too, unlike permissions
    with pytest.raises(UserError, match="cannot make the folder"):
        make_folder(tmp_path / below)
    with pytest.raises(UserError, match="cannot make the folder"):
        write_json(tmp_path / below / "value.json", {})
    assert (tmp_path / "file").read_text() == "in the way"


def test_a_folder_without_permission_is_the_users_error(tmp_path, monkeypatch):
    monkeypatch.setattr("os.access", lambda *_: False)  # permissions do not bind root
    with pytest.raises(UserError, match="cannot write into"):
        write_json(tmp_path / "value.json", {})
    assert list(tmp_path.iterdir()) == []


def test_make_folder_makes_its_parents_and_takes_one_that_is_there(tmp_path):
    make_folder(tmp_path / "a" / "b")
    make_folder(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").is_dir()


def test_json_is_readable_by_anyone(tmp_path):
    write_json(tmp_path / "value.json", {"a": 1})
    text = (tmp_path / "value.json").read_text()
    assert json.loads(text) == {"a": 1}
    assert text.endswith("}\n")
