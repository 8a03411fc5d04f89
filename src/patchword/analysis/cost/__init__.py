"""Parameters and multiply-accumulates of any part of a model, with every calculation step."""

from patchword.analysis.cost.cost import CONVENTION, Cost
from patchword.analysis.cost.count import block_of, blocks_of, count, lines_of, text_of

__all__ = ["CONVENTION", "Cost", "block_of", "blocks_of", "count", "lines_of", "text_of"]
