import pytest

from patchword.core.errors import UserError
from patchword.models.numbering import index_of


def test_options_count_from_1_and_minus_1_is_the_last():
    assert [index_of("layer", number, 12) for number in (1, 2, 12, -1)] == [0, 1, 11, 11]


@pytest.mark.parametrize("number", [0, 13, -2])
def test_a_number_outside_of_the_range_is_an_error_with_the_range(number):
    with pytest.raises(UserError, match=rf"there is no layer {number}: expected 1 to 12, or -1 for the last, got"):
        index_of("layer", number, 12)


def test_the_message_may_name_the_owner():
    with pytest.raises(UserError, match="'vit' has no block 5"):
        index_of("block", 5, 4, "'vit'")
