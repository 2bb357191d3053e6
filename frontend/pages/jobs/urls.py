"""Routes of the job pages. A job is named by its number (``J-12``) or its id."""

from django.urls import path

from frontend.pages.jobs.job import SERVICES, job_action, job_log_download, job_page, profile_measure
from frontend.pages.jobs.listing import jobs, jobs_cancel
from frontend.pages.jobs.submit import job_new

urlpatterns = [
    path("jobs", jobs, name="jobs"),
    path("jobs/new", job_new, name="job-new"),
    path("jobs/cancel", jobs_cancel, name="jobs-cancel"),
    path("jobs/<str:job>", job_page, name="job"),
    *(path(f"jobs/<str:job>/{action}", job_action, {"action": action}, name=f"job-{action}") for action in SERVICES),
    path("jobs/<str:job>/logs/<int:attempt>/download", job_log_download, name="job-log-download"),
    path("jobs/<str:job>/profile/measure", profile_measure, name="job-profile-measure"),
    path("jobs/<str:job>/<slug:tab>", job_page, name="job-tab"),
]
