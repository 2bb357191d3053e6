"""MobileNet for small pictures, depthwise separable convolutions: ``python -m agents.workloads.mobilenet``.

Source: Howard et al., "MobileNets", 2017. Differs: no stride in the stem, ``--depth`` blocks in each of three stages.
"""

from torch import Tensor, nn

from agents.workloads.data import NUM_CLASSES, DataSet, generated_images
from agents.workloads.loop import Options, Workload, main


def _separable(channels_in: int, channels: int, *, stride: int) -> nn.Sequential:
    """Return one filter a channel, then a mixing of the channels at each place."""
    return nn.Sequential(
        nn.Conv2d(channels_in, channels_in, 3, stride=stride, padding=1, groups=channels_in, bias=False),
        nn.BatchNorm2d(channels_in),
        nn.ReLU(inplace=True),
        nn.Conv2d(channels_in, channels, 1, bias=False),
        nn.BatchNorm2d(channels),
        nn.ReLU(inplace=True),
    )


class MobileNet(nn.Module):
    """Three stages of ``depth`` blocks, each stage half the size and twice the channels of the one before."""

    def __init__(self, *, width: int, depth: int) -> None:
        super().__init__()
        layers: list[nn.Module] = [
            nn.Conv2d(3, width, 3, padding=1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
        ]
        channels_in = width
        for stage in range(3):
            channels = width * 2 ** (stage + 1)
            for block in range(depth):
                layers.append(_separable(channels_in, channels, stride=2 if block == 0 else 1))
                channels_in = channels
        self.layers = nn.Sequential(*layers)
        self.head = nn.Linear(channels_in, NUM_CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.head(self.layers(x).mean(dim=(2, 3)))
        return scores


def _data(options: Options) -> DataSet:
    return generated_images(num_images=options.rows, size_px=options.size, seed=options.seed)


def _model(options: Options) -> nn.Module:
    return MobileNet(width=options.width, depth=options.depth)


WORKLOAD = Workload(
    about="Train a MobileNet on generated pictures. Depth is in blocks a stage.",
    defaults=Options(steps=300, batch=32, width=24, depth=2, lr=0.004, rows=1152, size=32),
    model=_model,
    data=_data,
)

if __name__ == "__main__":
    main(WORKLOAD)
