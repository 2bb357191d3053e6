"""The environments of an agent that builds nothing: a build ends as the test says."""

from collections.abc import Iterable
from dataclasses import replace

from agents.protocol.environments import EnvironmentReport, EnvironmentWanted


class FakeEnvironments:
    """What the agent of one server has and builds.

    Attributes:
        kept: By digest.
        started: A digest for each build that was started, in order.
    """

    def __init__(self) -> None:
        self.kept: dict[str, EnvironmentReport] = {}
        self.started: list[str] = []

    def align(self, wanted: Iterable[EnvironmentWanted]) -> None:
        """Act on the desired state as the real one does."""
        named = {one.digest: one for one in wanted}
        self.kept = {
            digest: replace(report, ask=0) if digest not in named else report
            for digest, report in self.kept.items()
            if digest in named or report.state == "ready"
        }
        for digest, one in named.items():
            has = self.kept.get(digest)
            if has is not None and (has.state != "failed" or has.ask == one.ask):
                self.kept[digest] = replace(has, ask=one.ask)
            elif one.packed:
                assert one.files
                self.started.append(digest)
                self.kept[digest] = EnvironmentReport(
                    digest=digest, ask=one.ask, state="building", done=1, total=3, tail="installing"
                )

    def finish(self) -> None:
        """Let all builds end well."""
        for digest, report in self.kept.items():
            if report.state == "building":
                self.kept[digest] = replace(report, state="ready", done=3, num_bytes=4096, build_s=71.0, tail="")

    def fail(self, sentence: str, *, is_passing: bool = False) -> None:
        """Let all builds end with what uv says, or with a fault that may pass."""
        for digest, report in self.kept.items():
            if report.state == "building":
                self.kept[digest] = replace(report, state="failed", detail=sentence, is_passing=is_passing)
