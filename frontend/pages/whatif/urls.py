"""Routes of the what-if pages."""

from django.urls import path

from frontend.pages.whatif import views
from frontend.pages.whatif.apply import apply
from frontend.pages.whatif.traces import traces

urlpatterns = [
    path("whatif", views.scenarios, name="what-if"),
    path("whatif/new", views.new, name="what-if-new"),
    path("whatif/traces", traces, name="what-if-traces"),
    path("whatif/<str:scenario>", views.scenario_page, name="what-if-scenario"),
    path("whatif/<str:scenario>/apply", apply, name="what-if-apply"),
]
