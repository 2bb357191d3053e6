"""Errors of a training script in its use of the runtime. Disk errors are never raised, only logged and reported.

RuntimeMisuse
├── BadEnvironment   a CLUSTERWEB_ variable holds no usable value
├── StateUnsavable   the state for a checkpoint holds something that could not be loaded again
├── StateMismatch    a checkpoint does not fit the objects that it is to be restored into
├── EverythingBad    a dataset has no item left that can be read
└── MainProcessTaken  another process has opened the cache as this owner already
"""


class RuntimeMisuse(Exception):
    """A mistake in the script or in how it was started."""


class BadEnvironment(RuntimeMisuse):
    """A CLUSTERWEB_ variable holds no usable value."""


class StateUnsavable(RuntimeMisuse):
    """The state for a checkpoint holds something that could not be loaded again."""


class StateMismatch(RuntimeMisuse):
    """A checkpoint does not fit the objects that it is to be restored into."""


class EverythingBad(RuntimeMisuse):
    """A dataset has no item left that can be read."""


class MainProcessTaken(RuntimeMisuse):
    """Another process has opened the cache as this owner already."""
