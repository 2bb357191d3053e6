"""Routes of the admin page."""

from django.urls import path

from frontend.pages.admin import audit, costs, kept, restore, shadow, users, views, walls

urlpatterns = [
    path("admin", views.admin, name="admin"),
    path("admin/shadow", shadow.shadow, name="admin-shadow"),
    path("admin/shadow/end", shadow.end, name="admin-shadow-end"),
    path("admin/users", users.users, name="admin-users"),
    path("admin/users/<str:username>", users.user, name="admin-user"),
    path("admin/users/<str:username>/edit", users.user_edit, name="admin-user-edit"),
    path("admin/users/<str:username>/tokens/<int:token_id>/revoke", users.user_token_end, name="admin-token-revoke"),
    path("admin/audit", audit.audit, name="admin-audit"),
    path("admin/audit.<str:kind>", audit.audit_file, name="admin-audit-file"),
    path("admin/kept", kept.kept, name="admin-kept"),
    path("admin/costs", costs.admin_costs, name="admin-costs"),
    path("admin/walls", walls.walls, name="admin-walls"),
    path("admin/walls/<int:link_id>/revoke", walls.wall_revoke, name="admin-wall-revoke"),
    path("admin/restore/<int:event>", restore.restore, name="admin-restore"),
    path("admin/pause", views.pause, name="admin-pause"),
]
