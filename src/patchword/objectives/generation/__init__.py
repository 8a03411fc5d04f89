"""Generation of text: greedy search, sampling and beam search."""
