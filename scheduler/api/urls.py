"""Routes of the REST API; any other path below it gets a 404 problem, never an HTML page."""

from django.urls import path, re_path

from scheduler.api.admin import audit, secrets, settings, shadow, tokens, users, webhooks
from scheduler.api.cluster import gpu_hours, overview, rounds, search, servers
from scheduler.api.code import views as code
from scheduler.api.jobs import actions as job_actions
from scheduler.api.jobs import arrays, experiments, profiles, schemas, templates
from scheduler.api.jobs import history as job_history
from scheduler.api.jobs import logs as job_logs
from scheduler.api.jobs import spec_import as job_import
from scheduler.api.jobs import views as jobs
from scheduler.api.jobs.files import views as job_files
from scheduler.api.not_found import not_found
from scheduler.api.queues import usage
from scheduler.api.queues import views as queues
from scheduler.api.whatif import files as whatif_files
from scheduler.api.whatif import views as whatif

urlpatterns = [
    path("jobs", jobs.Jobs.as_view(), name="api-jobs"),
    path("jobs/actions", job_actions.JobActions.as_view(), name="api-job-actions"),
    path("jobs/bulk", job_actions.JobsBulk.as_view(), name="api-jobs-bulk"),
    path("jobs/import", job_import.JobImport.as_view(), name="api-job-import"),
    path("jobs/<str:job>", jobs.JobDetail.as_view(), name="api-job"),
    path("jobs/<str:job>/cancel", jobs.JobCancel.as_view(), name="api-job-cancel"),
    path("jobs/<str:job>/suspend", jobs.JobSuspend.as_view(), name="api-job-suspend"),
    path("jobs/<str:job>/resume", jobs.JobResume.as_view(), name="api-job-resume"),
    path("jobs/<str:job>/restore", jobs.JobRestore.as_view(), name="api-job-restore"),
    path("jobs/<str:job>/discard", jobs.JobDiscard.as_view(), name="api-job-discard"),
    path("jobs/<str:job>/reprioritise", jobs.JobReprioritise.as_view(), name="api-job-reprioritise"),
    path("jobs/<str:job>/unblock", jobs.JobUnblock.as_view(), name="api-job-unblock"),
    path("jobs/<str:job>/events", job_history.JobEvents.as_view(), name="api-job-events"),
    path("jobs/<str:job>/attempts", job_history.JobAttempts.as_view(), name="api-job-attempts"),
    path("jobs/<str:job>/explain", job_history.JobExplain.as_view(), name="api-job-explain"),
    path("jobs/<str:job>/series", job_history.JobSeries.as_view(), name="api-job-series"),
    path("jobs/<str:job>/placement", job_history.JobPlacement.as_view(), name="api-job-placement"),
    path("jobs/<str:job>/bad-items", job_history.JobBadItems.as_view(), name="api-job-bad-items"),
    path("jobs/<str:job>/logs", job_logs.JobLogs.as_view(), name="api-job-logs"),
    path("jobs/<str:job>/logs/stream", job_logs.JobLogStream.as_view(), name="api-job-log-stream"),
    path("jobs/<str:job>/files", job_files.JobFileList.as_view(), name="api-job-files"),
    path("jobs/<str:job>/files/<path:path>", job_files.JobFileContent.as_view(), name="api-job-file"),
    path("jobs/<str:job>/archive", job_files.JobArchive.as_view(), name="api-job-archive"),
    path("code", code.CodeFolders.as_view(), name="api-code"),
    path("code/archive", code.CodeArchive.as_view(), name="api-code-archive"),
    path("code/<str:manifest>/blobs", code.CodeBlobs.as_view(), name="api-code-blobs"),
    path("queues", queues.Queues.as_view(), name="api-queues"),
    # Names of queues hold slashes, so routes with a fixed last word come first.
    path("queues/<path:name>/members", queues.Members.as_view(), name="api-members"),
    path("queues/<path:name>/members/<str:username>", queues.Member.as_view(), name="api-member"),
    path("queues/<path:name>/secrets", secrets.QueueSecrets.as_view(), name="api-queue-secrets"),
    path("queues/<path:name>/secrets/<str:secret>", secrets.QueueSecret.as_view(), name="api-queue-secret"),
    path("queues/<path:name>/usage", usage.Usage.as_view(), name="api-queue-usage"),
    path("queues/<path:name>/loans", usage.Loans.as_view(), name="api-queue-loans"),
    path("queues/<path:name>/preemptions", usage.Preemptions.as_view(), name="api-queue-preemptions"),
    path("queues/<path:name>/limits", queues.UserLimits.as_view(), name="api-queue-limits"),
    path("queues/<path:name>/idle", queues.IdleJobs.as_view(), name="api-queue-idle"),
    path("queues/<path:name>/isolation", queues.Isolation.as_view(), name="api-queue-isolation"),
    path("queues/<path:name>/files", queues.KeptFiles.as_view(), name="api-queue-files"),
    path("queues/<path:name>/forecast", queues.QuotaForecast.as_view(), name="api-queue-forecast"),
    path("queues/<path:name>", queues.QueueDetail.as_view(), name="api-queue"),
    path("servers", servers.Servers.as_view(), name="api-servers"),
    path("servers/<str:server>", servers.ServerDetail.as_view(), name="api-server"),
    path("servers/<str:server>/drain", servers.ServerDrain.as_view(), name="api-server-drain"),
    path("servers/<str:server>/mix", servers.ServerMix.as_view(), name="api-server-mix"),
    path("servers/<str:server>/undrain", servers.ServerUndrain.as_view(), name="api-server-undrain"),
    path("servers/<str:server>/size", servers.ServerSize.as_view(), name="api-server-size"),
    path("profiles", profiles.Profiles.as_view(), name="api-profiles"),
    path("profiles/<str:fingerprint>", profiles.ProfileDetail.as_view(), name="api-profile"),
    path("profiles/<str:fingerprint>/measure", profiles.ProfileMeasure.as_view(), name="api-profile-measure"),
    path("arrays/<str:array>", arrays.ArrayRead.as_view(), name="api-array"),
    path("arrays/<str:array>/cancel", arrays.ArrayCancel.as_view(), name="api-array-cancel"),
    path("arrays/<str:array>/retry", arrays.ArrayRetry.as_view(), name="api-array-retry"),
    path("experiments", experiments.Experiments.as_view(), name="api-experiments"),
    path("experiments/<str:experiment>", experiments.ExperimentRead.as_view(), name="api-experiment"),
    path("experiments/<str:experiment>/cancel", experiments.ExperimentCancel.as_view(), name="api-experiment-cancel"),
    path("templates", templates.Templates.as_view(), name="api-templates"),
    path("templates/<int:template>", templates.TemplateDetail.as_view(), name="api-template"),
    path("rounds", rounds.Rounds.as_view(), name="api-rounds"),
    path("rounds/<int:number>", rounds.RoundDetail.as_view(), name="api-round"),
    path("policies", settings.Policies.as_view(), name="api-policies"),
    path("settings", settings.Settings.as_view(), name="api-settings"),
    path("tokens", tokens.Tokens.as_view(), name="api-tokens"),
    path("tokens/<int:token>", tokens.TokenDetail.as_view(), name="api-token"),
    path("secrets", secrets.Secrets.as_view(), name="api-secrets"),
    path("secrets/<str:secret>", secrets.SecretDetail.as_view(), name="api-secret"),
    path("gpu-hours", gpu_hours.GpuHours.as_view(), name="api-gpu-hours"),
    path("shadow", shadow.ShadowPolicy.as_view(), name="api-shadow"),
    path("shadow/rounds", shadow.ShadowRounds.as_view(), name="api-shadow-rounds"),
    path("audit", audit.Audit.as_view(), name="api-audit"),
    path("users", users.Users.as_view(), name="api-users"),
    path("users/<str:username>", users.UserDetail.as_view(), name="api-user"),
    path("users/<str:username>/tokens", users.UserTokens.as_view(), name="api-user-tokens"),
    path("users/<str:username>/tokens/<int:token>", users.UserToken.as_view(), name="api-user-token"),
    path("webhooks", webhooks.Webhooks.as_view(), name="api-webhooks"),
    path("webhooks/<int:webhook>", webhooks.WebhookDetail.as_view(), name="api-webhook"),
    path("webhooks/<int:webhook>/test", webhooks.WebhookTest.as_view(), name="api-webhook-test"),
    path("webhooks/<int:webhook>/secret", webhooks.WebhookSecret.as_view(), name="api-webhook-secret"),
    path("webhooks/<int:webhook>/deliveries", webhooks.WebhookDeliveries.as_view(), name="api-webhook-deliveries"),
    path("whatif", whatif.Scenarios.as_view(), name="api-scenarios"),
    path("whatif/traces", whatif_files.TraceFiles.as_view(), name="api-trace-files"),
    path("whatif/traces/<str:file>", whatif_files.TraceFileDetail.as_view(), name="api-trace-file"),
    path("whatif/<str:scenario>", whatif.ScenarioDetail.as_view(), name="api-scenario"),
    path("whatif/<str:scenario>/cancel", whatif.ScenarioCancel.as_view(), name="api-scenario-cancel"),
    path("whatif/<str:scenario>/runs/<int:variant>/<int:seed>", whatif.ScenarioRun.as_view(), name="api-scenario-run"),
    path("overview", overview.Overview.as_view(), name="api-overview"),
    path("search", search.Search.as_view(), name="api-search"),
    path("alerts", overview.Alerts.as_view(), name="api-alerts"),
    path("next-free", overview.NextFree.as_view(), name="api-next-free"),
    path("events", overview.Events.as_view(), name="api-events"),
    path("me", overview.Me.as_view(), name="api-me"),
    path("schemas/job", schemas.JobSpecSchema.as_view(), name="api-job-spec-schema"),
    path("schema/", schemas.OpenApiDocument.as_view(), name="api-schema"),
    path("docs/", schemas.DocsPage.as_view(), name="api-docs"),
    re_path(r"^(?P<path>[\s\S]*)$", not_found, name="api-no-such-path"),
]
