"""Masked language modelling with BERT as a short script in PyTorch alone: a baseline for `bert_training.py`.

It has no dropout, computes logits only at the masked positions, and uses torch's own modules throughout.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Layer(nn.Module):
    def __init__(self, width: int, heads: int, hidden: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, hidden), nn.Linear(hidden, width)
        self.first, self.second = nn.LayerNorm(width, 1e-12), nn.LayerNorm(width, 1e-12)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        x = self.first(x + self.out(attended))
        return self.second(x + self.down(F.gelu(self.up(x))))


class ReferenceBert(nn.Module):
    def __init__(self, vocabulary: int, width: int, depth: int, heads: int, hidden: int, max_length: int) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(vocabulary, width), nn.Embedding(max_length, width)
        self.segments, self.norm = nn.Embedding(2, width), nn.LayerNorm(width, 1e-12)
        self.layers = nn.ModuleList(Layer(width, heads, hidden) for _ in range(depth))
        self.transform, self.last = nn.Linear(width, width), nn.LayerNorm(width, 1e-12)
        self.bias = nn.Parameter(torch.zeros(vocabulary))
        for part in self.modules():
            if isinstance(part, nn.Linear | nn.Embedding):
                nn.init.normal_(part.weight, std=0.02)

    def forward(self, ids: Tensor, predict_at: Tensor, labels: Tensor) -> Tensor:
        x = self.words(ids) + self.places.weight[: ids.shape[1]] + self.segments.weight[0]
        x = self.norm(x)
        for layer in self.layers:
            x = layer(x)
        x = self.last(F.gelu(self.transform(x.flatten(0, 1)[predict_at])))
        return F.cross_entropy(F.linear(x, self.words.weight, self.bias), labels)
