"""Put the words of each text into another order."""

from torch import Tensor


def reordered(tokens: Tensor, order: Tensor) -> Tensor:
    """(batch, words, width), (batch, words) -> (batch, words, width): word order[b, k] of text b at place k

    Not take_along_dim, which fixes the sizes of an exported graph.
    """
    return tokens.gather(1, order[..., None].expand(-1, -1, tokens.shape[-1]))
