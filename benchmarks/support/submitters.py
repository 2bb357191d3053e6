"""Users who submit: made in the database that the environment names, with a token each; prints the tokens as JSON."""

import json
import sys
from datetime import UTC, datetime, timedelta


def main() -> None:
    """Make as many members of the queue as the command line says."""
    import django

    django.setup()
    from django.contrib.auth.models import User

    from scheduler.models import Membership, Queue
    from scheduler.services.accounts.tokens import token_create

    queue, now, tokens = Queue.objects.get(name=sys.argv[1]), datetime.now(UTC), []
    for number in range(int(sys.argv[2])):
        user = User.objects.create(username=f"submitter-{number}")
        Membership.objects.create(user=user, queue=queue, role="member")
        until = now + timedelta(days=1)
        tokens.append(token_create(actor=user, name="bench", scopes=["jobs:write"], expires_at=until, at=now)[1])
    print(json.dumps(tokens))


if __name__ == "__main__":
    main()
