from patchword.core.errors import first_few


def test_a_long_list_is_shortened_to_a_few_and_a_count():
    lines = [f"line {number}" for number in range(1234)]
    assert first_few(lines, 2) == ["line 0", "line 1", "... and 1,232 more"]
    assert first_few(lines[:3], 2) == lines[:3]  # as long as with the count
    assert first_few([]) == []
