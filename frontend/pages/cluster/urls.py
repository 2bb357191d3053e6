"""Routes of the cluster pages."""

from django.urls import path

from frontend.pages.cluster import changes, views

urlpatterns = [
    path("cluster", views.cluster, name="cluster"),
    path("cluster/<str:server_id>", views.server, name="server"),
    path("cluster/<str:server_id>/drain", changes.drain, name="server-drain"),
    path("cluster/<str:server_id>/change", changes.change, name="server-change"),
    path("cluster/<str:server_id>/remove", changes.remove, name="server-remove"),
    path("cluster/<str:server_id>/undrain", changes.undrain, name="server-undrain"),
    path("cluster/<str:server_id>/size", changes.size, name="server-size"),
    path("cluster/<str:server_id>/mix", changes.mix, name="server-mix"),
]
