"""What can go wrong in the command.

CommandError          said to the user in one or a few lines; exit status 2
└── ServerRefused     the server answered with a problem; exit status 1
"""

from collections.abc import Mapping, Sequence
from typing import Any


class CommandError(Exception):
    """Something the user can mend; the text says how."""

    exit_status = 2


class ServerRefused(CommandError):
    """The server said no.

    Attributes:
        status: Of HTTP.
        code: Short stable word of the problem, such as ``not_found``; empty where the answer has none.
        detail: What is wrong, without the fields.
        errors: An entry for each bad field.
        device_kinds: What the cluster's devices are, where the answer says it.
    """

    exit_status = 1

    def __init__(  # the problem is JSON of the answer
        self, status: int, problem: Mapping[str, Any], *, device_kinds: Sequence[str] = ()
    ) -> None:
        said = str(problem.get("detail") or problem.get("title") or f"The server answered {status}.")
        lines = [said]
        for error in problem.get("errors", []):
            if error.get("detail") != said:  # of a query, whose problem is told in the words of its only error
                lines.append(f"  {error.get('pointer') or '/'}: {error.get('detail', '')}")
        if status == 401:
            lines.append("Run clusterweb login again, or set CLUSTERWEB_TOKEN.")
        if status >= 500 and problem.get("request_id"):
            lines.append(f"Request {problem['request_id']}.")
        super().__init__("\n".join(lines))
        self.status = status
        self.device_kinds = device_kinds
        self.code = str(problem.get("type") or "").removeprefix("urn:clusterweb:problem:")
        self.detail = said
        self.errors: list[Mapping[str, str]] = list(problem.get("errors", []))
