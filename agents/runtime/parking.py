"""Park a job: move its tensors from device memory to server memory, and wait.

The supervisor decides when. Without torch, or without a GPU, there is nothing to move. What only the inside of
a library holds (the CUDA context, buffers of a communication library) stays on the device.

Source: Xiao et al., "Gandiva", OSDI 2018, suspend-resume: at the end of a mini-batch, where the memory in use is least.
"""

import gc
import sys
import time
from collections.abc import Callable
from typing import Any

from agents.runtime.requests import Request, RequestFile

# Long enough to cost nothing, short beside the second that a round takes to give the devices to another job.
LOOK_EVERY_S = 0.02


class Moved:
    """Tensors whose data lie on the server instead of a device, views and shared data included."""

    def __init__(self) -> None:
        """Move what is on devices now; memory without use is then given back to them."""
        self.num_bytes = 0
        self._tensors: list[tuple[Any, Any, Any]] = []  # tensor, the data of it and its views here, device before
        torch = sys.modules.get("torch")
        if torch is None or not torch.cuda.is_available() or not torch.cuda.is_initialized():
            return
        torch.cuda.synchronize()
        twins: dict[int, Any] = {}
        for tensor in [held for held in gc.get_objects() if isinstance(held, torch.Tensor) and held.is_cuda]:
            storage = tensor.untyped_storage()
            if storage.data_ptr() not in twins:
                twins[storage.data_ptr()] = storage.cpu()
                self.num_bytes += storage.nbytes()
            twin = twins[storage.data_ptr()]
            self._tensors.append((tensor, twin, tensor.device))
            tensor.data = _like(tensor, twin)
        torch.cuda.empty_cache()

    def back(self) -> None:
        """Bring everything to the devices it came from."""
        twins: dict[int, Any] = {}
        for tensor, storage, device in self._tensors:
            if storage.data_ptr() not in twins:
                twins[storage.data_ptr()] = storage.cuda(device.index)
            tensor.data = _like(tensor, twins[storage.data_ptr()])
        self._tensors.clear()


def _like(tensor: Any, storage: Any) -> Any:
    """Return a tensor of the same shape and place within other data."""
    empty = sys.modules["torch"].empty(0, dtype=tensor.dtype, device=storage.device)
    return empty.set_(storage, tensor.storage_offset(), tensor.size(), tensor.stride())


def wait_off_devices(
    requests: RequestFile, *, is_stopped: Callable[[], bool], on_asked_again: Callable[[], None]
) -> Request:
    """Wait, nearly without using the CPU, until the job is asked to go on or to stop.

    Args:
        requests: Where it is asked.
        is_stopped: Whether it was asked to stop in another way.
        on_asked_again: Called when it is asked to leave the devices that it has left: as a rank whose peers were asked
            first, or when it never saw that it might go on.
    """
    while not is_stopped():
        request = requests.poll()
        if request in ("continue", "stop"):
            return request
        if request == "park":
            on_asked_again()
        time.sleep(LOOK_EVERY_S)
    return "stop"
