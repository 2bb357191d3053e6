"""Routes of the REST API. Everything else below it is answered by a problem, never by a page."""

from django.urls import path, re_path

from scheduler.api import (
    job_history,
    job_logs,
    jobs,
    overview,
    queues,
    rounds,
    schemas,
    servers,
    settings,
    tokens,
)
from scheduler.api.not_found import not_found

urlpatterns = [
    path("jobs", jobs.Jobs.as_view(), name="api-jobs"),
    path("jobs/<str:job>", jobs.JobDetail.as_view(), name="api-job"),
    path("jobs/<str:job>/cancel", jobs.JobCancel.as_view(), name="api-job-cancel"),
    path("jobs/<str:job>/suspend", jobs.JobSuspend.as_view(), name="api-job-suspend"),
    path("jobs/<str:job>/resume", jobs.JobResume.as_view(), name="api-job-resume"),
    path("jobs/<str:job>/events", job_history.JobEvents.as_view(), name="api-job-events"),
    path("jobs/<str:job>/attempts", job_history.JobAttempts.as_view(), name="api-job-attempts"),
    path("jobs/<str:job>/explain", job_history.JobExplain.as_view(), name="api-job-explain"),
    path("jobs/<str:job>/series", job_history.JobSeries.as_view(), name="api-job-series"),
    path("jobs/<str:job>/placement", job_history.JobPlacement.as_view(), name="api-job-placement"),
    path("jobs/<str:job>/logs", job_logs.JobLogs.as_view(), name="api-job-logs"),
    path("jobs/<str:job>/logs/stream", job_logs.JobLogStream.as_view(), name="api-job-log-stream"),
    path("queues", queues.Queues.as_view(), name="api-queues"),
    # Names of queues hold slashes, so what ends in a word of ours comes first.
    path("queues/<path:name>/members", queues.Members.as_view(), name="api-members"),
    path("queues/<path:name>/members/<str:username>", queues.Member.as_view(), name="api-member"),
    path("queues/<path:name>", queues.QueueDetail.as_view(), name="api-queue"),
    path("servers", servers.Servers.as_view(), name="api-servers"),
    path("servers/<str:server>", servers.ServerDetail.as_view(), name="api-server"),
    path("servers/<str:server>/drain", servers.ServerDrain.as_view(), name="api-server-drain"),
    path("servers/<str:server>/undrain", servers.ServerUndrain.as_view(), name="api-server-undrain"),
    path("rounds", rounds.Rounds.as_view(), name="api-rounds"),
    path("rounds/<int:number>", rounds.RoundDetail.as_view(), name="api-round"),
    path("policies", settings.Policies.as_view(), name="api-policies"),
    path("settings", settings.Settings.as_view(), name="api-settings"),
    path("tokens", tokens.Tokens.as_view(), name="api-tokens"),
    path("tokens/<int:token>", tokens.TokenDetail.as_view(), name="api-token"),
    path("overview", overview.Overview.as_view(), name="api-overview"),
    path("events", overview.Events.as_view(), name="api-events"),
    path("me", overview.Me.as_view(), name="api-me"),
    path("schemas/job", schemas.JobSpecSchema.as_view(), name="api-job-spec-schema"),
    path("schema/", schemas.OpenApiDocument.as_view(), name="api-schema"),
    path("docs/", schemas.DocsPage.as_view(), name="api-docs"),
    re_path(r"^(?P<path>.*)$", not_found, name="api-no-such-path"),
]
