"""How options count blocks, layers, heads and stages.

They count from 1, as papers and figures do; -1 is the last. So layer 3 is the output of block 3, and layer 0, where an
option has it, the input of the first block. Names of modules, such as `stages.0.encoder.blocks.0`, are indices of
PyTorch and count from 0.
"""

from patchword.core.errors import UserError


def index_of(what: str, number: int, count: int, owner: str = "") -> int:
    """Return the index in a list of what an option counts from 1.

    >>> index_of("layer", 1, 12), index_of("layer", -1, 12)
    (0, 11)
    """
    if 1 <= number <= count or number == -1:
        return number - 1 if number > 0 else count - 1
    message = f"{owner} has no {what} {number}" if owner else f"there is no {what} {number}"
    raise UserError(message, expected=f"1 to {count}, or -1 for the last", got=number)
