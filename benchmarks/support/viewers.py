"""Users who have signed in: made in the database that the environment names; prints the keys of their sessions."""

import json
import sys


def main() -> None:
    """Make as many members of a queue as the command line says."""
    import django

    django.setup()
    from django.contrib.auth.models import User
    from django.test import Client

    from scheduler.models import Membership, Queue

    queue, keys = Queue.objects.get(name="vision"), []
    for number in range(int(sys.argv[1])):
        user = User.objects.create(username=f"viewer-{number}")
        Membership.objects.create(user=user, queue=queue, role="member")
        browser = Client()
        browser.force_login(user)
        keys.append(browser.cookies["sessionid"].value)
    print(json.dumps(keys))


if __name__ == "__main__":
    main()
