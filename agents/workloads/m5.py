"""M5, a convolutional network on raw sound: ``python -m agents.workloads.m5``.

Source: Dai et al., "Very Deep Convolutional Neural Networks for Raw Waveforms", ICASSP 2017. Differs: shorter sounds.
"""

from torch import Tensor, nn

from agents.workloads.data import NUM_CLASSES, DataSet, generated_sounds
from agents.workloads.loop import Options, Workload, main


def _pooled(channels_in: int, channels: int, *, kernel: int, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv1d(channels_in, channels, kernel, stride=stride, padding=kernel // 2, bias=False),
        nn.BatchNorm1d(channels),
        nn.ReLU(inplace=True),
        nn.MaxPool1d(4),
    )


class M5(nn.Module):
    """A wide first filter, then ``depth`` convolutions, each a quarter of the length of the one before."""

    def __init__(self, *, width: int, depth: int) -> None:
        super().__init__()
        layers = [_pooled(1, width, kernel=80, stride=4)]
        channels_in = width
        for index in range(depth):
            channels = width * 2**index
            layers.append(_pooled(channels_in, channels, kernel=3))
            channels_in = channels
        self.layers = nn.Sequential(*layers)
        self.head = nn.Linear(channels_in, NUM_CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.head(self.layers(x).mean(dim=2))
        return scores


def _data(options: Options) -> DataSet:
    return generated_sounds(num_sounds=options.rows, num_samples=options.size, seed=options.seed)


def _model(options: Options) -> nn.Module:
    return M5(width=options.width, depth=options.depth)


WORKLOAD = Workload(
    about="Train M5 on generated sounds. Depth is in convolutions after the first; each shortens the sound four times.",
    defaults=Options(steps=300, batch=32, width=32, depth=3, lr=0.002, rows=1152, size=4096),
    model=_model,
    data=_data,
)

if __name__ == "__main__":
    main(WORKLOAD)
