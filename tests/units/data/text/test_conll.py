import pytest

from patchword.core.errors import UserError
from patchword.data.text.formats.conll import Sentence, check_tags, read_conll

FOUR = """-DOCSTART- -X- -X- O

EU NNP B-NP B-ORG
rejects VBZ B-VP O

# NN I-NP O
"""
EWT = """# newdoc id = x
# text = I don't know
1\tI\tI\tPRON\tPRP\t_\t4\tnsubj\t_\t_
2-3\tdon't\t_\t_\t_\t_\t_\t_\t_\t_
2\tdo\tdo\tAUX\tVBP\t_\t4\taux\t_\t_
3\tn't\tnot\tPART\tRB\t_\t4\tadvmod\t_\t_
4\tknow\tknow\tVERB\tVB\t_\t0\troot\t_\t_
4.1\tit\tit\tPRON\tPRP\t_\t_\t_\t_\t_

# text = 300 000
1\t300 000\t300 000\tNUM\tCD\t_\t0\troot\t_\t_
"""


def write(folder, name, content):
    path = folder / name
    path.write_bytes(content.encode())
    return path


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("gap", [" ", "\t", "   "])
def test_words_and_last_column_come_back(tmp_path, end, gap):
    path = write(tmp_path, "a.txt", FOUR.replace(" ", gap).replace("\n", end))
    assert read_conll(path) == [Sentence(("EU", "rejects"), ("B-ORG", "O"), 3), Sentence(("#",), ("O",), 6)]


@pytest.mark.parametrize("column", [2, "2"])
def test_a_column_is_chosen_by_its_number(tmp_path, column):
    assert read_conll(write(tmp_path, "a.conll", FOUR), column)[0].tags == ("NNP", "VBZ")


def test_a_line_of_blanks_ends_a_sentence(tmp_path):
    path = write(tmp_path, "a.conll", "\n\na\tO\n\t\nb\tO\n \t \n\nc\tB-x")
    assert [(sentence.words, sentence.line) for sentence in read_conll(path)] == [(("a",), 3), (("b",), 5), (("c",), 8)]


def test_a_word_between_tabs_may_hold_a_space(tmp_path):
    assert read_conll(write(tmp_path, "a.conll", "New York\tB-x\n\u3000\u00a0a\tO\n"))[0].words[0] == "New York"


def test_a_new_document_ends_a_sentence(tmp_path):
    assert len(read_conll(write(tmp_path, "a.conll", "a O\n-DOCSTART- O\nb O\n"))) == 2


@pytest.mark.parametrize(
    ("column", "tags"),
    [
        (None, ("PRON", "AUX", "PART", "VERB")),
        ("xpos", ("PRP", "VBP", "RB", "VB")),
        ("deprel", ("nsubj", "aux", "advmod", "root")),
        (3, ("I", "do", "not", "know")),
    ],
)
def test_universal_dependencies_have_words_only(tmp_path, column, tags):
    first, second = read_conll(write(tmp_path, "a.conllu", EWT), column)
    assert first == Sentence(("I", "do", "n't", "know"), tags, 3)
    assert second.words == ("300 000",)


@pytest.mark.parametrize(
    ("name", "content", "column", "message"),
    [
        ("a.conll", "a x O\nb O\n", None, r"line 2: wrong number of columns: expected 3 columns as on line 1, got 2"),
        ("a.conll", "a O\n\nb x O\n", None, r"line 3: wrong number of columns: expected 2 columns as on line 1, got 3"),
        ("a.conll", "", None, r"has no sentences"),
        ("a.conll", "-DOCSTART- O\n\n", None, r"has no sentences"),
        ("a.conll", "\nword\n", None, r"line 2: there is no column of tags: expected a word and its tag, got 1 column"),
        ("a.conll", "a O\n", 3, r"line 1: there is no column of tags: expected a column between 2 and 2, got 3"),
        ("a.conll", "a O\n", "ner", r"line 1: there is no column of tags: .*got 'ner'"),
        ("a.conll", "a\tO\n\tO\n", None, r"line 2, column 1 is empty"),
        ("a.conll", "a\tO\nb\t\n", None, r"line 2, column 2 is empty"),
        ("a.conllu", EWT, "upo", r"there is no column of tags: .*'upo'\ndid you mean 'upos'"),
        ("a.conllu", "1\tI\tI\tPRON\n", None, r"line 1: wrong number of columns: expected 10 columns .*, got 4"),
        ("a.conllu", EWT.replace("\n4\t", "\nfour\t"), None, r"line 7, column 1: expected the index of the word"),
        ("a.conllu", EWT.replace("know\tknow", "\tknow"), None, r"line 7, column 2 is empty"),
        ("a.conllu", EWT, "feats", r"column 6 \(feats\): the column of the tags is blank"),
    ],
)
def test_a_wrong_file_is_one_error_with_its_place(tmp_path, name, content, column, message):
    with pytest.raises(UserError, match=message) as caught:
        read_conll(write(tmp_path, name, content), column)
    assert str(tmp_path / name) in str(caught.value)


def test_broken_utf8_is_named(tmp_path):
    (tmp_path / "a.conll").write_bytes(b"a O\n\xff O\n")
    with pytest.raises(UserError, match=r"a\.conll, line 2, byte 1: this is not UTF-8"):
        read_conll(tmp_path / "a.conll")


def test_a_tag_unseen_in_training_is_named(tmp_path):
    path = write(tmp_path, "a.conll", FOUR)
    sentences = read_conll(path)
    check_tags(path, sentences, {"O", "B-ORG"})
    with pytest.raises(UserError, match=r"a\.conll, line 3, column 4, word 'EU': the tag 'B-ORG' is") as caught:
        check_tags(path, sentences, {"O", "B-PER"})
    assert "did you mean 'B-PER'?\nif the tags are in another column, set it: label=NUMBER" in str(caught.value)


def test_the_line_of_a_tag_is_its_own_behind_a_word_that_is_written_as_one(tmp_path):
    path = write(tmp_path, "a.conllu", EWT)
    with pytest.raises(UserError, match=r"a\.conllu, line 7, column 4 \(upos\), word 'know': the tag 'VERB'"):
        check_tags(path, read_conll(path), {"PRON", "AUX", "PART"})


def test_a_folder_is_no_conll_file(tmp_path):
    write(tmp_path, "train.conll", FOUR)
    with pytest.raises(
        UserError, match=r"is a folder: expected a file in .conll or .conllu, got a folder\n.* train.conll"
    ):
        read_conll(tmp_path)
