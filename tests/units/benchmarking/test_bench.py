"""Benchmarks: the peers answer alike before they are timed, work is counted right, and results are kept whole."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from patchword.benchmarking import benchmark as module
from patchword.benchmarking.benchmark import Candidate, Timing, benchmark
from patchword.benchmarking.hardware_limits import HardwareLimits, measure_limits
from patchword.benchmarking.images import Setting, bench_images, peers_of
from patchword.benchmarking.result import Result, as_typed, write_results
from patchword.benchmarking.text_inputs import Texts, natural_lengths
from patchword.benchmarking.texts import OURS, SAME, THEIRS, bench_inference, bench_masked
from patchword.benchmarking.torchvision_stub import without_torchvision
from patchword.core.errors import UserError

CPU = torch.device("cpu")
TINY = {"width": 32, "depth": 2, "heads": 2, "hidden": 64, "vocabulary": 120, "max_length": 64}


def setting(batch=4, train=False):
    return Setting(CPU, "float32", 0.02, False, batch, train)


def silent(text):
    pass


def test_a_race_counts_the_work_of_whole_passes():
    done = []

    def step():
        done.append(1)
        return 5.0

    (finish,) = benchmark([Candidate("one", step, calls=3, macs=30.0)], CPU, 0.01, silent)
    assert len(done) % 3 == 1  # whole passes, and the one call that looks at the memory
    assert finish.rate > 0
    assert finish.products == pytest.approx(60 / finish.seconds)


@pytest.mark.parametrize(("cuda_graphs", "slow"), [(False, 2), (True, 5)])
def test_what_only_the_first_steps_cost_is_not_counted(monkeypatch, cuda_graphs, slow):
    """A CUDA graph is compiled, run and captured before it is fast."""
    clock, done = [0.0], []
    monkeypatch.setattr(module.time, "perf_counter", lambda: clock[0])

    def step():
        clock[0] += 0.01 if len(done) >= slow else 9.0
        done.append(1)
        return 1.0

    (finish,) = benchmark([Candidate("one", step, cuda_graphs=cuda_graphs)], CPU, 4.0, silent)
    assert finish.rate == pytest.approx(100)
    assert len(done) == slow + 2 + 400


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        ("/usr/bin/patchword", "patchword"),
        ("benchmarks/bert_training.py", "python benchmarks/bert_training.py"),
        ("/usr/lib/patchword/__main__.py", "python -m patchword"),
    ],
)
def test_a_command_is_told_as_it_was_typed(program, expected, monkeypatch):
    monkeypatch.setattr(sys, "argv", [program, "--seconds", "3"])
    assert as_typed() == f"{expected} --seconds 3"


def test_ours_is_compared_with_each_other(tmp_path):
    timings = [Timing("patchword", 300.0, 1.0, 2 * 10**9, 5e11), Timing("timm", 100.0, 3.0, None)]
    limits = HardwareLimits(2e12, 1e9)
    result = Result("a model", "images", timings, "patchword", CPU, limits, {"timm": 1e-6}, {"batch": 8})
    assert result.lines() == [
        ("patchword", "300 images/s", "", "50%", "2.00 GB"),
        ("timm", "100 images/s", "3.00x", "", ""),
    ]
    kept = json.loads(write_results(tmp_path / "results" / "one.json", [result]).read_text())
    assert kept["command"] == as_typed()
    assert kept["machine"]["torch"] == torch.__version__
    assert kept["results"][0]["ratio"] == {"timm": 3.0}
    assert kept["results"][0]["share_of_matrix_rate"] == {"patchword": 0.5}


def test_limits_are_measured():
    found = measure_limits(CPU, "float32", 0.01)
    assert found.products > 1e8
    assert found.copies > 1e7


def test_texts_of_both_sides_are_the_same():
    lengths = natural_lengths(50, 64)
    texts = Texts.of(lengths, 100)
    ours, theirs = texts.packed(8, CPU), texts.padded(8, CPU)
    assert sum(batch.tokens for batch in ours) == sum(batch.tokens for batch in theirs) == int(lengths.sum())
    assert sum(len(batch.asked_targets) for batch in ours) == sum(int((one.labels >= 0).sum()) for one in theirs)
    assert 8 <= int(lengths.min()) < int(lengths.max()) == 64
    even = Texts.of(torch.full((6,), 9), 100)
    assert even.padded(3, CPU)[0].mask is None
    assert even.packed(3, CPU)[0].text.ids.shape == (3, 9)


@pytest.mark.parametrize("lengths", [torch.full((8,), 16), natural_lengths(12, 40, 12)], ids=["even", "natural"])
def test_masked_words_are_learned_by_all(lengths):
    result = bench_masked("bert-tiny", setting(train=True), lengths, silent, **TINY)
    assert {one.name for one in result.timings} >= {OURS, SAME, THEIRS}
    assert result.difference[THEIRS] < 1e-4
    assert all(one.rate > 0 for one in result.timings)


def test_texts_are_read_by_both():
    result = bench_inference("bert-tiny", setting(), natural_lengths(12, 40, 12), silent, **TINY)
    assert [one.name for one in result.timings] == [OURS, THEIRS]
    assert result.difference[THEIRS] < 1e-4


@pytest.mark.parametrize("train", [False, True])
def test_images(train):
    small = {"image": 32, "depth": 2, "width": 24, "heads": 2, "hidden": 48, "classes": 7}
    result = bench_images("vit-tiny-16", setting(2, train), peers_of, silent, **small)
    assert [one.name for one in result.timings] == ["patchword", "transformers"]
    assert result.difference["transformers"] < 1e-4


def test_what_races_answers_as_it_does_in_float32(monkeypatch):
    small = {"image": 32, "depth": 2, "width": 24, "heads": 2, "hidden": 48, "classes": 7}
    short = replace(setting(2), precision="bfloat16")
    result = bench_images("vit-tiny-16", short, peers_of, silent, **small)
    assert all(1e-4 < result.difference[f"{who} as benchmarked"] < 0.05 for who in ("patchword", "transformers"))
    monkeypatch.setattr(Setting, "ours", lambda self, model: lambda images: model(images.flip(1)))
    with pytest.raises(UserError, match="patchword in float32 and its answers as benchmarked give different outputs"):
        bench_images("vit-tiny-16", short, peers_of, silent, **small)


def test_a_peer_that_answers_otherwise_is_refused():
    class Other(torch.nn.Module):
        def forward(self, images):
            return images.mean((1, 2, 3))[:, None].expand(-1, 7)

    small = {"image": 32, "depth": 1, "width": 24, "heads": 2, "hidden": 48, "classes": 7}
    with pytest.raises(UserError, match="other give different outputs"):
        bench_images("vit-tiny-16", setting(2), lambda ours: {"other": Other()}, silent, **small)


def test_nothing_of_the_stand_in_is_left():
    with without_torchvision():
        from torchvision.ops.misc import Whatever  # type: ignore[import-not-found]  # not installed
    assert {Whatever.ONE: 1, Whatever.OTHER: 2}[Whatever.ONE] == 1
    with pytest.raises(ImportError):
        import torchvision  # noqa: F401


def test_timm_that_is_not_there():
    from patchword.benchmarking.peers import of_timm

    with pytest.raises(UserError, match="timm is not in"):
        of_timm(None, Path("nowhere"))
