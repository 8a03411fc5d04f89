"""Parameters and multiply-accumulates of any part of a model, with every calculation step."""

from patchword.analysis.cost.count import CONVENTION, Cost, blocks_of, count, lines_of, text_of

__all__ = ["CONVENTION", "Cost", "blocks_of", "count", "lines_of", "text_of"]
