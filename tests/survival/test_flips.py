"""10,000 flipped bits of the model's files of two runs, and every bit of their small files: each one is named."""

import pytest

from support.survival.flips import (
    image_run,
    outcomes,
    predict_image,
    predict_text,
    random_flips,
    small_file_flips,
    text_run,
)

FLIPS = 5_000  # per run


@pytest.mark.slow
@pytest.mark.parametrize(("made", "opened"), [(image_run, predict_image), (text_run, predict_text)])
def test_no_flipped_bit_is_silent(tmp_path, capsys, made, opened):
    folder = made(tmp_path)
    opened(folder)
    model = outcomes(folder, random_flips(folder, FLIPS), opened)
    small = outcomes(folder, small_file_flips(folder), opened)
    opened(folder)
    with capsys.disabled():
        print(f"\n{folder.name}: {dict(model)} of {FLIPS:,} in the model's files, {dict(small)} in small files")
    assert model == {"named": FLIPS}
    assert set(small) == {"named"}
