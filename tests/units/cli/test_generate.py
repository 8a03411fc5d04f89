"""write: a tiny model that knows a text by heart, over pieces of bytes and over BERT's."""

import io
import json
import shutil
import sys

import pytest
import tokenizers
import torch
import torch.nn.functional as F

import patchword
from patchword.data.text.tokenizers.tokenizer import Tokenizer
from patchword.recipes.text.inference.generation import (
    GenerationOptions,
    continue_text,
    prompt_of,
    prompt_of_news,
)
from patchword.recipes.text.inference.reader import open_reader
from patchword.recipes.text.inference.token_stream import TokenStream, stream_text
from support.helpers import tiny_text

KNOWN = "The cat sat on the mat, and the naïve café 北京 was shut."
FIELD = "Cats can talk"
START = "The cat sat"
SIZES = {"width": 64, "depth": 1, "heads": 4, "hidden": 128, "max_length": 64, "dropout": 0.0, "attention_dropout": 0.0}


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def learned(folder, tokenizer: Tokenizer, *texts: list[int], spare: int = 0):
    """A model that was taught these rows of tokens until it knows them."""
    torch.manual_seed(0)
    model = patchword.create("gpt2-small", vocabulary=tokenizer.vocabulary + spare, **SIZES)
    rows = [torch.tensor([row]) for row in texts]
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    for _ in range(60):
        loss = sum(F.cross_entropy(model(row[:, :-1])[0], row[0, 1:]) for row in rows)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert float(loss.detach()) < 0.1
    patchword.save(model, folder)
    tokenizer.save(folder)
    return folder


@pytest.fixture(scope="module", params=["bytes", "wordpiece"])
def folder(request, tmp_path_factory):
    """With rows to spare in its table, as padded vocabularies have."""
    tokenizer = Tokenizer.train_on([KNOWN] * 3, vocabulary=300, casing="cased", kind=request.param)
    frame = tokenizer.frame
    row = [*frame.before, *tokenizer.ids_of([KNOWN])[0].tolist(), *frame.after]
    return learned(tmp_path_factory.mktemp(request.param), tokenizer, row, spare=3)


@pytest.fixture
def reader(folder):
    return open_reader(str(folder), "cpu")


def rest(reader) -> str:
    """What follows the beginning, with spaces where the tokenizer puts them."""
    return reader.tokenizer.decode(reader.tokenizer.ids_of([KNOWN])[0]).removeprefix(START)


GREEDY = GenerationOptions(temperature=0)


@pytest.mark.parametrize(
    "wish",
    [GREEDY, GenerationOptions(beams=3), GenerationOptions(temperature=0.1, seed=4), GenerationOptions(top_k=1)],
    ids=str,
)
def test_it_goes_on_with_what_it_knows_and_stops_at_its_end(reader, wish):
    found = continue_text(reader, prompt_of(reader.tokenizer, START), wish)
    assert found[0].text == rest(reader)
    assert found[0].ended
    assert found[0].tokens == len(reader.tokenizer.ids_of([KNOWN])[0]) - len(reader.tokenizer.ids_of([START])[0])
    assert -1 < found[0].score < 0


def test_pieces_that_are_streamed_are_the_text(reader):
    """A character whose bytes are several tokens comes whole."""
    pieces = list(stream_text(reader, prompt_of(reader.tokenizer, START), GREEDY))
    assert "".join(pieces) == rest(reader)
    assert "\ufffd" not in "".join(pieces)
    assert sum(bool(piece) for piece in pieces) > 5


def test_texts_that_grow_by_tokens_are_those_of_one_call(reader):
    wish, prompt = GenerationOptions(temperature=2.0, samples=3, tokens=12, seed=4), prompt_of(reader.tokenizer, START)
    growing, texts, steps = TokenStream(reader, prompt, wish), ["", "", ""], 0
    while (new := growing.step()) is not None:
        steps += 1
        for one in new:
            texts[one.sample] += one.text
    expected = continue_text(reader, prompt, wish)
    assert growing.continuations() == expected
    assert texts == [one.text for one in expected]
    assert growing.step() is None
    assert steps in (12, 13)  # one more for a character that is incomplete in the end


def test_neither_special_tokens_nor_spare_rows_are_written(reader):
    wish = GenerationOptions(temperature=50.0, samples=8, tokens=40)
    steps = []
    for one in continue_text(reader, prompt_of(reader.tokenizer, START), wish):
        steps.append(one.text)
        assert not any(name in one.text for name in ("[PAD]", "[UNK]", "[CLS]", "[MASK]"))
    assert len(set(steps)) == 8


def test_samples_differ_and_a_seed_repeats_them(reader):
    def texts(seed: int) -> list[str]:
        wish = GenerationOptions(temperature=3.0, samples=4, tokens=10, seed=seed)
        return [one.text for one in continue_text(reader, prompt_of(reader.tokenizer, START), wish)]

    assert texts(1) == texts(1) != texts(2)
    assert len(set(texts(1))) == 4


# The verb


def test_it_writes_behind_the_prompt(command, folder, reader):
    code, output, complaint = command("generate", folder, START, "--temperature", 0, "--device", "cpu")
    assert (code, complaint) == (0, "")
    assert output == f"{START}{rest(reader)}\n"


def test_the_prompt_comes_from_a_file_or_is_piped_in(command, folder, reader, tmp_path, monkeypatch):
    (tmp_path / "begin.txt").write_text(f"{START}\n")
    expected = f"{START}{rest(reader)}\n"
    assert command("generate", folder, "begin.txt", "--temperature", 0)[1] == expected
    for word in ("-", None):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(f"{START}\n".encode())))
        assert command("generate", folder, *([word] if word else []), "--temperature", 0)[1] == expected


def test_json_tells_all(command, folder, reader):
    words = ("--samples", 2, "--beams", 3, "--json")
    output = json.loads(command("generate", folder, START, *words)[1])
    assert output["prompt"] == START
    assert len(output["texts"]) == 2
    assert output["texts"][0]["text"] == rest(reader)
    assert output["texts"][0]["ended"] is True
    assert output["texts"][0]["score"] >= output["texts"][1]["score"]


def test_several_samples_are_numbered(command, folder):
    output = command("generate", folder, START, "--samples", 2, "--tokens", 3, "--temperature", 2.0)[1]
    assert output.count(START) == 2
    assert "-- 1 of 2" in output
    assert "-- 2 of 2" in output


def test_it_stops_at_the_number_of_tokens_and_where_the_model_ends(reader):
    assert (
        continue_text(reader, prompt_of(reader.tokenizer, START), GenerationOptions(tokens=2, temperature=0))[0].tokens
        == 2
    )
    endless = prompt_of(reader.tokenizer, START)
    endless = type(endless)(endless.ids, (), START)  # it may not end
    found = continue_text(reader, endless, GenerationOptions(tokens=1000, temperature=0))[0]
    assert (found.tokens, found.ended) == (64 - len(endless.ids), False)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("a " * 200,), "a prompt is too long for the model: expected at most 63 tokens"),
        (("a", "--samples", 3, "--temperature", 0), "samples: expected 1, got 3"),
        (("a", "--samples", 3, "--beams", 2), "samples: expected at most 2, the number of beams, got 3"),
        (("a", "--beams", 2, "--top-k", 3), "nothing is sampled"),
        (("a", "--temperature", 0, "--top-p", 0.5), "nothing is sampled"),
        (("a", "--top-p", 1.5), "top_p: expected above 0 and at most 1, got 1.5"),
        (("a", "--headline", "b"), "no field to generate was named: expected --field NAME"),
        (("a", "--field", "body"), "a prompt and fields exclude each other"),
        (("--field", "body"), "the tokenizer has no tokens for news fields"),
        ((" ",), "the command line: the text is empty"),
        (("missing.txt",), "there is no file missing.txt"),
    ],
    ids=str,
)
def test_what_cannot_be_done_is_said(command, folder, words, message):
    code, output, complaint = command("generate", folder, *words)
    assert (code, output) == (2, "")
    assert f"error: {message}" in complaint


def test_other_models_are_refused(command, folder, tmp_path):
    tokenizer = Tokenizer.read(folder)
    for name, head, message in (
        ("bert-tiny", "words", "'bert-tiny' cannot generate text: its tokens attend to later tokens"),
        ("gpt2-small", "tokens", "'gpt2-small' has no language-model head"),
    ):
        patchword.save(tiny_text(name, head=head, vocabulary=tokenizer.vocabulary), tmp_path / "other")
        tokenizer.save(tmp_path / "other")
        code, _, complaint = command("generate", tmp_path / "other", "A cat")
        assert code == 2
        assert f"error: {message}" in complaint
    for name in ("tokenizer.json", "vocab.txt", "vocab.json", "merges.txt"):
        (tmp_path / "other" / name).unlink(missing_ok=True)
    assert "has no tokenizer" in command("generate", tmp_path / "other", "A cat")[2]
    assert "there is nothing at nowhere" in command("generate", "nowhere", "A cat")[2]


# News


@pytest.fixture(scope="module")
def news(tmp_path_factory):
    """It knows the body that belongs to a headline, and the headline that belongs to the body."""
    folder = tmp_path_factory.mktemp("news")
    Tokenizer.train_on([KNOWN, FIELD] * 3, vocabulary=300, kind="bytes").save(folder / "plain")
    library = tokenizers.Tokenizer.from_file(str(folder / "plain" / "tokenizer.json"))
    names = ("domain", "date", "authors", "title", "article")
    library.add_special_tokens([f"<|{start}{name}|>" for name in names for start in ("begin", "endof")])
    tokenizer = Tokenizer(library)
    parts = {"headline": FIELD, "body": KNOWN}
    rows = []
    for given, wanted in (("headline", "body"), ("body", "headline")):
        prompt = prompt_of_news(tokenizer, {given: parts[given]}, wanted)
        rows.append([*prompt.ids, *tokenizer.ids_of([parts[wanted]])[0].tolist(), *prompt.ends])
    shutil.rmtree(folder / "plain")
    return learned(folder, tokenizer, *rows)


def test_a_field_is_written_by_others(command, news):
    code, output, complaint = command("generate", news, "--headline", FIELD, "--field", "body", "--temperature", 0)
    assert (code, output, complaint) == (0, f"{KNOWN}\n", "")
    assert command("generate", news, "--body", KNOWN, "--field", "headline", "--temperature", 0)[1] == f"{FIELD}\n"
    output = json.loads(
        command("generate", news, "--body", KNOWN, "--field", "headline", "--temperature", 0, "--json")[1]
    )
    assert (output["fields"], output["field"]) == ({"body": KNOWN}, "headline")
    assert output["texts"][0]["text"] == FIELD
    assert (
        "news articles have no field 'heading'" in command("generate", news, "--body", KNOWN, "--field", "heading")[2]
    )
