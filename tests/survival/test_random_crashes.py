"""The cases of `make crash`: one number decides all but the moments, and a case that must end well does."""

import random
from pathlib import Path

import pytest

from support.crash.cases import SIGNALS, TROUBLES, Case, damage
from support.crash.player import Player


def test_a_number_is_a_case():
    cases = [Case.of(number) for number in range(200)]
    assert cases == [Case.of(number) for number in range(200)]
    assert {case.kind for case in cases} == {"images", "text", "pretraining", "translation"}
    assert {case.processes for case in cases} == {1, 2}
    assert {trouble for case in cases for trouble in case.troubles} == {*TROUBLES} >= {*SIGNALS}


def test_damage_changes_one_file_and_says_which(tmp_path: Path):
    ways = set()
    for number in range(30):
        (tmp_path / "a").write_bytes(b"1234")
        (tmp_path / "b").write_bytes(b"5678")
        [done] = damage(tmp_path, random.Random(number))
        way, name = done.split()
        ways.add(way)
        other = tmp_path / ("b" if name == "a" else "a")
        assert other.read_bytes() in (b"1234", b"5678")
        assert not (tmp_path / name).exists() or (tmp_path / name).read_bytes() not in (b"1234", b"5678")
    assert ways == {"flip", "cut", "remove"}
    assert damage(tmp_path / "none", random.Random(0)) == []


@pytest.mark.slow
@pytest.mark.parametrize("number", range(20))
def test_a_disturbed_run_ends_with_the_same_bits_or_a_refusal(tmp_path: Path, number: int):
    ended, damaged, _ = Player(tmp_path).play(Case.of(number))
    assert ended == "bit-equal" or (ended == "refused" and damaged)
