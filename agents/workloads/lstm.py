"""Language model of characters with an LSTM: ``python -m agents.workloads.lstm``.

Source: Zaremba et al., "Recurrent Neural Network Regularization", 2014. Differs: characters in place of words, and each
window starts from an empty memory, so that windows may be read in any order.
"""

from torch import Tensor, nn

from agents.workloads.data import ALPHABET, DataSet, generated_text
from agents.workloads.loop import Options, Workload, main


class CharacterLstm(nn.Module):
    """``depth`` LSTM layers of ``width`` features, dropout between them."""

    def __init__(self, *, width: int, depth: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(len(ALPHABET), width)
        self.memory = nn.LSTM(width, width, num_layers=depth, batch_first=True, dropout=0.1 if depth > 1 else 0.0)
        self.head = nn.Linear(width, len(ALPHABET))

    def forward(self, codes: Tensor) -> Tensor:
        features, _ = self.memory(self.embedding(codes))
        scores: Tensor = self.head(features)
        return scores


def _data(options: Options) -> DataSet:
    return generated_text(num_characters=options.rows * options.size, window=options.size, seed=options.seed)


def _model(options: Options) -> nn.Module:
    return CharacterLstm(width=options.width, depth=options.depth)


WORKLOAD = Workload(
    about="Train an LSTM on generated sentences, character by character. Depth is in LSTM layers.",
    defaults=Options(steps=300, batch=32, width=128, depth=2, lr=0.005, rows=4096, size=64),
    model=_model,
    data=_data,
)

if __name__ == "__main__":
    main(WORKLOAD)
