"""Routes of sign-in, sign-out and the reader's own page."""

from django.urls import path

from frontend.pages.signin import views

urlpatterns = [
    path("sign-in", views.SignIn.as_view(), name="sign-in"),
    path("sign-out", views.SignOut.as_view(), name="sign-out"),
    path("me", views.me, name="me"),
    path("me/theme", views.theme, name="theme"),
    path("me/tokens/<int:token_id>/revoke", views.token_end, name="token-revoke"),
]
