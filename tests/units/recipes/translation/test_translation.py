"""Translation from files to a scored run, and what a run then translates."""

import io
import json
import random
import sys
from pathlib import Path

import pytest
import torch

from patchword.core.errors import UserError
from patchword.core.files import read_json
from patchword.objectives.metrics.bleu import bleu
from patchword.recipes import find_recipe
from patchword.recipes.run import Run
from patchword.recipes.train import build_task, train
from patchword.recipes.translation.alignment import END, aligned, coverage
from patchword.recipes.translation.data import languages_of, parted, tokenised
from patchword.recipes.translation.evaluation import TranslationEvaluation
from patchword.recipes.translation.run import open_translator
from patchword.recipes.translation.search import Search, translated
from patchword.training.schedule import InverseRoot, inverse_root
from patchword.training.weight_average import EpochAverage
from support.helpers import tiny_pair
from support.material import differing, settings, silent
from support.tiny_texts import refusal, stop_after

READ, WRITTEN = ["ba", "ce", "di", "fo", "gu", "ha"], ["Un", "duo,", "tri.", "quä", "pen", "six"]
TINY = ("model.width=32", "model.depth=1", "model.dropout=0", "device=cpu", "words=300")
TRANSFORMER = ("model.heads=2", "model.hidden=64", *TINY)
LSTM = ("model=lstm-translation-small", *TINY)
FILES = ("train=train.a,train.b", "validation=val.tsv", "test=test.tsv")


def made(count: int, seed: int) -> list[tuple[str, str]]:
    """Word for word, in the same order."""
    draw = random.Random(seed)
    rows = [[draw.randrange(6) for _ in range(draw.randint(1, 4))] for _ in range(count)]
    return [(" ".join(READ[word] for word in row), " ".join(WRITTEN[word] for word in row)) for row in rows]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_files()


def write_files(seed: int = 0) -> None:
    rows = made(120, seed)
    Path("train.a").write_text("".join(f"{first}\n" for first, _ in rows), encoding="utf-8")
    Path("train.b").write_text("".join(f"{second}\n" for _, second in rows), encoding="utf-8")
    for name, count in (("val", 20), ("test", 12)):
        lines = (f"{first}\t{second}\n" for first, second in made(count, len(name)))
        Path(f"{name}.tsv").write_text("".join(lines), encoding="utf-8")


def recipe_of(*fields: str):
    return find_recipe("translation").with_settings(
        [*FILES, *(fields or TRANSFORMER), "batch_size=256", "learning_rate=0.01"]
    )


@pytest.fixture(scope="module", params=["transformer", "lstm", "separate", "none"])
def run(request, tmp_path_factory) -> Path:
    """A run of a few epochs; its files are where the test begins."""
    fields = {
        "transformer": TRANSFORMER,
        "lstm": LSTM,
        "separate": (*TRANSFORMER, "vocabularies=separate", "words=290"),
        "none": (*LSTM, "model.attention=none"),
    }[request.param]
    folder = tmp_path_factory.mktemp(request.param)
    with pytest.MonkeyPatch.context() as there:
        there.chdir(folder)
        write_files()
        assert train(recipe_of(*fields, "epochs=12", "ema_decay=0.9", "label_smoothing=0"), folder / "run", silent())
    return folder / "run"


# A run


def test_a_run_learns_and_is_scored_with_its_signature(run, command):
    metrics = Run(run).metrics()
    assert metrics[-1]["validation_loss"] < 0.8 * metrics[0]["validation_loss"]
    assert metrics[-1]["validation_accuracy"] > (0.6 if Run(run).recipe().model.name == "transformer-small" else 0.25)
    code, output, complaint = command("evaluate", run)
    assert code == 0, complaint
    found = read_json(run / "evaluation.json")
    assert found["metric"] == "bleu"
    assert found["part"] == "test"
    assert found["signature"].startswith("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:")
    assert found["signature"] in output
    assert f"Test BLEU: {found['bleu']:.2f}" in output
    report = (run / "report.html").read_text(encoding="utf-8")
    assert ("Alignment" in report) == ("none" not in str(run))
    assert found["signature"] in report


def test_a_run_is_opened_with_the_tokenizers_it_was_trained_with(run):
    model, source, target = open_translator(run)
    assert (target is not source) == ("separate" in str(run))
    texts = [second for _, second in made(20, 9)]
    assert [target.decode(ids) for ids in target.ids_of(texts)] == texts  # detokenised
    assert model.source.words.num_embeddings == source.vocabulary
    assert model.writing.words.num_embeddings == target.vocabulary


@pytest.mark.parametrize("extra", [("ema_decay=0.9",), ("average_last_epochs=2",)])
def test_a_restart_changes_nothing(monkeypatch, extra):
    recipe = recipe_of(*TRANSFORMER, "model.dropout=0.2", "epochs=3", "save_minutes=0", *extra)
    assert train(recipe, Path("whole"), silent())
    for stop in (2, 3):
        stop_after(monkeypatch, stop)
        assert not train(recipe, Path("parts"), silent(), resume=True)
    stop_after(monkeypatch, 0)
    assert train(recipe, Path("parts"), silent(), resume=True)
    assert differing(Path("parts/model.safetensors"), Path("whole/model.safetensors")) == []
    for name in ("tokenizer.json", "data.json", "recipe.yaml"):
        assert Path("parts", name).read_bytes() == Path("whole", name).read_bytes()


def test_other_pairs_are_refused_on_a_restart(monkeypatch):
    stop_after(monkeypatch, 2)
    assert not train(recipe_of(), Path("run"), silent())
    write_files(seed=5)
    with pytest.raises(UserError, match="the training samples of the pairs have changed"):
        train(recipe_of(), Path("run"), silent(), resume=True)


def test_a_run_goes_on_from_the_weights_of_another():
    assert train(recipe_of(*TRANSFORMER, "epochs=1"), Path("first"), silent())
    task = build_task(recipe_of("model=first", "device=cpu"), silent())
    kept = open_translator(Path("first")).model.state_dict()
    assert all(torch.equal(kept[name], tensor) for name, tensor in task.model.state_dict().items())
    task = build_task(recipe_of("model=first", "model.from_scratch=true", "device=cpu"), silent())
    assert not torch.equal(kept["source.words.weight"], task.model.state_dict()["source.words.weight"])


# What is set aside


def test_pairs_with_one_source_are_set_aside_together():
    Path("pairs.tsv").write_text("".join(f"text {n // 3}\tTeil {n}\n" for n in range(60)), encoding="utf-8")
    recipe = find_recipe("translation").with_settings(["train=pairs.tsv", "words=300", "validation=0.2"])
    from patchword.recipes.translation.data import read_files

    texts = read_files(recipe, "train")
    pairs = tokenised(texts, languages_of(recipe, texts), 512, "pairs.tsv")
    learned, aside = parted(pairs, 0.2)
    assert not set(learned.texts.first) & set(aside.texts.first)
    assert (len(learned), len(aside)) == (48, 12)
    assert learned.source.row(0).tolist()[-1] == learned.target.row(0).tolist()[-1] == 2


# What is refused


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (("words=200",), "a vocabulary of 200 is too small"),
        (("model.max_length=5",), "train.b, line 1: a text is longer than the maximum of the model"),
        (("train=train.a,val.tsv",), "has no counterpart"),
        (("train=",), "no pairs are given"),
        (("validation=2",), "a fraction between 0 and 1"),
        (("test=nothing.tsv",), "nothing.tsv"),
        (("model=bert-mini",), "expected a model that translates"),
        (("tokenizer=a,b,c",), "tokenizer"),
    ],
)
def test_what_cannot_be_trained_is_refused_before_anything_is_written(command, fields, message):
    assert message in refusal(command, "train", "translation", *settings(*FILES, *TRANSFORMER, *fields))


def test_a_test_text_that_is_too_long_is_told_before_training(command):
    Path("test.tsv").write_text(f"{'ba ' * 40}\tx\n", encoding="utf-8")
    output = refusal(command, "train", "translation", *settings(*FILES, *TRANSFORMER, "model.max_length=30"))
    assert "test.tsv, line 1: a text is longer than the maximum of the model" in output


def test_without_sacrebleu_it_is_told_before_training(command, monkeypatch):
    monkeypatch.setitem(sys.modules, "sacrebleu", None)
    assert "patchword[translate]" in refusal(command, "train", "translation", *settings(*FILES, *TRANSFORMER))


# Translating


def test_texts_files_and_a_pipe_are_translated_alike(run, command, monkeypatch):
    texts = [first for first, _ in made(5, 7)]
    code, output, complaint = command("translate", run, *texts)
    assert code == 0, complaint
    assert len(output.splitlines()) == 5
    Path("in.txt").write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    assert command("translate", run, "--file", "in.txt", "--out", "out.txt")[0] == 0
    assert Path("out.txt").read_text(encoding="utf-8") == output
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("\n".join(texts).encode())))
    assert command("translate", run)[1] == output
    record = json.loads(command("translate", run, texts[0], "--json")[1])
    assert record == {"text": texts[0], "translation": output.splitlines()[0]}


def test_a_search_is_the_same_alone_and_among_others(run):
    model, source, target = open_translator(run)
    from patchword.recipes.translation.data import Languages, encoded

    languages = Languages(source, target)
    texts = encoded(source, [first for first, _ in made(9, 4)], 512, "")
    together = translated(model, languages, texts, Search(3))
    for number in (0, 4, 8):
        assert translated(model, languages, texts.take(torch.tensor([number])), Search(3)) == [together[number]]
    specials = set(target.specials)
    assert not specials & {token for text in together for token in text}


def test_the_alignment_is_drawn_and_told_where_there_is_none(run, command):
    if "none" in str(run):
        assert "has no attention" in refusal(command, "translate", run, "ba ce", "--alignment", "a.png")
        return
    code, output, _ = command("translate", run, "ba ce di", "--alignment", "a.png", "--json")
    assert code == 0
    assert Path("a.png").read_bytes().startswith(b"\x89PNG")
    found = json.loads(output)["alignment"]
    assert found["read"] == ["ba", "ce", "di", END]
    assert all(sum(row) == pytest.approx(1, abs=1e-3) for row in found["weights"])
    assert "one text" in refusal(command, "translate", run, "ba", "ce", "--alignment", "b.png")
    assert ".png or .svg" in refusal(command, "translate", run, "ba", "--alignment", "b.jpeg")


@pytest.mark.parametrize(
    "words", [("translate", "nowhere", "text"), ("translate", "nowhere", "a", "--file", "val.tsv")]
)
def test_what_cannot_be_translated_is_refused(command, words):
    refusal(command, *words)


def test_a_text_that_is_too_long_is_refused(run, command):
    assert "longer than the maximum of the model" in refusal(command, "translate", run, "ba " * 600)


# Alignment


class Pieces:
    """Stands in for a tokenizer: ids below 10 begin a word, others go on with it; 13 is a mark."""

    cls, end, pad = 1, 2, 0

    def words_of(self, ids):
        import numpy as np

        return np.cumsum([number < 10 for number in ids], dtype=np.int32) - 1

    def written(self, ids) -> list[str]:
        return ["." if number == 13 else str(number) for number in ids]

    def decode(self, ids) -> str:
        return "-".join(str(int(number)) for number in ids)


def test_pieces_are_put_together_to_words():
    from patchword.core.text import Pair, Text
    from patchword.objectives.generation.translating import alignment
    from patchword.recipes.translation.data import Languages

    model, pieces = tiny_pair(), Pieces()
    source, tokens = torch.tensor([4, 11, 5, 2]), [6, 7, 12]
    found = aligned(model, Languages(pieces, pieces), source, tokens)
    assert found.read == ("4-11", "5", END)
    assert found.written == ("6", "7-12", END)
    whole = alignment(model, Pair(Text(source[None]), Text(torch.tensor([[1, *tokens]]))))[found.layer - 1, 0]
    assert float(found.weights[0, 0]) == pytest.approx(float(whole[0, 0] + whole[0, 1]), abs=1e-6)
    assert float(found.weights[1, 1]) == pytest.approx(float(whole[1, 2] + whole[2, 2]) / 2, abs=1e-6)
    assert float(found.weights[2, 2]) == pytest.approx(float(whole[3, 3]), abs=1e-6)
    assert aligned(model, Languages(pieces, pieces), source, [6, 12, 13]).written == ("6-12", "13", END)
    assert aligned(model, Languages(pieces, pieces), source, []).written == (END,)


def test_the_layer_that_looks_at_every_word_covers_best():
    resting = torch.tensor([[0.0, 0, 1], [0, 0, 1], [0, 0, 1]])
    flat, sharp = torch.full((3, 3), 1 / 3), torch.eye(3)
    assert coverage(torch.stack([resting, sharp, flat])).argmax() == 1
    assert coverage(torch.stack([resting, flat])).argmax() == 1


# Parts


def test_bleu_is_that_of_sacrebleu():
    import sacrebleu

    truth = ["Ein Mann fährt Rad.", "Zwei Hunde spielen im tiefen Schnee."]
    found = ["Ein Mann fährt Fahrrad.", "Zwei Hunde spielen im Schnee."]
    assert bleu(truth, truth).score == pytest.approx(100)
    assert bleu(found, truth).score == pytest.approx(sacrebleu.corpus_bleu(found, [truth]).score)
    assert bleu(found, truth).brevity < 1
    assert "tok:zh" in bleu(["你好"], ["你好"], "zh").signature


def test_the_weights_of_the_last_epochs_are_averaged():
    model = torch.nn.Linear(1, 1, bias=False)
    average = EpochAverage(model, epochs=2, steps=3)
    for step in range(1, 10):
        torch.nn.init.constant_(model.weight, step)
        average.update(step)
        if step == 3:
            with average.applied():
                assert float(model.weight.detach()) == 3
    with average.applied():
        assert float(model.weight.detach()) == (6 + 9) / 2
    assert float(model.weight.detach()) == 9


def test_the_rate_rises_to_its_peak_and_falls_with_the_root():
    rate = inverse_root(1e-3, 10_000, 400)
    rates = [rate(step) for step in range(5000)]
    assert max(rates) == pytest.approx(1e-3)
    assert rates.index(max(rates)) == 399
    assert rates[1599] == pytest.approx(5e-4)
    paper = InverseRoot(512, 400)
    assert rate(77) / rate(2000) == pytest.approx(paper(77) / paper(2000))


def test_a_result_on_validation_pairs_says_so():
    recipe = recipe_of(*TRANSFORMER, "epochs=1").model_copy(update={"test": ""})
    assert train(recipe, Path("run"), silent())
    from patchword.recipes.evaluation import evaluate

    found = evaluate(Run(Path("run")), "cpu")
    assert isinstance(found, TranslationEvaluation)
    assert found.part == "validation"
    assert "test=FILES" in found.lines()[-1]
