"""Everything the agent raises on purpose.

AgentError
├── ProtocolError    a message that must not be acted on
│   ├── Malformed    not our JSON, or a value out of range
│   ├── Forged       the MAC does not fit
│   ├── Misdirected  for another server or another protocol
│   └── Expired      older than its ``expires_at``
├── ConfigInvalid    the agent's configuration file cannot be used
└── AlreadyRunning   another agent works on the same state directory
"""


class AgentError(Exception):
    """Root of the tree."""


class ProtocolError(AgentError):
    """A message that must not be acted on."""


class Malformed(ProtocolError):
    """It is not a message of ours."""


class Forged(ProtocolError):
    """Its MAC does not fit its content."""


class Misdirected(ProtocolError):
    """It is meant for another server or speaks another protocol."""


class Expired(ProtocolError):
    """It is too old."""


class ConfigInvalid(AgentError):
    """The configuration file of the agent cannot be used; the message names the file and the key."""


class AlreadyRunning(AgentError):
    """Another agent holds the lock of this state directory."""
