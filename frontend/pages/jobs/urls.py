"""Routes of the job pages. A job is named by its number (``J-12``) or its id."""

from django.urls import path

from frontend.pages.jobs.job.keep import job_keep_files
from frontend.pages.jobs.job.priority import job_reprioritise
from frontend.pages.jobs.job.unblock import job_unblock
from frontend.pages.jobs.job.views import SERVICES, job_action, job_log_download, job_page, profile_measure
from frontend.pages.jobs.listing.saved import template_remove, view_keep, view_remove
from frontend.pages.jobs.listing.views import jobs, jobs_act_on
from frontend.pages.jobs.submit.views import job_new
from scheduler.services.jobs.bulk import ACTIONS

urlpatterns = [
    path("jobs", jobs, name="jobs"),
    path("jobs/new", job_new, name="job-new"),
    path("jobs/views", view_keep, name="view-keep"),
    path("jobs/views/<int:view>/remove", view_remove, name="view-remove"),
    path("jobs/templates/<int:template>/remove", template_remove, name="template-remove"),
    *(path(f"jobs/{action}", jobs_act_on, {"action": action}, name=f"jobs-{action}") for action in ACTIONS),
    path("jobs/<str:job>", job_page, name="job"),
    *(path(f"jobs/<str:job>/{action}", job_action, {"action": action}, name=f"job-{action}") for action in SERVICES),
    path("jobs/<str:job>/keep", job_keep_files, name="job-keep"),
    path("jobs/<str:job>/reprioritise", job_reprioritise, name="job-reprioritise"),
    path("jobs/<str:job>/unblock", job_unblock, name="job-unblock"),
    path("jobs/<str:job>/logs/<int:attempt>/download", job_log_download, name="job-log-download"),
    path("jobs/<str:job>/profile/measure", profile_measure, name="job-profile-measure"),
    path("jobs/<str:job>/<slug:tab>", job_page, name="job-tab"),
]
