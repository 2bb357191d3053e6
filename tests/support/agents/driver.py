"""An NVML without hardware, for tests of what a server says of its GPUs."""

from types import SimpleNamespace

import pynvml


class FakeDriver:
    """An NVML with a few GPUs, any of which may fall off the bus, get hot or not know an answer."""

    def __init__(self, *, num_gpus: int, problem: type[pynvml.NVMLError] | None = None) -> None:
        self.num_gpus = num_gpus
        self.problem = problem
        self.lost: set[str] = set()
        self.hot: set[str] = set()
        self.silent: set[str] = set()

    NVMLError = pynvml.NVMLError
    NVML_TEMPERATURE_GPU = pynvml.NVML_TEMPERATURE_GPU

    def nvmlInit(self) -> None:
        """Start, or fail as without a driver."""
        if self.problem is not None:
            raise self.problem()

    def nvmlDeviceGetCount(self) -> int:
        """Return how many there are."""
        return self.num_gpus

    def nvmlDeviceGetHandleByIndex(self, index: int) -> str:
        """Return a handle."""
        return f"GPU-{index}"

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:
        """Return a handle, or fail as for a lost GPU."""
        if uuid in self.lost:
            raise pynvml.NVMLError_GpuIsLost()
        if uuid not in {f"GPU-{index}" for index in range(self.num_gpus)}:
            raise pynvml.NVMLError_NotFound()
        return uuid

    def nvmlDeviceGetUUID(self, handle: str) -> bytes:
        """Return its UUID as old releases do."""
        return handle.encode()

    def nvmlDeviceGetName(self, handle: str) -> str:
        """Return its model."""
        return "NVIDIA A100"

    def nvmlDeviceGetMemoryInfo(self, handle: str) -> SimpleNamespace:
        """Return its memory."""
        return SimpleNamespace(total=40 << 30, used=10 << 30)

    def nvmlDeviceGetUtilizationRates(self, handle: str) -> SimpleNamespace:
        """Return its load, or fail as under MIG."""
        if handle in self.silent:
            raise pynvml.NVMLError_NotSupported()
        return SimpleNamespace(gpu=87)

    def nvmlDeviceGetTemperature(self, handle: str, kind: int) -> int:
        """Return its temperature."""
        return 97 if handle in self.hot else 61
