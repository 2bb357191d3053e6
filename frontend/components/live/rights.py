"""Whether live pages may go on listening, asked for many sockets at once.

Each socket asks again every few seconds. With a thousand of them most of the cost would be the way into a thread and to
the database and back, so that questions which come close together share it; each is still answered by itself.
"""

import asyncio
from collections.abc import Callable
from weakref import WeakKeyDictionary

from channels.db import database_sync_to_async

GATHER_S = 0.25

Question = tuple[str | None, tuple[str, ...]]  # key of the session, and groups
Look = Callable[[str | None, tuple[str, ...]], int | None]
Answer = int | None | Exception


class RightsDesk:
    """Answers the questions of one event loop."""

    def __init__(self, look: Look) -> None:
        """Prepare to answer by ``look``, which returns the user who may listen to all of the groups, or None."""
        self._look = look
        self._waiting: list[tuple[Question, asyncio.Future[Answer]]] = []
        self._answering: set[asyncio.Task[None]] = set()

    async def ask(self, session_key: str | None, groups: tuple[str, ...]) -> int | None:
        """Return the user who may listen to all of the groups, or None. Raises what the look at the database raises."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Answer] = loop.create_future()
        self._waiting.append(((session_key, groups), future))
        if len(self._waiting) == 1:
            task = loop.create_task(self._answer())
            self._answering.add(task)
            task.add_done_callback(self._answering.discard)
        answer = await future
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def _answer(self) -> None:
        await asyncio.sleep(GATHER_S)
        asked, self._waiting = self._waiting, []
        answers = await database_sync_to_async(self._look_for_all)({question for question, _ in asked})
        for question, future in asked:
            if not future.done():  # its socket may have gone
                future.set_result(answers[question])

    def _look_for_all(self, questions: set[Question]) -> dict[Question, Answer]:
        return {question: self._one(*question) for question in questions}

    def _one(self, session_key: str | None, groups: tuple[str, ...]) -> Answer:
        try:
            return self._look(session_key, groups)
        except Exception as error:  # one that cannot be answered is no answer to the others
            return error


_desks: WeakKeyDictionary[asyncio.AbstractEventLoop, RightsDesk] = WeakKeyDictionary()


def desk_of_loop(look: Look) -> RightsDesk:
    """Return the desk of the running event loop."""
    return _desks.setdefault(asyncio.get_running_loop(), RightsDesk(look))
