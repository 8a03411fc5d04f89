import json

import pytest

from patchword.core.errors import UserError
from patchword.data.text.corpus import documents as corpus
from patchword.data.text.corpus.documents import check_unchanged, document_format, passages, sources_of, text_files
from patchword.data.text.corpus.sentences import LONGEST, sentences

WRAPPED = (
    "It was the best of times, it was the worst of times, it was the age\n"
    "of wisdom, it was the age of foolishness, it was the epoch of\n"
    "belief.\n"
)


def documents(path, form):
    """The documents of a file, each as its passages."""
    found = []
    for passage in passages(path, form):
        if passage.begins:
            found.append([])
        found[-1].append(passage.text)
    return found


def write(path, text):
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


# Sentences


@pytest.mark.parametrize(
    ("passage", "expected"),
    [
        ("One. Two! Three? Four", ["One.", "Two!", "Three?", "Four"]),
        ('He said "No." She left.', ['He said "No."', "She left."]),
        ("Mr. Smith met Dr. Who. They spoke.", ["Mr. Smith met Dr. Who.", "They spoke."]),
        ("J. R. Jones joined the U.S. Army. Then he left.", ["J. R. Jones joined the U.S. Army.", "Then he left."]),
        ("It cost 3.5 dollars, e.g. this. Cheap!", ["It cost 3.5 dollars, e.g. this.", "Cheap!"]),
        ("Well... Yes. no capital follows", ["Well...", "Yes. no capital follows"]),
        ("他来了。你好！「是的。」她说。", ["他来了。", "你好！", "「是的。」", "她说。"]),
        ("Она ушла. Он остался.", ["Она ушла.", "Он остался."]),
        ("   ", []),
        ("", []),
    ],
)
def test_sentences_end_where_they_should(passage, expected):
    assert sentences(passage) == expected


def test_text_without_marks_is_cut_at_spaces():
    pieces = sentences("word " * 1000)
    assert " ".join(pieces) == " ".join(["word"] * 1000)
    assert all(len(piece) <= LONGEST for piece in pieces)
    assert [len(piece) for piece in sentences("x" * (LONGEST + 1))] == [LONGEST, 1]


# Forms


@pytest.mark.parametrize(
    ("name", "text", "form"),
    [
        ("a.txt", "One document.\nAnother one.\n", "line"),
        ("a.txt", "First.\nSecond.\n\nOf another.\n", "blank"),
        ("a.txt", '<doc id="1" title="A">\nA\n\nText.\n</doc>\n', "doc"),
        ("a.txt", f"{WRAPPED}\n{WRAPPED}", "file"),
        ("book.md", "# Title\n\nA paragraph.\n\nAnother.\n", "file"),
        ("a.txt", '{"text": "One."}\n{"text": "Two."}\n', "jsonl"),
        ("a.jsonl", '\n{"id": 3, "text": "One."}\n', "jsonl"),
        ("a.txt", "\ufeff<doc>\nText.\n</doc>\n", "doc"),
        ("a.txt", "", "line"),
    ],
)
def test_the_form_is_read_off_the_file(tmp_path, name, text, form):
    assert document_format(write(tmp_path / name, text)) == form


def test_the_form_asked_for_is_taken_and_an_unknown_one_refused(tmp_path):
    path = write(tmp_path / "a.txt", "One.\n\nTwo.\n")
    assert document_format(path, "file") == "file"
    with pytest.raises(UserError, match="did you mean 'blank'"):
        document_format(path, "blanks")


def test_one_document_a_line(tmp_path):
    path = write(tmp_path / "a.txt", "\ufeffOne. Two.\r\n\r\nThree.")
    assert documents(path, "line") == [["One. Two."], ["Three."]]


def test_documents_between_blank_lines(tmp_path):
    path = write(tmp_path / "a.txt", "\n\nOne.\nTwo.\n \n\nThree.\n")
    assert documents(path, "blank") == [["One.", "Two."], ["Three."]]


def test_documents_in_blocks(tmp_path):
    path = write(tmp_path / "a.txt", '<doc id="1">\nTitle\n\nOne > two.</doc>\n<doc id="2">\n\n</doc>\n<doc>\nThree.\n')
    assert documents(path, "doc") == [["Title", "One > two."], ["Three."]]


def test_text_outside_of_a_block_is_named(tmp_path):
    path = write(tmp_path / "a.txt", "<doc>\nOne.\n</doc>\nStray.\n")
    with pytest.raises(UserError, match=r"a.txt, line 4: text outside of <doc>.*Stray"):
        documents(path, "doc")


def test_a_file_as_one_document_has_its_wrapped_lines_joined(tmp_path):
    path = write(tmp_path / "a.txt", f"A heading\n\n{WRAPPED}\nShort lines\nof a poem\n")
    assert documents(path, "file") == [["A heading", WRAPPED.strip().replace("\n", " "), "Short lines", "of a poem"]]


def test_records_hold_documents_of_several_lines(tmp_path):
    texts = ["One.\n\nTwo.\n", "", "Three \ud800."]
    path = write(tmp_path / "a.jsonl", "".join(json.dumps({"text": text}) + "\n" for text in texts))
    assert documents(path, "jsonl") == [["One.", "Two."], ["Three ?."]]


@pytest.mark.parametrize(
    ("line", "complaint"),
    [("{text}", "not JSON"), ('{"body": "x"}', "no document"), ('{"text": 3}', "no document"), ("[1]", "no document")],
)
def test_a_record_that_is_none_is_named(tmp_path, line, complaint):
    path = write(tmp_path / "a.jsonl", f'{{"text": "One."}}\n{line}\n')
    with pytest.raises(UserError, match=f"a.jsonl, line 2: {complaint}"):
        documents(path, "jsonl")


@pytest.mark.parametrize("form", ["line", "blank", "file", "doc"])
def test_broken_utf8_is_named_with_file_line_and_byte(tmp_path, form):
    path = write(tmp_path / "a.txt", b"<doc>\nfine \xc3\xa9\nab\xff\n")
    with pytest.raises(UserError, match=r"a.txt, line 3, byte 3 of the line: not UTF-8: got byte 0xff"):
        documents(path, form)


def test_a_character_cut_off_by_the_end_of_the_file_is_broken_too(tmp_path):
    with pytest.raises(UserError, match="line 1, byte 3 of the line"):
        documents(write(tmp_path / "a.txt", b"ab\xc3"), "line")


@pytest.mark.parametrize("form", ["line", "blank", "file"])
def test_a_line_too_long_to_hold_comes_in_parts_of_one_document(tmp_path, monkeypatch, form):
    monkeypatch.setattr(corpus, "_PART", 16)
    text = "zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich"
    found = documents(write(tmp_path / "a.txt", f"{text}\n\n{text}\n"), form)
    assert [" ".join(parts) for parts in found] == ([f"{text} {text}"] if form == "file" else [text, text])
    assert max(len(part.encode()) for parts in found for part in parts) < 32


def test_a_broken_byte_in_a_long_line_keeps_its_place(tmp_path, monkeypatch):
    monkeypatch.setattr(corpus, "_PART", 16)
    with pytest.raises(UserError, match="line 1, byte 42 of the line"):
        documents(write(tmp_path / "a.txt", "é".encode() * 20 + b"a\xffb"), "line")


def test_passages_count_the_bytes_of_the_file(tmp_path):
    path = write(tmp_path / "a.txt", "Ä.\nÖ.\n\nÜ.")
    assert [passage.read for passage in passages(path, "line")] == [4, 8, 12]


# Files


def test_folders_are_walked_and_files_sorted(tmp_path):
    (tmp_path / "AA").mkdir()
    (tmp_path / ".hidden").mkdir()
    for name in ("b.txt", "a.md", "AA/wiki_00", "c.png", ".d.txt", ".hidden/e.txt"):
        write(tmp_path / name, "Text.\n")
    expected = tuple(tmp_path / name for name in ("AA/wiki_00", "a.md", "b.txt"))
    assert text_files([tmp_path]) == expected
    assert text_files([tmp_path / "b.txt", tmp_path / "c.png", tmp_path]) == (*expected, tmp_path / "c.png")


def test_missing_files_and_empty_folders_are_refused(tmp_path):
    with pytest.raises(UserError, match=r"there is no file or folder .*nowhere"):
        text_files([tmp_path / "nowhere"])
    with pytest.raises(UserError, match="no text files"):
        text_files([tmp_path])


def test_a_file_that_changes_while_it_is_read_is_noticed(tmp_path):
    path = write(tmp_path / "a.txt", "One.\n")
    sources = sources_of([path], "auto")
    check_unchanged(sources)
    write(path, "One.\nTwo.\n")
    with pytest.raises(UserError, match="changed while it was read"):
        check_unchanged(sources)


def test_a_table_is_no_corpus(tmp_path):
    table = tmp_path / "reviews.csv"
    table.write_text("text,label\na good film,good\n")
    with pytest.raises(UserError, match=r"reviews\.csv is a table: expected text or JSON lines"):
        document_format(table)
    assert document_format(table, "line") == "line"
