"""How the ranks of a gang come together, and come together anew when their number changes.

Rank 0 hosts a small store. A rank that is ready announces itself there and waits to be called; the leader calls a group
together when every member of the newest membership is there. The running group never waits for ranks that start, and
ranks that were started for a share that a newer one has replaced are sent home without it noticing.
Source: Hwang et al., "AFS", NSDI 2021, section 5 (CoDDL).
"""

import json
import time
from collections.abc import Callable
from datetime import timedelta

from torch.distributed import PrefixStore, Store, TCPStore  # type: ignore[attr-defined]  # public, not listed

from agents.runtime.gangs.membership import Members, MembershipFile

LOOK_S = 0.02
# How long a rank may stand still, as when its server is cut off, before the others give up.
STILL_S = 1800.0
GO_HOME = 0


class Meeting:
    """One rank's door to the store. Every method raises RuntimeError when the leader is gone.

    Attributes:
        group: Number of the group that was called together last, from 1; 0 before the first.
        members: Its members, by rank.
    """

    def __init__(self, *, address: str, port: int, secret: str, member: str, is_leader: bool) -> None:
        self.group = 0
        self.members = Members(version=-1, ids=())
        self._member = member
        store = TCPStore(address, port, is_master=is_leader, wait_for_workers=False, timeout=timedelta(seconds=STILL_S))
        # Keys begin with the secret: a process that only found the port reads and writes other keys.
        self._store = PrefixStore(secret, store)

    def group_store(self) -> Store:
        """Return where the present group finds each other."""
        return PrefixStore(f"group/{self.group}", self._store)

    def join(self, group: int) -> None:
        """Make a group that was called the present one."""
        version, *ids = json.loads(self._store.get(f"call/{group}"))
        self.group, self.members = group, Members(version=version, ids=tuple(ids))

    def await_call(self, *, version: int, wants_to_stop: Callable[[], bool]) -> bool:
        """Announce this rank, started for ``version``, and join the group it is called to; False: it is to go."""
        number = self._store.add("arrivals", 1)
        self._store.set(f"arrival/{number}", json.dumps([self._member, version]))
        turn = f"turn/{self._member}"
        while not self._store.check([turn]):
            if wants_to_stop():
                return False
            time.sleep(LOOK_S)
        group = int(self._store.get(turn))
        if group != GO_HOME:
            self.join(group)
        return group != GO_HOME

    def call(self, wanted: Members) -> int:
        """Call a group together and return its number; those that train already hear of it at their boundary."""
        group = self.group + 1
        self._store.set(f"call/{group}", json.dumps([wanted.version, *wanted.ids]))
        for member in set(wanted.ids) - {*self.members.ids, self._member}:
            self._store.set(f"turn/{member}", str(group))
        return group

    def send_home(self, member: str) -> None:
        """Tell a rank that waits that it is not needed any more."""
        self._store.set(f"turn/{member}", str(GO_HOME))

    def arrivals(self, *, after: int) -> list[tuple[str, int]]:
        """Return the announced members and their versions, without the first ``after``."""
        count = self._store.add("arrivals", 0)
        found = []
        for number in range(after + 1, count + 1):
            member, version = json.loads(self._store.get(f"arrival/{number}"))
            found.append((str(member), int(version)))
        return found


class Leader:
    """Decides when a group is called together; in rank 0 alone.

    Attributes:
        version: Newest membership that is done with: the group was formed from it, or is the same.
    """

    def __init__(self, meeting: Meeting, file: MembershipFile, *, member: str, debounce_s: float) -> None:
        self.version = -1
        self._meeting, self._file, self._member, self._debounce_s = meeting, file, member, debounce_s
        self._waiting: dict[str, int] = {}  # ranks that are ready, with the version that they were started for
        self._num_arrivals = 0
        self._looked_s = 0.0

    def first(self, *, wants_to_stop: Callable[[], bool]) -> bool:
        """Wait for all members and join the first group; False when asked to stop before that."""
        while not wants_to_stop():
            wanted = self._file.look()
            self._receive(wanted)
            if wanted is not None and self._are_ready(wanted):
                self._meeting.join(self._call(wanted))
                return True
            time.sleep(LOOK_S)
        return False

    def due(self) -> int:
        """Return the number of the group to form at this boundary; 0 for none."""
        wanted, now_s = self._file.look(), time.monotonic()
        if wanted is None or now_s - self._looked_s < LOOK_S:
            return 0
        self._looked_s = now_s
        self._receive(wanted)
        if wanted.version == self.version or now_s - self._file.changed_s < self._debounce_s:
            return 0
        if wanted.ids == self._meeting.members.ids:
            self.version = wanted.version
            return 0
        return self._call(wanted) if self._are_ready(wanted) else 0

    def _call(self, wanted: Members) -> int:
        self.version = wanted.version
        self._waiting = {member: at for member, at in self._waiting.items() if member not in wanted.ids}
        return self._meeting.call(wanted)

    def _are_ready(self, wanted: Members) -> bool:
        here = {self._member, *self._meeting.members.ids, *self._waiting}
        return here.issuperset(wanted.ids)

    def _receive(self, wanted: Members | None) -> None:
        """Note newly announced members, and dismiss those of an older version that are not members any more.

        A rank may be there before the membership that names it: it waits.
        """
        arrived = self._meeting.arrivals(after=self._num_arrivals)
        self._num_arrivals += len(arrived)
        self._waiting |= dict(arrived)
        for member, version in list(self._waiting.items()):
            if wanted is not None and version <= wanted.version and member not in wanted.ids:
                self._meeting.send_home(member)
                del self._waiting[member]
