"""A model that does not fit into memory is a user's mistake, not a fault of the command."""


def test_a_model_that_does_not_fit_is_refused(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sizes = ("model.width=1600000", "model.hidden=16000000")  # 31 TB in one tensor
    code, _, error = command("train", "digits-vit", *sizes, "--runs", "runs")
    assert code == 2
    assert error.startswith("error: there is not enough memory: got ")
    assert "choose a smaller model" in error
    assert not list(tmp_path.iterdir())
