"""patchword.bench: the benchmark of the verb, as a function."""

import json

import pytest
import torch

import patchword
from patchword.core.errors import UserError

SMALL = {"width": 16, "heads": 2, "hidden": 32, "depth": 1, "vocabulary": 50}


def test_a_benchmark_returns_its_result_and_writes_it_where_it_is_asked(tmp_path, monkeypatch, capfd):
    pytest.importorskip("transformers")
    monkeypatch.chdir(tmp_path)
    threads = torch.get_num_threads()
    result = patchword.bench(
        "bert", length=8, batch_size=2, texts=4, seconds=0, device="cpu", threads=1, out="a/b.json", quiet=True, **SMALL
    )
    assert result.unit == "tokens"
    assert result.ratios
    assert json.loads((tmp_path / "a/b.json").read_text())["results"] == [json.loads(json.dumps(result.to_json()))]
    assert torch.get_num_threads() == threads
    assert capfd.readouterr().out == ""


def test_an_unknown_model_is_refused():
    with pytest.raises(UserError, match="no model is called 'brt'"):
        patchword.bench("brt")
