"""ResNet-18 for small pictures, narrow enough for one core: ``python -m agents.workloads.resnet``.

With ``--width 64 --depth 2`` it is the network of the paper with the stem for 32-pixel pictures.
Source: He et al., "Deep Residual Learning for Image Recognition", CVPR 2016. Differs: no pooling after the stem.
"""

from torch import Tensor, nn
from torch.nn.functional import relu

from agents.workloads.data import NUM_CLASSES, DataSet, generated_images
from agents.workloads.loop import Options, Workload, main


class Block(nn.Module):
    """Two convolutions around which the input is added."""

    def __init__(self, channels_in: int, channels: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(channels_in, channels, 3, stride=stride, padding=1, bias=False),
            nn.BatchNorm2d(channels),
            nn.ReLU(inplace=True),
            nn.Conv2d(channels, channels, 3, padding=1, bias=False),
            nn.BatchNorm2d(channels),
        )
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or channels_in != channels:
            self.shortcut = nn.Sequential(
                nn.Conv2d(channels_in, channels, 1, stride=stride, bias=False), nn.BatchNorm2d(channels)
            )

    def forward(self, x: Tensor) -> Tensor:
        return relu(self.body(x) + self.shortcut(x))


class ResNet(nn.Module):
    """Four stages of ``depth`` blocks, each stage half the size and twice the channels of the one before."""

    def __init__(self, *, width: int, depth: int) -> None:
        super().__init__()
        layers: list[nn.Module] = [
            nn.Conv2d(3, width, 3, padding=1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
        ]
        channels_in = width
        for stage in range(4):
            channels = width * 2**stage
            for block in range(depth):
                layers.append(Block(channels_in, channels, stride=2 if stage and block == 0 else 1))
                channels_in = channels
        self.layers = nn.Sequential(*layers)
        self.head = nn.Linear(channels_in, NUM_CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.head(self.layers(x).mean(dim=(2, 3)))
        return scores


def _data(options: Options) -> DataSet:
    return generated_images(num_images=options.rows, size_px=options.size, seed=options.seed)


def _model(options: Options) -> nn.Module:
    return ResNet(width=options.width, depth=options.depth)


WORKLOAD = Workload(
    about="Train a ResNet on generated pictures. Depth is in blocks a stage.",
    defaults=Options(steps=300, batch=32, width=8, depth=2, lr=0.002, rows=1152, size=32),
    model=_model,
    data=_data,
)

if __name__ == "__main__":
    main(WORKLOAD)
