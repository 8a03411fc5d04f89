import codecs
import csv
import json
import subprocess

import pytest
import torch

from patchword.core.errors import UserError
from patchword.data.text.formats.labels import label_flags, label_ids, label_names, numbers, split_labels
from patchword.data.text.formats.tables import TableFormat, read_table

COLUMNS = {"text": "review", "label": "mood"}


def write(folder, name, content):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def labelled(folder, *cells):
    lines = [json.dumps({"mood": cell}) for cell in cells]
    path = write(folder, "labels.jsonl", "\n".join(lines))
    return read_table(path, {"label": "mood"}, may_be_empty={"label"})


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", 'mood,review\ngood,"fine, really"\nbad,so so\n'),
        ("a.CSV", 'mood,review\r\ngood,"fine, really"\r\n\r\nbad,so so'),
        ("a.tsv", "review\tmood\tyear\nfine, really\tgood\t1\nso so\t bad \t2\n"),
        ("a.jsonl", '{"review": "fine, really", "mood": "good"}\n\n{"mood": "bad", "review": "so so"}\n'),
    ],
)
@pytest.mark.parametrize("mark", [b"", codecs.BOM_UTF8], ids=["plain", "marked"])
def test_the_columns_come_back_by_role(tmp_path, name, content, mark):
    table = read_table(write(tmp_path, name, mark + content.encode()), COLUMNS)
    assert table.columns == {"text": ["fine, really", "so so"], "label": ["good", "bad"]}
    assert len(table) == 2


def test_the_text_is_left_as_it_is(tmp_path):
    table = read_table(write(tmp_path, "a.tsv", "review\tmood\n it 's \u3000\t1\n"), COLUMNS)
    assert table.columns["text"] == [" it 's \u3000"]


def test_lines_are_right_with_quoted_line_ends_and_blank_lines(tmp_path):
    content = 'mood,review\n1,"two\nlines ""here"""\n2,one\n\n3,"three\r\n\nlines"\n4,last\n'
    table = read_table(write(tmp_path, "a.csv", content), COLUMNS)
    assert table.lines == [2, 4, 6, 9]
    assert table.columns["text"][0] == 'two\nlines "here"'
    assert table.where(2, "label") == f"{tmp_path / 'a.csv'}, line 6, column 'mood'"


def test_only_line_ends_end_a_line(tmp_path):
    odd = "one\u2028two\x0bthree\x85four"
    for name, content in (("a.tsv", f"review\tmood\r{odd}\t1\r"), ("a.jsonl", f'{{"review": "{odd[:7]}", "mood": 1}}')):
        table = read_table(write(tmp_path, name, content), COLUMNS)
        assert table.columns["text"][0] in (odd, odd[:7])


def test_quotation_marks_can_be_plain_characters(tmp_path):
    path = write(tmp_path, "a.tsv", 'review\tmood\n" an open mark\t1\nthe next\t0\n')
    table = read_table(path, COLUMNS, TableFormat("tsv", quoted=False))
    assert table.columns["text"] == ['" an open mark', "the next"]
    with pytest.raises(
        UserError, match=r"a\.tsv, line 2: a broken row: got unexpected end of data\n.*close the quotation mark"
    ):
        read_table(path, COLUMNS)


@pytest.mark.parametrize(("mark", "message"), [(";", "';'"), ("\t", "tabs"), ("|", r"'\|'")])
def test_another_separator_is_named(tmp_path, mark, message):
    path = write(tmp_path, "a.csv", f"review{mark}mood\ngood{mark}1\n")
    with pytest.raises(UserError, match=rf"a\.csv, line 1: the cells are separated by {message}: expected commas"):
        read_table(path, COLUMNS)


@pytest.mark.parametrize("start", [b"PK\x03\x04", b"%PDF-1.7", b"\x89PNG\r\n"])
def test_a_file_of_another_program_is_no_table(tmp_path, start):
    path = tmp_path / "a.csv"
    path.write_bytes(start + b" rest")
    with pytest.raises(UserError, match=r"a\.csv is not a text file\n.*export"):
        read_table(path, COLUMNS)


def test_a_file_without_a_header_is_given_one(tmp_path):
    path = write(tmp_path, "a.tsv", "x\t1\ny\t0\n")
    table = read_table(path, COLUMNS, TableFormat("tsv", header=("review", "mood")))
    assert table.columns["label"] == ["1", "0"]
    assert table.lines == [1, 2]


def test_short_rows_can_be_dropped_and_long_ones_cannot(tmp_path):
    form = TableFormat("tsv", short_rows="drop")
    table = read_table(write(tmp_path, "a.tsv", "review\tmood\nx\t1\ny\nz\t0\n"), COLUMNS, form)
    assert table.lines == [2, 4]
    with pytest.raises(UserError, match="line 2: the row is too long"):
        read_table(write(tmp_path, "a.tsv", "review\tmood\nx\t1\t2\n"), COLUMNS, form)


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
def test_a_cell_of_ten_megabytes_is_read(tmp_path, name):
    csv.field_size_limit(131_072)
    cell = "long text " * 1_000_000
    content = f"review,mood\n{cell},1\n" if name == "a.csv" else json.dumps({"review": cell, "mood": 1})
    table = read_table(write(tmp_path, name, content), COLUMNS)
    assert table.columns["text"] == [cell]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", "", r"a\.csv is empty"),
        ("a.csv", "\n \n", r"a\.csv is empty"),
        ("a.csv", "review,mood\n", r"a\.csv has no rows"),
        (
            "a.csv",
            "reviews,mood,id\nx,1,2\n",
            r"line 1: .*no column 'review' for the text: expected one of 'reviews', ",
        ),
        ("a.csv", "reviews,mood\nx,1\n", r"did you mean 'reviews'\?"),
        ("a.csv", "review,mood,review\nx,1,y\n", r"line 1: two columns have the name 'review'"),
        ("a.csv", "review,mood\nx,1\n  ,1\n", r"line 3, column 'review': the text is empty"),
        ("a.csv", "review,mood\nx,\n", r"line 2, column 'mood': the label is empty"),
        ("a.csv", "review,mood\nx,1\ny\n", r"line 3, column 'mood': the row is too short: expected 2 cells .*, got 1"),
        ("a.csv", "review,mood\nx,y,1\n", r"line 2: the row is too long: expected 2 cells \(review, mood\), got 3"),
        ("a.csv", 'review,mood\nx,1\n"y,1\nz,2\n', r"line 3: a broken row"),
        ("a.csv", b"review,mood\nx,1\nyes \xe9t\xe9,1\n", r"line 3, byte 5: this is not UTF-8: got 0xe9"),
        ("a.csv", codecs.BOM_UTF8 + b"r\xff", r"line 1, byte 5: this is not UTF-8"),
        ("a.csv", "review,mood\nx,1".encode("utf-16"), r"line 1, byte 1: .*\n.*UTF-16"),
        ("a.jsonl", '{"review": "x", "mood": 1}\n{"review": "y"\n', r"line 2, character \d+: this is not JSON"),
        ("a.jsonl", '["x"]\n', r"line 1: not a record: expected a JSON object"),
        ("a.jsonl", '\n{"review": "x", "moods": 1}\n', r"line 2: .*no column 'mood' .*\n.*'moods'"),
        ("a.jsonl", '{"review": null, "mood": 1}\n', r"line 1, column 'review': the text is empty"),
        ("a.jsonl", '{"review": 3, "mood": 1}\n', r"line 1, column 'review': the text is not a text: got 3"),
        ("a.jsonl", '{"review": "x", "mood": {"a": 1}}\n', r"line 1, column 'mood': the label is not a text"),
        ("a.jsonl", '{"review": "\\ud83d", "mood": 1}\n', r"line 1, column 'review': half a character"),
        ("a.jsonl", "[" * 100_000, r"line 1: the JSON is nested too deeply"),
        ("a.jsonl", '{"review": "x", "mood": ' + "1" * 5000 + "}", r"line 1: the JSON has a number with too many"),
        ("a.xlsx", "PK", r"a\.xlsx: unknown table format: expected a file name ending in \.csv, \.tsv or \.jsonl"),
    ],
)
def test_a_wrong_table_is_one_error_with_its_place(tmp_path, name, content, message):
    with pytest.raises(UserError, match=message) as caught:
        read_table(write(tmp_path, name, content), COLUMNS)
    assert str(tmp_path / name) in str(caught.value) or "did you mean" in message


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(
        UserError, match=r"there is no file .*nothing\.csv: expected a file in \.csv or \.tsv or \.jsonl"
    ):
        read_table(tmp_path / "nothing.csv", COLUMNS)


def test_a_folder_is_no_table_and_its_tables_are_named(tmp_path):
    for name in ("b.csv", "a.jsonl", "c.txt"):
        write(tmp_path, name, "x")
    with pytest.raises(UserError, match=r"is a folder: .* got a folder\nit contains a\.jsonl, b\.csv$"):
        read_table(tmp_path, COLUMNS)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"review,mood\nyes \xe9t\xe9,1\n", "it may be WINDOWS-1252; convert it: iconv -f WINDOWS-1252 -t UTF-8 "),
        ("review,mood\n丂北京，1\n".encode("gb18030"), "iconv -f GB18030 -t UTF-8 "),
        ("review,mood\nx,1".encode("utf-16"), "iconv -f UTF-16 -t UTF-8 "),
        ("été\n".encode() + b"\xe9", "the text before it is UTF-8: .* iconv -c -f UTF-8 -t UTF-8 "),
        (b"\x81\xff\n", "iconv -f ENCODING -t UTF-8 "),
    ],
)
def test_what_is_not_utf8_comes_with_the_command_that_converts_it(tmp_path, content, message):
    path = write(tmp_path, "my table.csv", content)
    with pytest.raises(UserError, match=message) as caught:
        read_table(path, COLUMNS)
    assert str(caught.value).endswith(f"'{path}' > '{tmp_path / 'my table-utf8.csv'}'")


def test_the_command_gives_a_file_that_is_read(tmp_path):
    path = write(tmp_path, "a.csv", b"review,mood\nyes \xe9t\xe9,1\n")
    with pytest.raises(UserError) as caught:
        read_table(path, COLUMNS)
    subprocess.run(str(caught.value).partition("convert it: ")[2], shell=True, check=True)
    assert read_table(tmp_path / "a-utf8.csv", COLUMNS).columns["text"] == ["yes été"]


@pytest.mark.parametrize("content", ["a good film,1\na bad one,0\n", "it was the best of all the films,good\nx,bad\n"])
def test_a_missing_header_is_guessed(tmp_path, content):
    with pytest.raises(UserError, match=r"no column 'review' .*\nis the header missing\?"):
        read_table(write(tmp_path, "a.csv", content), COLUMNS)


def test_names_of_columns_do_not_count_the_space_around_them(tmp_path):
    text = "\ufeff\ufeffreview , mood\nx,1\n"
    assert read_table(write(tmp_path, "a.csv", text), COLUMNS).columns == {"text": ["x"], "label": ["1"]}


@pytest.mark.parametrize(
    ("values", "names"),
    [
        (["10", "2", "1", "2"], ("1", "2", "10")),
        (["0.5", "-1", "1e2"], ("-1", "0.5", "1e2")),
        (["x10", "x2", "X3", "a"], ("a", "x2", "X3", "x10")),
        (["10", "b", "9"], ("9", "10", "b")),
        (["1" * 5000, "b", "2"], ("2", "1" * 5000, "b")),
        (["nan", "1"], ("1", "nan")),
        ([], ()),
    ],
)
def test_labels_are_in_natural_order(values, names):
    assert label_names(values) == names


def test_labels_become_numbers(tmp_path):
    table = labelled(tmp_path, "b", "a", 3, True)
    ids = label_ids(table, ("a", "b", "3", "true"))
    assert ids.dtype == torch.int64
    assert ids.tolist() == [1, 0, 2, 3]


def test_a_label_unseen_in_training_is_named(tmp_path):
    table = labelled(tmp_path, "good", "goood")
    with pytest.raises(UserError, match=r"line 2, column 'mood': the label 'goood' is not .*\ndid you mean 'good'\?"):
        label_ids(table, ("bad", "good"))
    with pytest.raises(UserError, match=r"line 2, column 'mood': the label 'goood'"):
        label_flags(table, ("bad", "good"))


def test_several_labels_stand_in_a_cell(tmp_path):
    table = labelled(tmp_path, "a| b |a", '["b", "c|d", 3]', ["a", "c|d"], "", "[]")
    assert split_labels(table) == [("a", "b"), ("b", "c|d", "3"), ("a", "c|d"), (), ()]
    flags = label_flags(table, ("a", "b", "c|d", "3"))
    assert flags.tolist() == [[1, 1, 0, 0], [0, 1, 1, 1], [1, 0, 1, 0], [0, 0, 0, 0], [0, 0, 0, 0]]
    assert split_labels(labelled(tmp_path, "a;b"), separator=";") == [("a", "b")]


@pytest.mark.parametrize("cell", ["a||b", "|", "[a, b]", '["a", ""]'])
def test_a_broken_list_of_labels_is_named(tmp_path, cell):
    with pytest.raises(UserError, match=r"line 2, column 'mood'"):
        split_labels(labelled(tmp_path, "a", cell))


def test_numbers_are_read_exactly(tmp_path):
    found = numbers(labelled(tmp_path, "5.000", 0.1, "-3e-2"))
    assert found.dtype == torch.float64
    assert found.tolist() == [5.0, 0.1, -0.03]


@pytest.mark.parametrize("cell", ["five", "nan", "inf", "1_000", "1,5", ""])
def test_what_is_no_finite_number_is_named(tmp_path, cell):
    with pytest.raises(UserError, match=r"line 2, column 'mood': expected a finite number, got "):
        numbers(labelled(tmp_path, "1", cell))
