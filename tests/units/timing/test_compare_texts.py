import csv
import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from patchword.analysis.cost.count import count, text_of
from patchword.analysis.published.text_comparison import (
    Condition,
    TextSpeeds,
    chosen_texts,
    int8_bytes,
    text_row_of,
)
from patchword.analysis.speed import Speed, free_memory, product_rate
from patchword.core.errors import UserError
from patchword.models import REGISTRY
from patchword.reports.colors import TEXT_FAMILIES
from patchword.reports.comparison import text_scatter
from patchword.reports.comparison.comparison import table
from patchword.reports.comparison.text import TextComparison
from patchword.timing import images as timing
from patchword.timing import plan as timing_plan
from patchword.timing import texts as text_timing
from patchword.timing.images import NotMeasuredError
from patchword.timing.plan import Job, Rates, text_jobs
from patchword.timing.texts import TextSetting
from patchword.weights.export import export
from patchword.weights.export.formats import FORMATS
from patchword.weights.export.int8 import in_int8

TWO = ("bert-tiny", "tinybert-4-312")
FLOAT = TextSetting("cpu", "float32", (1, 32), 128, 0.0)
INT8 = replace(FLOAT, precision="int8")
MACHINE = {"device": "cpu", "processor": "some chip", "torch": "9.9"}
FAST = Rates(cpu=1e15)
TEXTS = [name for name in REGISTRY.names() if REGISTRY.reads(name) == "texts"]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture(autouse=True)
def _any_machine(monkeypatch):
    """As if ONNX Runtime were installed, the memory large and the CPU fast, whatever runs this."""
    monkeypatch.setattr(type(FORMATS[".onnx"]), "require", lambda self: None)
    monkeypatch.setattr(timing_plan, "free_memory", lambda: 2**40)
    monkeypatch.setattr(timing_plan, "product_rate", lambda: 1e15)


@pytest.fixture
def measured(monkeypatch):
    """Nothing is run: what a model answers in a precision is looked up here, and may be an exception."""
    answers = {}

    def time_model(name, setting, output):
        found = tuple(Speed(batch, 3, 0.5, None) for batch in setting.batches)
        size = 5_000_000 if setting.precision == "int8" else None
        answer = answers.get((name, setting.precision), TextSpeeds(found, size))
        if isinstance(answer, BaseException):
            raise answer
        return answer

    monkeypatch.setattr(timing, "time_model", time_model)
    return answers


def written() -> list[dict[str, str]]:
    return list(csv.DictReader(Path("text-comparison/comparison.csv").read_text().splitlines()))


# The models


def test_without_a_choice_every_text_model_is_compared():
    assert chosen_texts([]) == TEXTS
    families = {REGISTRY.find(name)[0].title for name in TEXTS}
    assert {"BERT", "RoBERTa", "ALBERT", "DistilBERT", "TinyBERT", "MobileBERT", "XLM", "GPT-2", "Grover"} <= families


def test_patterns_mean_models_of_texts_only():
    assert chosen_texts(["*-tiny", "bert-tiny"]) == ["bert-tiny"]
    with pytest.raises(UserError, match="'swin-tiny' reads images: expected a model of texts"):
        chosen_texts(["swin-tiny"])
    with pytest.raises(UserError, match="no model of texts matches 'swin-\\*'"):
        chosen_texts(["swin-*"])
    with pytest.raises(UserError, match="did you mean 'bert-tiny'"):
        chosen_texts(["bert-tinny"])


def test_a_row_counts_for_the_length_that_was_asked_for():
    usual, short = text_row_of("bert-tiny", 128), text_row_of("bert-tiny", 16)
    assert (usual.parameters, usual.macs, usual.float32) == (4_385_920, 58_736_640, 4 * 4_385_920)
    card = REGISTRY.create("bert-tiny").card
    assert short.macs == count(card, inputs=text_of(card, 16)).macs < usual.macs / 8
    with pytest.raises(UserError, match="reads at most 512 tokens"):
        text_row_of("bert-tiny", 513)


@pytest.mark.parametrize("name", ["bert-tiny", "albert-base", "distilbert-base", "gpt", "xlm-ende"])
def test_the_bytes_in_8_bits_are_those_of_the_quantised_model(name):
    with torch.device("meta"):
        model = REGISTRY.create(name)
    quantised = in_int8(model)
    kept = {id(tensor): tensor.nbytes for tensor in (*quantised.buffers(), *quantised.parameters())}
    assert int8_bytes(model) == sum(kept.values())


def test_a_wrong_publication_is_marked():
    comparison = TextComparison([text_row_of("bert-base-multilingual", 128)], [], MACHINE)
    assert "| 110* [1] | 177.85 |" in table(comparison)
    assert "published 110 M, counted 177.85 M, 38.2% below the count" in table(comparison)
    assert "*" not in table(TextComparison([text_row_of("bert-tiny", 128)], [], MACHINE))


# The plan


def test_batches_that_take_too_long_are_left_out_and_the_reason_is_said():
    row = text_row_of("bert-tiny", 128)
    rows, jobs = text_jobs([row], [FLOAT], 10, Rates(cpu=4 * 32 * row.macs / 11))  # 11 seconds with batch 32
    assert [job.setting.batches for job in jobs] == [(1,)]
    assert rows[0].left_out == {Condition("cpu", "float32", 32): "it would take about 11 s, more than --longest 10"}


def test_a_model_larger_than_the_memory_is_left_out_but_counted(monkeypatch):
    monkeypatch.setattr(timing_plan, "free_memory", lambda: 3 * 4 * 4_385_920)
    rows, jobs = text_jobs([text_row_of("bert-tiny", 128)], [FLOAT, INT8], 10, FAST)
    assert [job.kind for job in jobs] == [("cpu", "float32")]
    assert set(rows[0].left_out) == set(INT8.conditions())
    assert "of memory" in TextComparison(rows, [FLOAT, INT8], MACHINE).notes()[-1]


def test_without_onnx_runtime_8_bits_are_left_out(monkeypatch):
    def missing(self):
        raise UserError("onnxruntime is not installed", expected="it", hint="pip install 'patchword[onnx]'")

    monkeypatch.setattr(type(FORMATS[".onnx"]), "require", missing)
    rows, jobs = text_jobs([text_row_of("bert-tiny", 128)], [FLOAT, INT8], 10, FAST)
    assert [job.kind for job in jobs] == [("cpu", "float32")]
    assert set(rows[0].left_out.values()) == {"onnxruntime is not installed (pip install 'patchword[onnx]')"}


def test_the_expected_time_follows_what_was_seen():
    rates = Rates(cpu=100.0)
    job = Job(0, replace(FLOAT, seconds=1.0), (100, 3200), start=5.0)
    assert job.expected(rates) == 5 + 4 + 128
    rates.saw(job, TextSpeeds((Speed(1, 3, 0.1, None),)))
    assert job.expected(rates) == pytest.approx(5 + 1.2 + 12.8)
    assert Rates(cpu=100.0).of(("cuda", "bfloat16")) == float("inf")


def test_the_machine_tells_its_rate_and_its_memory():
    assert product_rate(64) > 0
    assert free_memory() is None or free_memory() > 0


# The verb


def test_everything_is_written(command, measured):
    code, output, complaint = command("compare", "--text", *TWO, "--device", "cpu")
    assert (code, complaint) == (0, "")
    assert {path.name for path in Path("text-comparison").iterdir()} == {
        "table.md",
        "comparison.csv",
        "comparison.json",
        *(f"{name}.{kind}" for kind in ("png", "svg")
          for name in ("mnli-over-parameters", "mnli-over-speed", "speed-over-macs")),
    }  # fmt: skip
    row = written()[0]
    assert row | {} == row | {
        "model": "bert-tiny",
        "parameters": "4385920",
        "tokens": "128",
        "macs_per_token": "458880.0",
        "float32_bytes": "17543680",
        "int8_file_bytes": "5000000",
        "published_mnli_m_percent": "70.2",
        "published_mnli_m_part": "test",
        "cpu_float32_batch_32_tokens_per_second": "8192.0",
        "cpu_float32_batch_32_sentences_per_second": "64.0",
        "cpu_int8_batch_1_sentences_per_second": "2.0",
        "note": "",
    }
    assert "arXiv 1908.08962" in row["published_mnli_m_source"]
    assert output.index("measuring 2 models takes about") < output.index("cpu float32, batch 1: 256 tokens/s")
    assert "70.2 test [1]" in output
    assert "a text of 128 tokens" in output


def test_without_speed_nothing_is_run(command, monkeypatch, undrawn):
    monkeypatch.setattr(timing, "time_model", lambda *_: pytest.fail("a model was timed"))
    code, output, _ = command("compare", "--text", *TWO, "--no-speed", "--tokens", 64)
    assert code == 0
    assert [row["tokens"] for row in written()] == ["64", "64"]
    assert "tokens/s" not in output


@pytest.mark.parametrize(
    ("words", "asked"),
    [
        ([], {("float32", 1), ("float32", 32), ("int8", 1), ("int8", 32)}),
        (["--batch-size", 4], {("float32", 4), ("int8", 4)}),
        (["--precision", "int8"], {("int8", 1), ("int8", 32)}),
        (["--precision", "bfloat16", "--batch-size", 2], {("bfloat16", 2)}),
    ],
)
def test_what_is_measured_can_be_chosen(command, measured, undrawn, words, asked):
    code, output, _ = command("compare", "--text", "bert-tiny", "--device", "cpu", "--json", *words)
    found = json.loads(output)["models"][0]["measured"]
    assert code == 0
    assert {(speed["precision"], speed["batch"]) for speed in found} == asked


def test_one_failure_does_not_lose_the_others(command, measured, undrawn):
    measured["bert-tiny", "int8"] = NotMeasuredError("RuntimeError: no kernel [for this]")
    code, output, _ = command("compare", "--text", *TWO, "--device", "cpu")
    assert code == 1
    text = Path("text-comparison/table.md").read_text()
    assert "bert-tiny, cpu int8, batch 1; cpu int8, batch 32 could not be measured: RuntimeError: no kernel" in text
    assert [bool(row["cpu_int8_batch_1_tokens_per_second"]) for row in written()] == [False, True]
    assert "no kernel [for this]" in output


def test_a_batch_that_had_too_little_memory_is_told(command, measured, undrawn):
    measured["bert-tiny", "float32"] = TextSpeeds((Speed(1, 3, 0.5, None),))
    assert command("compare", "--text", *TWO, "--device", "cpu")[0] == 0
    assert written()[0]["note"] == "cpu float32, batch 32 not measured: out of memory"


def test_ctrl_c_keeps_what_was_measured(command, measured, undrawn):
    measured["bert-tiny", "int8"] = KeyboardInterrupt()
    code, output, _ = command("compare", "--text", *TWO, "--device", "cpu")
    assert code == 130
    assert [bool(row["cpu_float32_batch_1_tokens_per_second"]) for row in written()] == [True, False]
    assert "stopped" in output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--text", "swin-tiny"], "'swin-tiny' reads images"),
        (["--text", "bert-tiny", "--tokens", "600"], "reads at most 512 tokens"),
        (["swin-tiny", "--precision", "int8"], "image models are not measured in int8"),
    ],
)
def test_mistakes_are_refused_before_anything_is_done(command, measured, words, message):
    code, _, complaint = command("compare", *words)
    assert (code, message in complaint) == (2, True), complaint
    assert list(Path().iterdir()) == []


# Timing


def test_a_model_is_measured_for_each_batch():
    found = text_timing.measure("bert-tiny", replace(FLOAT, batches=(1, 2), tokens=4))
    assert [(speed.batch, speed.calls) for speed in found.speeds] == [(1, 3), (2, 3)]
    assert found.size is None


def test_in_8_bits_the_exported_file_is_measured(monkeypatch):
    fed = []

    def exported(model, path, *, int8, tolerance):
        assert int8
        assert path.suffix == ".onnx"
        return SimpleNamespace(size=7)

    monkeypatch.setattr(export, "export", exported)
    monkeypatch.setattr(type(FORMATS[".onnx"]), "open", lambda self, path: lambda *inputs: fed.append(inputs))
    found = text_timing.measure("bert-tiny", replace(INT8, batches=(3,), tokens=5))
    assert (found.size, found.speeds[0].batch) == (7, 3)
    ids, segments, mask = fed[0]
    assert ids.shape == segments.shape == mask.shape == (3, 5)
    assert mask.all()
    assert not segments.any()


def test_too_little_memory_drops_the_largest_batch(monkeypatch):
    asked, output = [], []

    def ask(name, setting):
        asked.append(setting.batches)
        full = {"failure": "full", "out_of_memory": True}
        one = {"batch": 1, "calls": 3, "seconds": 0.1, "memory": None}
        return full if setting.batch > 1 else {"speeds": [one], "size": None}

    monkeypatch.setattr(timing, "_ask", ask)
    found = timing.time_model("bert-tiny", FLOAT, output.append)
    assert asked == [(1, 32), (1,)]
    assert found == TextSpeeds((Speed(1, 3, 0.1, None),))
    assert output == ["bert-tiny: out of memory with batch 32, now with 1"]


def test_the_process_of_its_own_answers_in_json(monkeypatch, capsys):
    setting = {**vars(FLOAT), "batches": [1], "tokens": 4}
    monkeypatch.setattr("sys.argv", ["text_timing", "bert-tiny", json.dumps(setting)])
    text_timing.main()
    answer = json.loads(capsys.readouterr().out)
    assert FLOAT.read(answer).speeds[0].batch == 1


# Pictures


def test_every_family_of_texts_has_a_colour_and_a_mark_of_its_own():
    assert {REGISTRY.find(name)[0].title for name in TEXTS} <= TEXT_FAMILIES.keys()
    for number in (0, 1):
        assert len({style[number] for style in TEXT_FAMILIES.values()}) == len(TEXT_FAMILIES)


def test_pictures_of_nothing_are_not_drawn(undrawn):
    rows = [text_row_of("bert-minilm", 128)]
    found = text_scatter.figures(rows, [], "")
    assert set(found) == {"mnli-over-parameters", "mnli-over-speed", "speed-over-macs"}
    assert not any(found.values())


def test_a_model_without_matrices_is_counted_in_float32():
    assert int8_bytes(nn.LayerNorm(8)) == 4 * 16
