"""predict on texts, fill, embed and similar: on tiny models with large random weights."""

import csv
import io
import json
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from safetensors.numpy import load_file
from safetensors.torch import load_file as torch_load

import patchword
from patchword.core.text import Text
from patchword.data.text.corpus.word_spans import find_word, word_spans
from patchword.data.text.tokenizers.tokenizer import Tokenizer
from patchword.layers import TextModel
from patchword.recipes.text.inference import embedding as embedding
from patchword.recipes.text.inference.filling import put_in
from patchword.recipes.text.inference.input import TextInput
from patchword.recipes.text.inference.opening import open_embedder
from patchword.recipes.text.inference.prediction import Predictor, may_be_unanswered
from patchword.recipes.text.inference.reader import open_reader
from patchword.recipes.text.inference.similarity import similar
from patchword.recipes.text.recipe import TextRecipe
from patchword.reports.attention.similarity import heat_maps
from support.helpers import tiny_text

TEXTS = [
    "The cat sat on the mat.",
    "A dog ran to the bank of the river, and the cat ran to the bank in town!",
    "Ada Lovelace lived in London. Naïve café: 北京大学, don't.",
]
LENGTH = 24


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.train_on(TEXTS * 3, vocabulary=200)


def varied(**config: object) -> TextModel:
    """A tiny model whose tokens stay apart, so that answers differ: matrices large, but for a residual path larger."""
    model = tiny_text(**config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim == 1:
                parameter.fill_(1.0 if "norm.weight" in name else 0.0)
            elif "segments" in name or name.startswith("encoder."):
                parameter.mul_(0.3)
    return model


@pytest.fixture
def saved(tokenizer):
    """Writes a folder with a model of this head, and a recipe if it is a run."""

    def write(name: str, labels: tuple[str, ...] = (), recipe: TextRecipe | None = None, **config: object) -> Path:
        model = varied(**{"vocabulary": tokenizer.vocabulary, "max_length": 40, **config})
        model.card = replace(model.card, labels=labels)
        patchword.save(model, name)
        tokenizer.save(Path(name))
        if recipe is not None:
            Path(name, "recipe.yaml").write_text(recipe.to_yaml(), encoding="utf-8")
        return Path(name)

    return write


@pytest.fixture
def run(saved):
    """A run of a task, as if it had been trained."""

    def write(task: str, labels: tuple[str, ...] = (), **fields: object) -> Path:
        recipe = TextRecipe.model_validate({"task": task, "length": LENGTH, **fields})
        head = {"tags": "tags", "span": "span"}.get(task, "classes")
        return saved("run", labels, recipe, head=head, classes={"number": 1, "span": 0}.get(task, len(labels)))

    return write


@pytest.fixture
def refused(command):
    """One clear message and exit code 2, and no file more than before; answers the message."""

    def ask(*words: object) -> str:
        before = set(Path.cwd().rglob("*"))
        code, output, complaint = command(*words)
        assert (code, complaint.count("error:")) == (2, 1), (output, complaint)
        assert set(Path.cwd().rglob("*")) == before
        return complaint

    return ask


def records(output: str) -> list[dict]:
    return [json.loads(line) for line in output.splitlines()]


def table(path: str) -> list[dict[str, str]]:
    return list(csv.DictReader(Path(path).read_text(encoding="utf-8").splitlines()))


def scores(folder: Path, tokenizer: Tokenizer, *texts: str) -> torch.Tensor:
    """What the model says to [CLS] text [SEP] text [SEP], put together by hand."""
    parts = [[tokenizer.cls], *([*tokenizer.encode([text])[0].ids.tolist(), tokenizer.sep] for text in texts)]
    segments = [max(0, number - 1) for number, part in enumerate(parts) for _ in part]
    ids = torch.tensor([piece for part in parts for piece in part])[None]
    with torch.no_grad():
        return patchword.load(folder)(Text(ids, torch.tensor(segments)[None]))[0]


# predict: classes, labels and numbers


def test_a_class_with_its_probability_and_the_next_ones(command, run, tokenizer):
    folder = run("classes", ("bad", "fair", "good"))
    code, output, _ = command("predict", folder, TEXTS[0], "--json", "--top", 2)
    shares = scores(folder, tokenizer, TEXTS[0]).softmax(-1)
    (found,) = records(output)
    names = [("bad", "fair", "good")[place] for place in shares.argsort(descending=True).tolist()]
    assert (code, found["label"], found["next"][0]["label"]) == (0, *names[:2])
    assert found["probability"] == pytest.approx(float(shares.max()), abs=1e-5)
    assert len(found["next"]) == 1
    assert names[0] in command("predict", folder, TEXTS[0])[1]


def test_every_way_to_hand_over_texts_gives_the_same_answers(command, run, monkeypatch):
    folder = run("classes", ("bad", "good"), text="review")
    Path("a.txt").write_text("\n".join(TEXTS) + "\n\n", encoding="utf-8")
    with Path("a.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("n", "review"), *enumerate(TEXTS)])
    Path("a.jsonl").write_text("".join(json.dumps({"other": text}) + "\n" for text in TEXTS))
    ways = [TEXTS, ["a.txt"], ["a.csv"], ["a.jsonl", "--text", "other"], ["-"], []]
    answers = []
    for words in ways:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("\n".join(TEXTS).encode())))
        answers.append(
            [(one["text"], one["label"]) for one in records(command("predict", folder, *words, "--json")[1])]
        )
    assert answers == [answers[0]] * len(ways)
    assert [text for text, _ in answers[0]] == TEXTS


def test_answers_keep_the_order_of_the_file_whatever_the_lengths(command, run, tokenizer):
    folder = run("number")
    texts = [" ".join(["cat"] * (1 + 7 * number % 11)) for number in range(70)]
    Path("a.txt").write_text("\n".join(texts))
    command("predict", folder, "a.txt", "--csv", "b.csv", "--jsonl", "b.jsonl")
    rows = table("b.csv")
    assert [row["text"] for row in rows] == texts
    assert [row["line"] for row in rows] == [str(line) for line in range(1, 71)]
    for row in (0, 33, 69):
        expected = float(scores(folder, tokenizer, texts[row]))
        assert float(rows[row]["number"]) == pytest.approx(expected, abs=1e-4)
        assert records(Path("b.jsonl").read_text())[row]["number"] == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("kind", ["csv", "tsv", "jsonl"])
def test_other_columns_of_a_table_come_back_beside_the_answers(command, run, kind):
    folder = run("classes", ("bad", "good"), text="review")
    rows = [{" id": f"n{number}", "review": text, "label": "?"} for number, text in enumerate(TEXTS)]
    with Path(f"a.{kind}").open("w", newline="", encoding="utf-8") as file:
        if kind == "jsonl":
            file.writelines(json.dumps(row | {"id": row.pop(" id"), "more": [1, "é"]}) + "\n" for row in rows)
        else:
            writer = csv.DictWriter(file, list(rows[0]), delimiter="," if kind == "csv" else "\t")
            writer.writeheader()
            writer.writerows(rows)
    code, output, _ = command("predict", folder, f"a.{kind}", "--csv", "b.csv", "--jsonl", "b.jsonl")
    assert (code, "3 answers in b.csv" in output) == (0, True)
    found = table("b.csv")
    assert [(row["id"], row["given_label"], row["text"]) for row in found] == [
        (f"n{number}", "?", text) for number, text in enumerate(TEXTS)
    ]
    assert all(row["label"] in ("bad", "good") and "review" not in row for row in found)
    assert [row["id"] for row in records(Path("b.jsonl").read_text(encoding="utf-8"))] == ["n0", "n1", "n2"]
    assert "1 answer in c.csv" in command("predict", folder, "The cat sat.", "--csv", "c.csv")[1]


def test_other_columns_of_a_table_that_is_tagged_or_asked(command, run):
    Path("a.csv").write_text("id,text,context,question\n7,cat sat,The cat sat.,Who?\n")
    command("predict", run("tags", ("A", "B")), "a.csv", "--csv", "b.csv")
    assert [(row["id"], row["question"], row["word"]) for row in table("b.csv")] == [
        ("7", "Who?", w) for w in ("cat", "sat")
    ]
    command("predict", run("span"), "a.csv", "--csv", "c.csv", "--top", 1)
    assert [(row["id"], row["given_text"] if "given_text" in row else row["text"]) for row in table("c.csv")] == [
        ("7", "cat sat")
    ]


def test_labels_that_hold_together(command, run, tokenizer):
    folder = run("labels", ("a", "b", "c", "d"))
    (found,) = records(command("predict", folder, TEXTS[0], "--json")[1])
    shares = scores(folder, tokenizer, TEXTS[0]).sigmoid().tolist()
    assert list(found["probabilities"].values()) == pytest.approx(shares, abs=1e-5)
    assert sorted(found["labels"]) == [name for name, share in zip("abcd", shares, strict=True) if share > 0.5]


def test_a_pair_of_texts(command, run, refused, tokenizer):
    folder = run("classes", ("no", "yes"), text="first", pair="second")
    share = float(scores(folder, tokenizer, TEXTS[0], "A dog ran").softmax(-1).max())
    Path("a.csv").write_text(f"second,first\nA dog ran,{TEXTS[0]}\n")
    Path("a.txt").write_text(f"{TEXTS[0]}\tA dog ran\n")
    for words in ([TEXTS[0], "--pair", "A dog ran"], ["a.csv"], ["a.txt"]):
        (found,) = records(command("predict", folder, *words, "--json")[1])
        assert (found["pair"], found["probability"]) == ("A dog ran", pytest.approx(share, abs=1e-5))
    assert "expected one text and --pair" in refused("predict", folder, TEXTS[0])
    Path("b.txt").write_text("one\ttwo\nalone\n")
    assert "b.txt, line 2: there is no second text" in refused("predict", folder, "b.txt", "--on-broken", "stop")


def test_a_file_of_glue_is_read_as_it_is_written(command, run):
    folder = run("classes", ("unacceptable", "acceptable"), glue="cola")
    Path("dev.tsv").write_text('gj04\t1\t\t"The cat sat.\n')
    Path("test.tsv").write_text('index\tsentence\n0\t"The cat sat.\n')
    found = [records(command("predict", folder, name, "--json")[1])[0] for name in ("dev.tsv", "test.tsv")]
    assert [one["text"] for one in found] == ['"The cat sat.'] * 2


def test_long_texts_are_cut_and_counted_or_read_in_windows(command, run, tokenizer):
    long = "cat dog " * 40
    _, _, complaint = command("predict", run("number"), long, "cat", "--json")
    assert "1 text is longer than 24 tokens and truncated" in complaint
    folder = run("number", stride=11)
    _, output, complaint = command("predict", folder, long, "--json")
    assert "read in windows" in complaint
    starts = range(0, 80 - 22 + 11, 11)
    parts = [" ".join(long.split()[start : start + 22]) for start in starts]
    mean = torch.stack([scores(folder, tokenizer, part) for part in parts]).mean()
    assert records(output)[0]["number"] == pytest.approx(float(mean), abs=1e-4)


# predict: tags


def test_words_of_raw_text_keep_their_places():
    text = "It doesn't stop, 北京\tcafé\nx😀 हिन्दी. CAN'T Ada's 3.14 e-mail U.S. l'eau"
    words = " ".join(text[start:end] for start, end in word_spans(text))
    assert words == "It does n't stop , 北 京 café x😀 हिन्दी . CA N'T Ada 's 3.14 e - mail U.S. l ' eau"


def test_tags_with_offsets_and_spans(command, run):
    folder = run("tags", ("B-person", "I-person", "O"))
    text = "  " + " ".join(TEXTS)  # longer than the model reads at once
    (found,) = records(command("predict", folder, text, "--json")[1])
    assert [text[word["start"] : word["end"]] for word in found["words"]] == [word["word"] for word in found["words"]]
    assert "".join(word["word"] for word in found["words"]) == "".join(text.split())
    tags = [word["tag"] for word in found["words"]]
    assert len(set(tags)) > 1
    begins = [tag != "O" and (tag[0] == "B" or before == "O") for before, tag in zip(["O", *tags], tags, strict=False)]
    assert len(found["spans"]) == sum(begins) > 0
    assert found["spans"][0]["text"] in command("predict", folder, text)[1]
    assert all(text[span["start"] : span["end"]] == span["text"] for span in found["spans"])


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.conll", "The O\ncat O\nsat O\n\nA O\ndog O\n"),
        ("a.annotated", "The\ncat\nsat\n\nA\ndog\n"),
        ("a.conllu", "".join(f"{n}\t{w}\t_\t_\t_\t_\t_\t_\t_\t_\n" for n, w in enumerate(["The", "cat", "sat"], 1))),
    ],
)
def test_words_that_are_cut_already_are_tagged_as_they_are(command, run, name, content):
    Path(name).write_text(content)
    folder = run("tags", ("X", "Y"))
    found = records(command("predict", folder, name, "--json")[1])
    assert [word["word"] for word in found[0]["words"]] == ["The", "cat", "sat"]
    assert [one["line"] for one in found] == [1, 5][: len(found)]
    typed = records(command("predict", folder, "The cat sat", "--json")[1])
    assert [word["tag"] for word in typed[0]["words"]] == [word["tag"] for word in found[0]["words"]]


def test_tags_as_a_table_have_a_row_a_word(command, run):
    command("predict", run("tags", ("X", "Y")), "The cat", "sat", "--csv", "a.csv")
    rows = [(row["number"], row["word"], row["start"], row["end"]) for row in table("a.csv")]
    assert rows == [("1", "The", "0", "3"), ("1", "cat", "4", "7"), ("2", "sat", "0", "3")]


def test_a_text_tagged_in_parts_loses_no_word(command, run, monkeypatch):
    folder = run("tags", ("X", "Y"))
    text = " ".join(TEXTS)
    (whole,) = records(command("predict", folder, text, "--json")[1])
    monkeypatch.setattr("patchword.recipes.text.inference.tagging._WORDS", 5)
    monkeypatch.setattr("patchword.recipes.text.inference.tagging._TOGETHER", 8)
    (parts,) = records(command("predict", folder, text, "--json")[1])
    assert [(word["word"], word["start"]) for word in parts["words"]] == [
        (word["word"], word["start"]) for word in whole["words"]
    ]


# predict: answers


def test_answers_are_parts_of_the_text_with_scores(command, run):
    folder = run("span", length=40)
    context = " ".join(TEXTS)
    (found,) = records(command("predict", folder, context, "--question", "Who ran?", "--json", "--top", 4)[1])
    answers = found["answers"]
    assert (len(answers), found["answer"]) == (4, answers[0]["text"])
    assert all(context[answer["start"] : answer["end"]] == answer["text"] for answer in answers)
    assert [answer["score"] for answer in answers] == sorted((answer["score"] for answer in answers), reverse=True)
    assert found["question"] == "Who ran?"
    Path("context.txt").write_text(context, encoding="utf-8")
    (again,) = records(command("predict", folder, "context.txt", "--question", "Who ran?", "--json", "--top", 4)[1])
    assert again["answers"] == answers


def test_a_squad_file_needs_no_answers(command, run):
    asked = [{"id": str(number), "question": f"Who {word}?"} for number, word in enumerate(("ran", "sat"))]
    Path("q.json").write_text(json.dumps({"data": [{"paragraphs": [{"context": TEXTS[1], "qas": asked}]}]}))
    folder = run("span", length=40)
    code, output, _ = command("predict", folder, "q.json", "--json")
    assert (code, [one["id"] for one in records(output)]) == (0, ["0", "1"])
    command("predict", folder, "q.json", "--csv", "a.csv", "--top", 2)
    rows = table("a.csv")
    assert [(row["id"], row["rank"]) for row in rows] == [("0", "1"), ("0", "2"), ("1", "1"), ("1", "2")]


def test_no_answer_is_an_empty_one_where_there_may_be_none(command, run):
    words = ["predict", run("span", length=40), TEXTS[0], "--question", "Who?", "--json", "--top", 50]
    (found,) = records(command(*words, "--empty")[1])
    (none,) = [answer for answer in found["answers"] if not answer["text"]]
    assert (none["start"], none["end"]) == (None, None)
    assert (found["answer"] == "") == (found["answers"][0] == none)
    assert sum(answer["probability"] for answer in found["answers"]) == pytest.approx(1, abs=1e-4)
    assert all(answer["text"] for answer in records(command(*words)[1])[0]["answers"])


def test_whether_a_question_may_have_no_answer_is_remembered_by_the_run(tmp_path):
    for output, expected in (("{}", False), ('{"unanswered": false}', False), ('{"unanswered": true}', True)):
        (tmp_path / "data.json").write_text(output)
        assert may_be_unanswered(tmp_path) == expected
    assert not may_be_unanswered(tmp_path / "gone")


# predict: what is refused


def test_bad_input_is_one_error_with_its_place(run, refused):
    folder = run("classes", ("bad", "good"), text="review")
    Path("a.csv").write_text("text,label\nx,y\n")
    assert "a.csv, line 1: there is no column 'review'" in refused("predict", folder, "a.csv")
    Path("b.csv").write_text("review,label\nx,y\n  ,z\n")
    output = refused("predict", folder, "b.csv", "--csv", "out.csv", "--on-broken", "stop")
    assert "b.csv, line 3, column 'review': the text is empty" in output
    Path("c.txt").write_bytes(b"fine\nbro\xffken\n")
    assert "c.txt, line 2, byte 4: this is not UTF-8" in refused("predict", folder, "c.txt", "--jsonl", "out.jsonl")
    Path("d.txt").write_text("one\n\nthree\n")
    assert "d.txt, line 2: the text is empty" in refused("predict", folder, "d.txt", "--on-broken", "stop")
    assert "there is no file e.csv" in refused("predict", folder, "e.csv")
    assert "the command line: the text is empty" in refused("predict", folder, "")
    assert "reads single texts" in refused("predict", folder, "x", "--pair", "y")
    assert "answers no questions" in refused("predict", folder, "x", "--question", "y")
    Path("folder").mkdir()
    assert "cannot write folder" in refused("predict", folder, "x", "--csv", "folder")


def test_rows_that_cannot_be_read_have_an_error_and_the_others_an_answer(run, command, refused):
    folder = run("classes", ("bad", "good"), text="review")
    Path("rows.csv").write_text("id,review\n1,fine\n2,\n3,one,two\n4,good\n")
    code, output, _ = command("predict", folder, "rows.csv", "--csv", "out.csv")
    assert code == 0
    assert "2 answers in out.csv" in output
    assert "2 of 4 skipped" in output
    with Path("out.csv").open(newline="") as file:
        found = list(csv.DictReader(file))
    assert [row["line"] for row in found] == ["2", "3", "4", "5"]
    assert [bool(row["label"]) for row in found] == [True, False, False, True]
    assert "line 3, column 'review': the text is empty" in found[1]["error"]
    assert "line 4: the row is too long" in found[2]["error"]
    assert found[0]["error"] == found[3]["error"] == ""
    assert found[3]["id"] == "4"
    Path("rows.jsonl").write_text('{"review": "fine", "id": 1}\n{broken\n')
    assert "1 of 2 skipped" in command("predict", folder, "rows.jsonl", "--csv", "out.csv")[1]
    Path("lines.txt").write_text("one\n\nthree\n")
    _, output, complaint = command("predict", folder, "lines.txt", "--json")
    assert [("label" in record, "error" in record) for record in records(output)] == [(1, 0), (0, 1), (1, 0)]
    assert "1 of 3 skipped" in complaint
    Path("none.csv").write_text('review\n" "\n')
    assert "line 2, column 'review': the text is empty" in refused("predict", folder, "none.csv")


def test_broken_bytes_that_are_piped_in_are_named(run, refused, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"fine\n\xff\n")))
    assert "stdin, line 2: this is not UTF-8" in refused("predict", run("classes", ("a", "b")))


def test_a_question_is_needed(run, refused):
    assert "a question is missing" in refused("predict", run("span"), TEXTS[0])


def test_unequal_columns_are_refused(run, refused):
    Path("a.conll").write_text("The O\ncat\n")
    assert "a.conll, line 2: wrong number of columns" in refused("predict", run("tags", ("X", "Y")), "a.conll")


def test_a_folder_that_is_no_run_is_asked_by_its_head(command, saved, refused):
    folder = saved("plain", ("bad", "good"), head="classes", classes=2)
    assert records(command("predict", folder, TEXTS[0], "--json")[1])[0]["label"] in ("bad", "good")
    output = refused("predict", saved("words", head="words"), TEXTS[0])
    assert "has no head for a task" in output


# fill


def test_fill_agrees_with_transformers(command, tokenizer):
    transformers = pytest.importorskip("transformers")
    model = varied(vocabulary=tokenizer.vocabulary, max_length=40, head="words")
    patchword.save(model, "theirs", layout="huggingface")
    tokenizer.save(Path("theirs"))
    text = "The [MASK] sat on the [MASK]."
    code, output, _ = command("fill", "theirs", text, "--json", "--top", 3, "--pieces")
    found = json.loads(output)
    theirs = transformers.BertForMaskedLM.from_pretrained("theirs").eval()
    inputs = transformers.AutoTokenizer.from_pretrained("theirs")(text, return_tensors="pt")
    with torch.no_grad():
        shares = theirs(**inputs).logits.softmax(-1)[0][inputs["input_ids"][0] == tokenizer.mask]
    assert (code, len(found["gaps"])) == (0, 2)
    for gap, expected in zip(found["gaps"], shares, strict=True):
        assert text[gap["start"] : gap["end"]] == "[MASK]"
        for filling in gap["fillings"]:
            number = tokenizer.id_of(filling["word"])
            assert filling["probability"] == pytest.approx(float(expected[number]), rel=1e-3)
            assert number not in tokenizer.specials
        best = max(set(range(len(expected))) - set(tokenizer.specials), key=lambda number: float(expected[number]))
        assert gap["fillings"][0]["word"] == tokenizer.tokens([best])[0]
    assert "[MASK]" not in found["filled"]
    first = found["gaps"][0]["fillings"][0]
    assert first["sentence"].count("[MASK]") == 1
    assert first["word"].removeprefix("##") in command("fill", "theirs", text, "--pieces")[1]


def test_a_gap_of_its_own_is_filled_with_words_and_one_behind_a_letter_with_pieces_too(command, saved, tokenizer):
    folder = saved("words", head="words")
    pieces = {tokenizer.tokens([number])[0] for number in np.flatnonzero(tokenizer.continues)}

    def named(text: str, *more: object) -> list[dict]:
        (gap,) = json.loads(command("fill", folder, text, "--json", "--top", 1000, *more)[1])["gaps"]
        return gap["fillings"]

    words = named("The [MASK] sat.")
    assert len(words) == tokenizer.vocabulary - len(tokenizer.specials) - len(pieces)
    assert not pieces & {filling["word"] for filling in words}
    assert sum(filling["probability"] for filling in words) < 0.999  # the others keep their share
    for every in (named("The [MASK] sat.", "--pieces"), named("The c[MASK] sat.")):
        assert pieces < {filling["word"] for filling in every}


def test_fill_reads_a_model_with_both_pretraining_heads(command, saved):
    code, output, _ = command("fill", saved("both", head="pretraining"), "The [MASK] sat.", "--top", 2)
    assert (code, output.count("sat.")) == (0, 2)


def test_a_piece_that_goes_on_with_a_word_joins_it():
    assert put_in("play [MASK] now", (5, 11), "##ing") == "playing now"
    assert put_in("play [MASK] now", (5, 11), "it") == "play it now"


def test_what_fill_refuses(saved, refused, tokenizer):
    folder = saved("words", head="words")
    assert "there is no [MASK] in the text" in refused("fill", folder, "The cat sat.")
    assert "maximum of the model: expected at most 40 tokens" in refused("fill", folder, "cat " * 60 + "[MASK]")
    assert "has no language modelling head" in refused("fill", saved("plain"), "The [MASK] sat.")
    assert "there is nothing at bert-tiny" in refused("fill", "bert-tiny", "The [MASK] sat.")


def test_fill_refuses_a_model_that_reads_only_what_stands_before(tokenizer, refused):
    patchword.save(tiny_text("gpt", vocabulary=tokenizer.vocabulary), "causal")
    tokenizer.save(Path("causal"))
    output = refused("fill", "causal", "The [MASK] sat.")
    assert "cannot fill a mask: expected a masked model, such as a BERT, got 'gpt'" in output
    assert "`patchword generate causal" in output


# embed


@pytest.fixture
def minilm(saved) -> Path:
    """A folder as sentence-transformers writes it: mean of the tokens, length 1, 16 tokens at most."""
    model = patchword.load(saved("mine", pool="mean", head="vector"))
    folder = patchword.save(model, "minilm", layout="huggingface")
    for name in ("tokenizer.json", "tokenizer_config.json", "vocab.txt"):
        shutil.copy(Path("mine", name), folder)
    kinds = (("Transformer", ""), ("Pooling", "1_Pooling"), ("Normalize", "2_Normalize"))
    modules = [{"type": f"sentence_transformers.models.{kind}", "path": path} for kind, path in kinds]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode_mean_tokens": True}))
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 16}))
    return folder


def by_hand(folder: Path, texts: list[str], layer: int = -1, length: int = 16) -> list[torch.Tensor]:
    """transformers' states of each text, one at a time"""
    transformers = pytest.importorskip("transformers")
    model = transformers.BertModel.from_pretrained(folder, add_pooling_layer=False).eval()
    cut = transformers.AutoTokenizer.from_pretrained(folder)
    found = []
    for text in texts:
        inputs = cut(text, return_tensors="pt", truncation=True, max_length=length)
        with torch.no_grad():
            found.append(model(**inputs, output_hidden_states=True).hidden_states[layer][0])
    return found


def test_a_sentence_transformers_folder_knows_its_pooling_and_length(command, minilm):
    Path("a.txt").write_text("\n".join(TEXTS), encoding="utf-8")
    code, output, complaint = command("embed", minilm, "a.txt", "--out", "v.safetensors")
    vectors = load_file("v.safetensors")["vectors"]
    expected = F.normalize(torch.stack([state.mean(0) for state in by_hand(minilm, TEXTS)]), dim=-1)
    assert code == 0, complaint
    assert "3 x 32 in v.safetensors: mean of all tokens, layer 2 of 2, length 1, at most 16 tokens" in output
    assert "2 texts are longer than 16 tokens" in complaint
    assert np.abs(vectors - expected.numpy()).max() < 1e-5


@pytest.mark.parametrize("layer", [0, 1, 2])
def test_any_layer_and_any_pooling(command, minilm, layer):
    states = by_hand(minilm, TEXTS, layer, length=30)
    words = ["embed", minilm, *TEXTS, "--layer", layer, "--length", 30, "--no-normalize", "--json"]
    first = [one["vector"] for one in records(command(*words, "--pool", "first")[1])]
    assert np.abs(np.array(first) - torch.stack([state[0] for state in states]).numpy()).max() < 2e-5
    every = records(command(*words, "--pool", "none")[1])
    for one, state in zip(every, states, strict=True):
        assert (one["tokens"][0], one["tokens"][-1], len(one["tokens"])) == ("[CLS]", "[SEP]", len(state))
        assert np.abs(np.array(one["vectors"]) - state.numpy()).max() < 2e-5


def test_every_kind_of_file_holds_the_same_vectors(command, minilm):
    Path("a.csv").write_text("review\n" + "".join(f'"{text}"\n' for text in TEXTS), encoding="utf-8")
    for kind in ("npy", "csv", "jsonl", "safetensors"):
        assert command("embed", minilm, "a.csv", "--text", "review", "--out", f"v.{kind}")[0] == 0
    vectors = load_file("v.safetensors")["vectors"]
    with Path("v.npy").open("rb") as file:
        assert (np.lib.format.read_array(file) == vectors).all()
    rows = list(csv.reader(Path("v.csv").read_text(encoding="utf-8").splitlines()))
    assert rows[0] == ["text", *map(str, range(32))]
    assert (np.array([row[1:] for row in rows[1:]], np.float32) == vectors).all()
    lines = records(Path("v.jsonl").read_text(encoding="utf-8"))
    assert [line["text"] for line in lines] == TEXTS
    assert (np.array([line["vector"] for line in lines], np.float32) == vectors).all()


def test_the_tokens_of_all_texts_lie_one_behind_the_other(command, minilm):
    command("embed", minilm, *TEXTS, "--pool", "none", "--out", "v.safetensors")
    found = load_file("v.safetensors")
    assert found["offsets"].tolist() == [0, 9, 25, 41]
    assert found["vectors"].shape == (41, 32)


@pytest.mark.parametrize("pool", ["none", "mean"])
@pytest.mark.parametrize("kind", ["csv", "jsonl", "safetensors", "npy"])
def test_vectors_are_written_in_parts_with_the_same_result(command, minilm, monkeypatch, kind, pool):
    if (pool, kind) == ("none", "npy"):
        pytest.skip("it cannot hold them")
    words = ["embed", minilm, *TEXTS, *TEXTS, "--pool", pool, "--out"]
    command(*words, f"whole.{kind}")
    monkeypatch.setattr(embedding, "_CHARACTERS", 30)
    reader = open_reader(str(minilm))
    parts = list(embedding.embed(reader, TEXTS * 2, embedding.embedding_options(reader, None, pool, None, None)))
    assert [len(part) for part in parts] == [1] * 6
    code, output, _ = command(*words, f"parts.{kind}")
    assert (code, ("82" if pool == "none" else "6") + " x 32 in " in output) == (0, True)
    found = [_vectors(Path(f"{name}.{kind}")) for name in ("whole", "parts")]
    assert np.abs(found[0] - found[1]).max() < 1e-6


def _vectors(path: Path) -> np.ndarray:
    """every number of a file"""
    match path.suffix:
        case ".npy":
            return np.load(path)
        case ".safetensors":
            found = load_file(path)
            assert torch.equal(torch_load(path)["vectors"], torch.from_numpy(found["vectors"]))
            return np.concatenate([values.ravel() for _, values in sorted(found.items())])
        case ".csv":
            rows = list(csv.reader(path.read_text(encoding="utf-8").splitlines()))
            return np.array([row[-32:] for row in rows[1:]], float)
    lines = records(path.read_text(encoding="utf-8"))
    return np.concatenate([np.array(line.get("vectors") or [line["vector"]]) for line in lines])


def test_an_encoder_in_a_folder_of_its_own_is_found(command, minilm):
    """as older versions of sentence-transformers wrote it"""
    (expected,) = records(command("embed", minilm, TEXTS[1], "--json")[1])
    inside = minilm / "0_Transformer"
    inside.mkdir()
    for path in list(minilm.iterdir()):
        if path.is_file() and path.name != "modules.json":
            path.rename(inside / path.name)
    (minilm / "modules.json").write_text((minilm / "modules.json").read_text().replace('""', '"0_Transformer"'))
    code, output, complaint = command("embed", minilm, TEXTS[1], "--json")
    assert (code, "longer than 16 tokens" in complaint) == (0, True)
    assert records(output) == [expected]


def test_of_another_model_it_is_the_mean_of_the_last_layer(command, saved):
    folder = saved("bert")  # with a pooler
    assert "mean of all tokens, layer 2 of 2, at most 40 tokens" in command("embed", folder, "cat", "--out", "v.npy")[1]
    (found,) = records(command("embed", folder, "cat sat", "--pool", "pooler", "--json")[1])
    reader = open_reader(str(folder))
    ids = [reader.tokenizer.cls, *reader.tokenizer.encode(["cat sat"])[0].ids.tolist(), reader.tokenizer.sep]
    with torch.no_grad():
        expected = reader.model(torch.tensor([ids]))[0]
    assert np.abs(np.array(found["vector"]) - expected.numpy()).max() < 1e-5


def test_half_the_bits_answer_nearly_the_same(command, saved):
    folder = saved("bert")
    vectors = []
    for precision in ("auto", "float32", "bfloat16"):
        (found,) = records(
            command("embed", folder, "cat sat", "--precision", precision, "--device", "cpu", "--json")[1]
        )
        vectors.append(np.array(found["vector"]))
    assert np.array_equal(vectors[0], vectors[1])  # auto, on a CPU
    assert 0 < np.abs(vectors[1] - vectors[2]).max() < 0.05 * np.abs(vectors[1]).max()


def test_what_embed_refuses(minilm, refused):
    assert "no output was chosen" in refused("embed", minilm, "cat")
    assert "unknown file type" in refused("embed", minilm, "cat", "--out", "v.txt")
    assert "cannot hold several vectors per text" in refused("embed", minilm, "cat", "--out", "v.npy", "--pool", "none")
    assert "expected 0 (the embeddings) to 2" in refused("embed", minilm, "cat", "--json", "--layer", 3)
    assert "has no pooler" in refused("embed", minilm, "cat", "--json", "--pool", "pooler")
    assert "expected 3 to 40 tokens" in refused("embed", minilm, "cat", "--json", "--length", 41)
    Path("a.csv").write_text("review\nx\n")
    assert "there is no column 'text'" in refused("embed", minilm, "a.csv", "--out", "v.npy")


# similar


def test_a_word_is_found_as_a_whole():
    text = "Bank, banks, river-bank; embank the bank"
    assert [text[start:end] for start, end in find_word("bank", text)] == ["Bank", "bank", "bank"]
    assert find_word("京", "北京大学") == [(1, 2)]


def test_the_likeness_of_a_word_is_that_of_its_pieces_mean(command, minilm):
    sentences = [TEXTS[1], "The bank sat on a mat."]
    code, output, _ = command("similar", minilm, "bank", *sentences, "--layer", 1, "--layer", -1, "--json")
    found = json.loads(output)
    assert (code, list(found["layers"])) == (0, ["0", "1", "2"])
    assert [use["text"][use["start"] : use["end"]] for use in found["uses"]] == ["bank"] * 3
    tokenizer = Tokenizer.read(minilm)
    for layer, cosines in found["layers"].items():
        vectors = []
        for text, state in zip(sentences, by_hand(minilm, sentences, int(layer), length=40), strict=True):
            pieces = tokenizer.encode([text])[0]
            for start, end in find_word("bank", text):
                inside = [1 + k for k in range(len(pieces)) if start <= pieces.starts[k] and pieces.ends[k] <= end]
                vectors.append(state[inside].mean(0))
        unit = F.normalize(torch.stack(vectors), dim=-1)
        assert np.abs(np.array(cosines) - (unit @ unit.T).numpy()).max() < 1e-5


def test_the_table_and_the_pictures(command, minilm):
    code, output, _ = command("similar", minilm, "cat", *TEXTS[:2], "--out", "pictures")
    assert code == 0
    assert "layer 0: embedding, without context" in output
    assert "The [cat] sat on the mat." in output
    assert Path("pictures/similar.png").read_bytes().startswith(b"\x89PNG")
    assert "[cat]" in Path("pictures/similar.svg").read_text(encoding="utf-8")


def test_many_uses_are_drawn_without_numbers(minilm):
    found = similar(open_embedder(str(minilm)), "cat", [TextInput("The cat sat. " * 2)] * 30)
    assert (len(found.uses), found.left_out, found.unread) == (40, 0, 10)
    few = replace(found, uses=found.uses[:3], layers={layer: map[:3, :3] for layer, map in found.layers.items()})
    assert heat_maps(few, "svg").count(b"1.00") > 6 > heat_maps(found, "svg").count(b"1.00")


def test_sentences_of_a_file_without_the_word_are_left_out(command, minilm, refused):
    Path("a.txt").write_text("The cat sat.\nThe catalog.\nA cat ran.\n")
    _, output, complaint = command("similar", minilm, "cat", "a.txt", "--json")
    assert len(json.loads(output)["uses"]) == 2
    assert "sentences skipped because the word was not found: 1\n" in complaint
    assert "is not in it as a whole word" in refused("similar", minilm, "cat", "The cat sat.", "The catalog.")
    assert "was found once: expected at least twice" in refused("similar", minilm, "catalog", "a.txt")
    Path("b.txt").write_text("A cat " + "sat " * 50 + "cat\nThe cat.\n" + "dog " * 50 + "cat\n")
    _, output, complaint = command("similar", minilm, "cat", "b.txt", "--json")
    assert [use["start"] for use in json.loads(output)["uses"]] == [2, 4]  # what the model reaches
    assert "sentences skipped because the word was not found: 1\n" in complaint
    assert "is beyond the maximum length of the model" in refused("similar", minilm, "cat", "cat", "dog " * 50 + "cat")
    assert "expected one word" in refused("similar", minilm, "the cat", "a.txt")


def test_a_device_that_does_not_exist(minilm, refused):
    output = refused("embed", minilm, "cat", "--json", "--device", "foo")
    assert "cannot use device 'foo': expected auto, cpu, cuda (cuda:1 is the second) or mps" in output


# Memory


def test_a_huge_cell_is_cut_and_counted(run):
    reader = open_reader(str(run("classes", ("a", "b"))))
    asked = [TextInput("cat " * 250_000), TextInput("cat"), TextInput("dog " * 250_000)]
    answers = list(Predictor(reader, TextRecipe(length=LENGTH)).answers(asked))
    assert (len(answers), reader.counts.shortened) == (3, 2)
