"""The training scripts that ship with the product, as starting points of the form."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """One ready spec.

    Attributes:
        key: Word in the URL, name of the module and value of the label ``model``.
        title: What it trains.
        about: One line on the data and the size.
        steps: Mini-batches of the whole training.
    """

    key: str
    title: str
    about: str
    steps: int

    def spec(self) -> dict[str, object]:
        """Return the spec as plain data, without a queue."""
        return {
            "apiVersion": "v1",
            "name": f"{self.key}-{self.steps}",
            "command": ["python", "-m", f"agents.workloads.{self.key}", "--steps", str(self.steps)],
            "resources": {"gpus": 1},
            "progress": {"total_steps": self.steps},
            "labels": {"model": self.key},
        }


TEMPLATES: dict[str, Template] = {
    template.key: template
    for template in (
        Template(key="resnet", title="ResNet", about="Small residual network on made images", steps=300),
        Template(key="mobilenet", title="MobileNet", about="Depthwise-separable CNN on made images", steps=300),
        Template(key="lstm", title="LSTM", about="Character language model on made text", steps=300),
        Template(key="transformer", title="Transformer", about="Small language model on made text", steps=300),
        Template(key="m5", title="M5", about="1-D CNN on made audio waves", steps=300),
    )
}
