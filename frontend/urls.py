"""Routes of the pages: one line a page folder."""

from django.urls import include, path

urlpatterns = [
    path("", include("frontend.pages.signin.urls")),
    path("", include("frontend.pages.overview.urls")),
    path("", include("frontend.pages.jobs.urls")),
    path("", include("frontend.pages.secrets.urls")),
    path("", include("frontend.pages.queues.urls")),
    path("", include("frontend.pages.cluster.urls")),
    path("", include("frontend.pages.rounds.urls")),
    path("", include("frontend.pages.whatif.urls")),
    path("", include("frontend.pages.experiments.urls")),
    path("", include("frontend.pages.admin.urls")),
    path("", include("frontend.pages.webhooks.urls")),
    path("", include("frontend.pages.search.urls")),
    path("", include("frontend.pages.wall.urls")),
]
