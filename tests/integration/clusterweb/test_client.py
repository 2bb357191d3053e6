"""What the client below the command does beside one server: it takes its token nowhere else."""

import pytest

from clusterweb.client import Account, Client, CommandError
from tests.support.rows.notices import Receiver


def test_token_is_not_taken_to_where_a_server_sends_on(receiver: Receiver) -> None:
    """Another host would get it with the request: nothing is asked there, and the user reads where to go."""
    receiver.statuses = [302]
    client = Client(Account(url=receiver.url.rpartition("/")[0], token="cw_a"))

    with pytest.raises(CommandError, match=r"sends on to http://127\.0\.0\.1:\d+/hook\?room=7/elsewhere"):
        client.post("jobs")
