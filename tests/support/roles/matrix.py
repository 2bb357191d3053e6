"""What each role may do, and what it is answered by REST and by pages: one row for each action.

``tests/integration/api/http/test_rules.py`` asks every route of REST, ``tests/integration/pages/test_roles.py`` every
page; both fail for a route that has no row here.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto

ROLES = ("anonymous", "outsider", "viewer", "member", "lead", "admin")


class Right(Enum):
    """What one role may."""

    SIGN_IN = auto()  # nothing before it has signed in
    HIDDEN = auto()  # the object is not there for it
    REFUSED = auto()  # it sees the object, and may not do this
    DOES = auto()


SIGN_IN, HIDDEN, REFUSED, DOES = Right
Rights = tuple[Right, Right, Right, Right, Right, Right]

# In the order of ROLES. Roles are held in the queue ``vision``; the outsider is a member of another one.
ANY_ROLE: Rights = (DOES, DOES, DOES, DOES, DOES, DOES)
SIGNED_IN: Rights = (SIGN_IN, DOES, DOES, DOES, DOES, DOES)
IN_QUEUE: Rights = (SIGN_IN, HIDDEN, DOES, DOES, DOES, DOES)
MEMBERS: Rights = (SIGN_IN, HIDDEN, REFUSED, DOES, DOES, DOES)  # jobs and templates are the member's
ANY_MEMBER: Rights = (SIGN_IN, DOES, REFUSED, DOES, DOES, DOES)  # of some queue
OWNS: Rights = (SIGN_IN, HIDDEN, REFUSED, DOES, REFUSED, REFUSED)  # the job is the member's
LEADS: Rights = (SIGN_IN, HIDDEN, REFUSED, REFUSED, DOES, DOES)
ADMINS_OF_QUEUE: Rights = (SIGN_IN, HIDDEN, REFUSED, REFUSED, REFUSED, DOES)
ADMINS: Rights = (SIGN_IN, REFUSED, REFUSED, REFUSED, REFUSED, DOES)
ASKERS: Rights = (SIGN_IN, REFUSED, REFUSED, REFUSED, DOES, DOES)  # who may ask what-if questions
OWN_QUESTION: Rights = (SIGN_IN, HIDDEN, HIDDEN, HIDDEN, DOES, DOES)  # the scenario is the lead's
APPLIES: Rights = (SIGN_IN, HIDDEN, HIDDEN, HIDDEN, REFUSED, DOES)
ITS_OWN: Rights = (SIGN_IN, HIDDEN, HIDDEN, HIDDEN, HIDDEN, HIDDEN)  # of a user who is none of the roles

UNAUTHORIZED, TO_SIGN_IN = 401, 302  # how REST and pages send to the sign-in


@dataclass(frozen=True, slots=True)
class Way:
    """One route to an action.

    Attributes:
        name: ``<method>-<name of the route>`` of REST, ``<METHOD> <name of the route>`` of a page; where one page takes
            several forms, a word for the form after it.
        does: The status for those who may.
        refused: The status for those who see the object and may not. 404 is a page that is not there for them, 302 a
            message on the next page, 422 the form again with what is wrong.
        hidden: The status for those who do not see it.
        but: The status of single roles.
    """

    name: str
    does: int = 200
    refused: int = 403
    hidden: int = 404
    but: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Row:
    """An action, what each role may, and the ways to it."""

    action: str
    may: Rights
    rest: Way | None = None
    page: Way | None = None


ROWS = (
    # The frame, and the own account.
    Row("see the overview", SIGNED_IN, Way("get-api-overview"), Way("GET overview")),
    Row("read what needs an admin", ADMINS, Way("get-api-alerts")),
    Row("read when servers are free", SIGNED_IN, Way("get-api-next-free")),
    Row("search", SIGNED_IN, Way("get-api-search"), Way("GET search")),
    Row("see the wall", SIGNED_IN, page=Way("GET wall")),
    Row("send the wall something", ANY_ROLE, page=Way("POST wall", does=405)),
    Row("open the wall by a link", ANY_ROLE, page=Way("GET wall-open", does=302, but={"anonymous": 200})),
    Row("send the code of a link", ANY_ROLE, page=Way("POST wall-open", does=302, but={"anonymous": 422})),
    Row("list links to the wall", ADMINS, page=Way("GET admin-walls", refused=404)),
    Row("make a link to the wall", ADMINS, page=Way("POST admin-walls", does=422, refused=404)),
    Row("revoke a link to the wall", ADMINS, page=Way("POST admin-wall-revoke", does=302, refused=404)),
    Row("see what happened", SIGNED_IN, page=Way("GET events")),
    Row("open the sign-in", ANY_ROLE, page=Way("GET sign-in", does=302, but={"anonymous": 200})),
    Row("sign in", ANY_ROLE, page=Way("POST sign-in", does=302, but={"anonymous": 200})),
    Row("sign out", SIGNED_IN, page=Way("POST sign-out", does=302)),
    Row("sign in elsewhere", SIGNED_IN, page=Way("GET oidc", does=302)),  # no provider is set
    Row("come back from there", SIGNED_IN, page=Way("GET oidc-back", does=302)),
    Row("send to the sign-in elsewhere", ANY_ROLE, page=Way("POST oidc", does=405)),
    Row("send to the way back", ANY_ROLE, page=Way("POST oidc-back", does=405)),
    Row("choose a theme", SIGNED_IN, page=Way("POST theme", does=302)),
    Row("see the own account", SIGNED_IN, Way("get-api-me"), Way("GET me")),
    Row("list own tokens", SIGNED_IN, Way("get-api-tokens")),
    Row("make a token", SIGNED_IN, Way("post-api-tokens", does=201), Way("POST me")),
    Row("revoke an own token", SIGNED_IN, Way("delete-api-token", does=204), Way("POST token-revoke", does=302)),
    Row("list own secrets", SIGNED_IN, Way("get-api-secrets"), Way("GET secrets")),
    Row("keep a secret", SIGNED_IN, Way("put-api-secret"), Way("POST secrets", does=302)),
    Row("delete an own secret", SIGNED_IN, Way("delete-api-secret", does=204), Way("POST secrets delete", does=302)),
    Row("open the form of the password", SIGNED_IN, page=Way("GET password")),
    Row("change the password", SIGNED_IN, page=Way("POST password")),
    Row("choose mails", SIGNED_IN, page=Way("POST mails", does=302)),
    Row("read events", SIGNED_IN, Way("get-api-events")),
    Row("read metrics", ANY_ROLE, Way("get-metrics")),  # the test client calls from this machine
    Row("read the schema of specs", ANY_ROLE, Way("get-api-job-spec-schema")),
    Row("read the schema of REST", ANY_ROLE, Way("get-api-schema")),
    Row("read the documents of REST", ANY_ROLE, Way("get-api-docs")),
    # Jobs.
    Row("list jobs", SIGNED_IN, Way("get-api-jobs"), Way("GET jobs")),
    Row("open the form of a job", SIGNED_IN, page=Way("GET job-new")),
    Row(  # for REST a queue that one may not see is an unknown one
        "submit a job",
        MEMBERS,
        Way("post-api-jobs", does=201, hidden=400),
        Way("POST job-new", does=302, hidden=422, refused=422),
    ),
    Row("offer a folder", ANY_MEMBER, Way("post-api-code")),
    Row("send contents of a folder", ANY_MEMBER, Way("post-api-code-blobs")),
    Row("send a folder as an archive", ANY_MEMBER, Way("post-api-code-archive", does=201)),
    Row("submit many jobs", MEMBERS, Way("post-api-jobs-bulk", does=201, hidden=400)),
    Row("import a script", SIGNED_IN, Way("post-api-job-import")),
    Row("act on many jobs", SIGNED_IN, Way("post-api-job-actions")),  # each job is answered for itself
    Row("cancel many jobs", IN_QUEUE, page=Way("POST jobs-cancel", does=302)),
    Row("suspend many jobs", IN_QUEUE, page=Way("POST jobs-suspend", does=302)),
    Row("resume many jobs", IN_QUEUE, page=Way("POST jobs-resume", does=302)),
    Row("restore many jobs", IN_QUEUE, page=Way("POST jobs-restore", does=302)),
    Row("change the priority of many jobs", IN_QUEUE, page=Way("POST jobs-reprioritise", does=302)),
    Row("keep a view", SIGNED_IN, page=Way("POST view-keep", does=302)),
    Row("remove a view", ITS_OWN, page=Way("POST view-remove")),
    Row("see a job", IN_QUEUE, Way("get-api-job"), Way("GET job")),
    Row("see why a job waits", IN_QUEUE, Way("get-api-job-explain"), Way("GET job-tab")),
    Row("read the events of a job", IN_QUEUE, Way("get-api-job-events")),
    Row("read the attempts of a job", IN_QUEUE, Way("get-api-job-attempts")),
    Row("read the series of a job", IN_QUEUE, Way("get-api-job-series")),
    Row("read where a job runs", IN_QUEUE, Way("get-api-job-placement")),
    Row("read the bad items of a job", IN_QUEUE, Way("get-api-job-bad-items")),
    Row("read the log of a job", IN_QUEUE, Way("get-api-job-logs"), Way("GET job-log-download")),
    Row("follow the log of a job", IN_QUEUE, Way("get-api-job-log-stream")),
    Row("list the files of a job", IN_QUEUE, Way("get-api-job-files")),
    Row("download a file of a job", IN_QUEUE, Way("get-api-job-file")),
    Row("download the files of a job", IN_QUEUE, Way("get-api-job-archive")),
    Row("be asked before a job is cancelled", MEMBERS, page=Way("GET job-cancel", refused=302)),
    Row("cancel a job", MEMBERS, Way("post-api-job-cancel"), Way("POST job-cancel", does=302, refused=302)),
    Row("be asked before a job is suspended", MEMBERS, page=Way("GET job-suspend", refused=302)),
    Row("suspend a job", MEMBERS, Way("post-api-job-suspend"), Way("POST job-suspend", does=302, refused=302)),
    Row("open the address of resuming", MEMBERS, page=Way("GET job-resume", does=302, refused=302)),
    Row("resume a job", MEMBERS, Way("post-api-job-resume"), Way("POST job-resume", does=302, refused=302)),
    Row("open the address of restoring", MEMBERS, page=Way("GET job-restore", does=302, refused=302)),
    Row(  # it was not cancelled
        "restore a job",
        MEMBERS,
        Way("post-api-job-restore", does=409),
        Way("POST job-restore", does=302, refused=302),
    ),
    Row("open the address of removing a directory", MEMBERS, page=Way("GET job-discard", does=302, refused=302)),
    Row(  # it runs
        "remove a job's directory",
        MEMBERS,
        Way("post-api-job-discard", does=409),
        Way("POST job-discard", does=302, refused=302),
    ),
    Row("open the address of keeping a directory", MEMBERS, page=Way("GET job-keep", does=302, refused=302)),
    Row(  # it runs
        "keep a job's directory longer",
        MEMBERS,
        Way("post-api-job-keep", does=409),
        Way("POST job-keep", does=302, refused=302),
    ),
    Row("be asked for a priority", MEMBERS, page=Way("GET job-reprioritise", refused=302)),
    Row(
        "change the priority of a job",
        MEMBERS,
        Way("post-api-job-reprioritise"),
        Way("POST job-reprioritise", does=302, refused=302),
    ),
    # Without a change there is nothing to ask.
    Row("be asked before a job is unblocked", MEMBERS, page=Way("GET job-unblock", does=302, refused=302)),
    Row("unblock a job", MEMBERS, Way("post-api-job-unblock"), Way("POST job-unblock", does=302, refused=302)),
    Row("make a template", MEMBERS, Way("post-api-templates", does=201)),
    Row("list templates", SIGNED_IN, Way("get-api-templates")),
    Row("be asked before a template is removed", IN_QUEUE, page=Way("GET template-remove")),
    Row(
        "remove a template",
        MEMBERS,
        Way("delete-api-template", does=204),
        Way("POST template-remove", does=302, refused=302),
    ),
    Row("list profiles", SIGNED_IN, Way("get-api-profiles")),
    Row("see a profile", IN_QUEUE, Way("get-api-profile")),
    Row(  # on the page of a job, which the outsider does not see
        "measure a profile",
        ADMINS,
        Way("post-api-profile-measure"),
        Way("POST job-profile-measure", does=302, refused=302, but={"outsider": 404}),
    ),
    # Queues.
    Row("list queues", SIGNED_IN, Way("get-api-queues"), Way("GET queues")),
    Row(  # on the page nothing was entered
        "make a queue", ADMINS, Way("post-api-queues", does=201), Way("POST queues", does=422)
    ),
    Row("see a queue", IN_QUEUE, Way("get-api-queue"), Way("GET queue")),
    Row(  # the lead leads this queue, not the one above it
        "change a quota", ADMINS_OF_QUEUE, Way("patch-api-queue"), Way("POST queue quota", does=302)
    ),
    Row("preview a quota", LEADS, Way("post-api-queue-forecast"), Way("POST queue preview")),
    Row("list requests for quota", SIGNED_IN, Way("get-api-quota-requests")),
    Row("see a request for quota", IN_QUEUE, Way("get-api-quota-request")),
    Row("ask for quota", MEMBERS, Way("post-api-quota-requests", does=201), Way("POST queue ask", does=302)),
    Row(
        "grant a request for quota",
        ADMINS_OF_QUEUE,
        Way("post-api-quota-request-grant"),
        Way("POST queue quota grant", does=302),
    ),
    Row(
        "refuse a request for quota",
        ADMINS_OF_QUEUE,
        Way("post-api-quota-request-refuse"),
        Way("POST queue refuse", does=302),
    ),
    Row(  # it is the member's
        "change a request for quota",
        OWNS,
        Way("post-api-quota-request-change", does=201),
        Way("POST queue change", does=302),
    ),
    Row(  # it is the member's
        "withdraw a request for quota",
        OWNS,
        Way("post-api-quota-request-withdraw"),
        Way("POST queue withdraw", does=302),
    ),
    Row("set limits", LEADS, Way("patch-api-queue-limits"), Way("POST queue limits", does=302)),
    Row("set what idle jobs meet", LEADS, Way("patch-api-queue-idle"), Way("POST queue idle", does=302)),
    Row("demand isolation", LEADS, Way("patch-api-queue-isolation"), Way("POST queue isolation", does=302)),
    Row("say how long files are kept", LEADS, Way("patch-api-queue-files"), Way("POST queue files", does=302)),
    Row("read the use of a queue", IN_QUEUE, Way("get-api-queue-usage")),
    Row("read the loans of a queue", IN_QUEUE, Way("get-api-queue-loans")),
    Row("read what took GPUs from a queue", IN_QUEUE, Way("get-api-queue-preemptions")),
    Row("list members", IN_QUEUE, Way("get-api-members")),
    Row("give a role", LEADS, Way("put-api-member"), Way("POST queue member", does=302)),
    Row("take a role", LEADS, Way("delete-api-member", does=204), Way("POST queue remove", does=302, refused=302)),
    Row("list the secrets of a queue", MEMBERS, Way("get-api-queue-secrets"), Way("GET queue-secrets")),
    Row("keep a secret of a queue", LEADS, Way("put-api-queue-secret"), Way("POST queue-secrets", does=302)),
    Row(
        "delete a secret of a queue",
        LEADS,
        Way("delete-api-queue-secret", does=204),
        Way("POST queue-secrets delete", does=302),
    ),
    Row("read GPU hours", SIGNED_IN, Way("get-api-gpu-hours")),
    # Servers and rounds.
    Row("list servers", SIGNED_IN, Way("get-api-servers"), Way("GET cluster")),
    Row("see a server", SIGNED_IN, Way("get-api-server"), Way("GET server")),
    Row("be asked before a server is drained", ADMINS, page=Way("GET server-drain")),
    Row("drain a server", ADMINS, Way("post-api-server-drain"), Way("POST server-drain", does=302)),
    Row("rename a server", ADMINS, Way("put-api-server"), Way("POST server-change", does=302)),
    Row("remove a server", ADMINS, Way("post-api-server-remove", does=409), Way("POST server-remove", does=302)),
    Row("be asked before a server is undrained", ADMINS, page=Way("GET server-undrain")),
    Row("undrain a server", ADMINS, Way("post-api-server-undrain"), Way("POST server-undrain", does=302)),
    Row("confirm a server's size", ADMINS, Way("post-api-server-size"), Way("POST server-size", does=302)),
    Row("let queues mix on a server", ADMINS, Way("post-api-server-mix"), Way("POST server-mix", does=302)),
    Row("list rounds", SIGNED_IN, Way("get-api-rounds"), Way("GET rounds")),
    Row("see a round", SIGNED_IN, Way("get-api-round"), Way("GET round")),
    Row("list policies", SIGNED_IN, Way("get-api-policies")),
    # Arrays and experiments.
    Row("list arrays", SIGNED_IN, Way("get-api-arrays")),
    Row("see an array", IN_QUEUE, Way("get-api-array"), Way("GET array")),
    Row("cancel an array", MEMBERS, Way("post-api-array-cancel"), Way("POST array cancel", does=302)),
    Row("retry an array", OWNS, Way("post-api-array-retry", does=409), Way("POST array retry", does=302)),
    Row("list experiments", SIGNED_IN, Way("get-api-experiments"), Way("GET experiments")),
    Row("open the form of an experiment", ANY_MEMBER, page=Way("GET experiment-new", refused=404)),
    Row(
        "submit an experiment",
        MEMBERS,
        Way("post-api-experiments", does=201, hidden=400),
        Way("POST experiment-new", does=302, hidden=422, refused=404),
    ),
    Row("see an experiment", IN_QUEUE, Way("get-api-experiment"), Way("GET experiment")),
    Row("cancel an experiment", MEMBERS, Way("post-api-experiment-cancel"), Way("POST experiment", does=302)),
    # What-if questions; other roles get 404 for their pages.
    Row("list questions", ASKERS, Way("get-api-scenarios"), Way("GET what-if", refused=404)),
    Row("open the form of a question", ASKERS, page=Way("GET what-if-new", refused=404)),
    Row("ask a question", ASKERS, Way("post-api-scenarios", does=202), Way("POST what-if-new", refused=404)),
    Row("see a question", OWN_QUESTION, Way("get-api-scenario"), Way("GET what-if-scenario")),
    Row("cancel a question", OWN_QUESTION, Way("post-api-scenario-cancel"), Way("POST what-if-scenario", does=302)),
    Row("remove a question", OWN_QUESTION, Way("delete-api-scenario", does=204)),
    Row("read a run of a question", OWN_QUESTION, Way("get-api-scenario-run")),
    Row("see what applying an answer would do", APPLIES, page=Way("GET what-if-apply", does=302)),
    Row("apply an answer", APPLIES, page=Way("POST what-if-apply", does=302)),
    Row("list trace files", ASKERS, Way("get-api-trace-files")),
    Row(
        "upload a trace file",
        ASKERS,
        Way("post-api-trace-files", does=201),
        Way("POST what-if-traces", does=302, refused=404),
    ),
    Row("remove a trace file", OWN_QUESTION, Way("delete-api-trace-file", does=204)),
    # Webhooks: of vision, for its lead alone. Nothing was entered on the page.
    Row("list webhooks", SIGNED_IN, Way("get-api-webhooks")),
    Row("open the page of webhooks", OWN_QUESTION, page=Way("GET webhooks")),
    Row(
        "make a webhook",
        LEADS,
        Way("post-api-webhooks", does=201, hidden=400),
        Way("POST webhooks", does=422, refused=404),
    ),
    Row("see a webhook", OWN_QUESTION, Way("get-api-webhook"), Way("GET webhook")),
    Row("revoke a webhook", OWN_QUESTION, Way("delete-api-webhook", does=204), Way("POST webhook-revoke", does=302)),
    Row("try a webhook", OWN_QUESTION, Way("post-api-webhook-test", does=202), Way("POST webhook-test", does=302)),
    Row("renew the secret of a webhook", OWN_QUESTION, Way("post-api-webhook-secret"), Way("POST webhook-secret")),
    Row("list deliveries of a webhook", OWN_QUESTION, Way("get-api-webhook-deliveries")),
    # Administration; other roles get 404 for its pages. Some are sent without what they need.
    Row("read settings", SIGNED_IN, Way("get-api-settings")),
    Row("open the settings", ADMINS, page=Way("GET admin", refused=404)),
    Row("change settings", ADMINS, Way("patch-api-settings"), Way("POST admin", does=422, refused=404)),
    Row("see what restoring settings would do", ADMINS, page=Way("GET admin-restore", refused=404)),
    Row("restore settings", ADMINS, page=Way("POST admin-restore", does=422, refused=404)),
    Row("pause the scheduler", ADMINS, page=Way("POST admin-pause", does=302, refused=404)),
    Row("read costs", SIGNED_IN, Way("get-api-costs")),
    Row("read prices", SIGNED_IN, Way("get-api-prices")),
    Row("see costs of all queues", ADMINS, page=Way("GET admin-costs", refused=404)),
    Row("set prices", ADMINS, Way("put-api-prices"), Way("POST admin-costs", does=302, refused=404)),
    Row(
        "set a budget",
        ADMINS_OF_QUEUE,
        Way("put-api-queue-budget", hidden=403),
        Way("POST admin-costs budget", does=302, refused=404),
    ),
    Row("see the shadow", ADMINS, Way("get-api-shadow"), Way("GET admin-shadow", refused=404)),
    Row("set the shadow", ADMINS, Way("patch-api-shadow"), Way("POST admin-shadow", does=422, refused=404)),
    Row(
        "end the shadow",
        ADMINS,
        Way("delete-api-shadow", does=204),
        Way("POST admin-shadow-end", does=302, refused=404),
    ),
    Row("list rounds of the shadow", ADMINS, Way("get-api-shadow-rounds")),
    Row("read the audit list", ADMINS, Way("get-api-audit"), Way("GET admin-audit", refused=404)),
    Row("take the audit list as a file", ADMINS, page=Way("GET admin-audit-file", refused=404)),
    Row("see what is kept", ADMINS, page=Way("GET admin-kept", refused=404)),
    Row("list users", ADMINS, Way("get-api-users"), Way("GET admin-users", refused=404)),
    Row("make a user", ADMINS, Way("post-api-users", does=201), Way("POST admin-users", does=422, refused=404)),
    Row("see a user", ADMINS, Way("get-api-user"), Way("GET admin-user", refused=404)),
    Row("change a user", ADMINS, Way("patch-api-user"), Way("POST admin-user-edit", does=302, refused=404)),
    Row("list tokens of a user", ADMINS, Way("get-api-user-tokens")),
    Row(
        "revoke a token of a user",
        ADMINS,
        Way("delete-api-user-token", does=204),
        Way("POST admin-token-revoke", does=302, refused=404),
    ),
)
# Pages that take one method alone, with the method that they do not take: 405.
ONLY_READ = (
    *(
        "overview",
        "events",
        "search",
        "jobs",
        "job",
        "job-tab",
        "job-log-download",
        "cluster",
        "server",
        "rounds",
        "round",
        "what-if",
    ),
    *("experiments", "webhook", "admin-user", "admin-audit", "admin-audit-file", "admin-kept"),
)
ONLY_SENT = (
    *("sign-out", "theme", "token-revoke", "jobs-cancel", "jobs-suspend", "jobs-resume", "jobs-restore"),
    *("jobs-reprioritise", "view-keep", "view-remove", "job-profile-measure", "server-mix"),
    *(
        "server-change",
        "server-remove",
        "server-size",
        "what-if-traces",
        "mails",
        "webhook-test",
        "webhook-secret",
        "webhook-revoke",
    ),
    *("admin-shadow-end", "admin-wall-revoke"),
    *("admin-user-edit", "admin-token-revoke", "admin-pause"),
)
NOT_TAKEN = 405

# The statuses of one route, in the order of ROLES.
Answers = tuple[int, ...]


def _answers(may: Rights, way: Way, *, sign_in: int) -> Answers:
    status = {SIGN_IN: sign_in, HIDDEN: way.hidden, REFUSED: way.refused, DOES: way.does}
    return tuple(way.but.get(role, status[right]) for role, right in zip(ROLES, may, strict=True))


def _once(found: Iterable[tuple[str, Answers]]) -> dict[str, Answers]:
    pairs = list(found)
    table = dict(pairs)
    assert len(table) == len(pairs), "a route stands in two rows"
    return table


REST = _once((row.rest.name, _answers(row.may, row.rest, sign_in=UNAUTHORIZED)) for row in ROWS if row.rest)
PAGES = _once(
    [
        *((row.page.name, _answers(row.may, row.page, sign_in=TO_SIGN_IN)) for row in ROWS if row.page),
        *((f"POST {name}", _answers(SIGNED_IN, Way(name, does=NOT_TAKEN), sign_in=TO_SIGN_IN)) for name in ONLY_READ),
        *((f"GET {name}", _answers(SIGNED_IN, Way(name, does=NOT_TAKEN), sign_in=TO_SIGN_IN)) for name in ONLY_SENT),
    ]
)
