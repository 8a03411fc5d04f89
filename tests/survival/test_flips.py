"""10,000 flipped bits of the model's files of two runs, and every bit of their small files: each one is named."""

import pytest

from support.survival.flips import image_run, outcomes, random_flips, small_file_flips, text_run
from support.survival.verbs import from_python, verbs

FLIPS = 5_000  # per run
BY_VERBS = 1_000  # of these, and as many of the small files, are opened by a verb of the command line


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "made"), [("images", image_run), ("text", text_run)])
def test_no_flipped_bit_is_silent(tmp_path, capsys, kind, made):
    folder, fast, slow = made(tmp_path), from_python(kind), verbs(kind)
    for opened in (*fast.values(), *slow.values()):
        assert opened(folder) == ""
    model = outcomes(folder, random_flips(folder, FLIPS - BY_VERBS), fast)
    model += outcomes(folder, random_flips(folder, BY_VERBS, seed=1), slow)
    every = outcomes(folder, small_file_flips(folder), fast)
    per_file = BY_VERBS // len({name for name, _ in small_file_flips(folder, per_file=1)})
    again = outcomes(folder, small_file_flips(folder, per_file, seed=1), slow)
    for opened in (*fast.values(), *slow.values()):
        assert opened(folder) == ""
    with capsys.disabled():
        print(f"\n{kind}: of {FLIPS:,} in the model's files {dict(model)}; in small files, each bit once from Python ")
        print(f"{dict(every)}, some again by a verb {dict(again)}")
    assert model == {"named": FLIPS}
    assert set(every) == set(again) == {"named"}
