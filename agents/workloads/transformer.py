"""Language model of characters with a Transformer: ``python -m agents.workloads.transformer``.

Source: Vaswani et al., "Attention Is All You Need", NIPS 2017. Differs: decoder only, learnt places, and the
normalization before each part, as in GPT-2.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from agents.workloads.data import ALPHABET, DataSet, generated_text
from agents.workloads.loop import Options, Workload, main

HEAD_WIDTH = 16
DROPOUT = 0.1


class Layer(nn.Module):
    """Attention to what came before, then a network at each place; both are added to their input."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.attention_norm, self.network_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.question_key_value = nn.Linear(width, 3 * width)
        self.mix = nn.Linear(width, width)
        self.network = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.dropout = nn.Dropout(DROPOUT)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.dropout(self._attend(self.attention_norm(x)))
        added: Tensor = x + self.dropout(self.network(self.network_norm(x)))
        return added

    def _attend(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        split = self.question_key_value(x).view(batch, length, 3, width // HEAD_WIDTH, HEAD_WIDTH)
        question, key, value = split.permute(2, 0, 3, 1, 4)
        seen = scaled_dot_product_attention(question, key, value, is_causal=True)
        mixed: Tensor = self.mix(seen.transpose(1, 2).reshape(batch, length, width))
        return mixed


class Transformer(nn.Module):
    """``depth`` layers of ``width`` features, a multiple of ``HEAD_WIDTH``."""

    def __init__(self, *, width: int, depth: int, window: int) -> None:
        super().__init__()
        if width % HEAD_WIDTH:
            raise ValueError(f"width {width} is no multiple of {HEAD_WIDTH}")
        self.embedding = nn.Embedding(len(ALPHABET), width)
        self.places = nn.Parameter(torch.randn(window, width) * 0.02)
        self.layers = nn.Sequential(*(Layer(width) for _ in range(depth)), nn.LayerNorm(width))
        self.head = nn.Linear(width, len(ALPHABET))

    def forward(self, codes: Tensor) -> Tensor:
        x = self.embedding(codes) + self.places[: codes.shape[1]]
        scores: Tensor = self.head(self.layers(x))
        return scores


def _data(options: Options) -> DataSet:
    return generated_text(num_characters=options.rows * options.size, window=options.size, seed=options.seed)


def _model(options: Options) -> nn.Module:
    return Transformer(width=options.width, depth=options.depth, window=options.size)


WORKLOAD = Workload(
    about="Train a Transformer on generated sentences, character by character. Depth is in layers.",
    defaults=Options(steps=300, batch=32, width=64, depth=2, lr=0.004, rows=4096, size=64),
    model=_model,
    data=_data,
)

if __name__ == "__main__":
    main(WORKLOAD)
