"""Routes of sign-in, sign-out and the user's own page."""

from django.urls import path

from frontend.pages.signin import oidc, views

urlpatterns = [
    path("sign-in", views.SignIn.as_view(), name="sign-in"),
    path("sign-in/oidc", oidc.begin, name="oidc"),
    path("sign-in/oidc/back", oidc.back, name="oidc-back"),
    path("sign-out", views.SignOut.as_view(), name="sign-out"),
    path("me", views.me, name="me"),
    path("me/password", views.password, name="password"),
    path("me/mails", views.mails, name="mails"),
    path("me/theme", views.theme, name="theme"),
    path("me/tokens/<int:token_id>/revoke", views.token_end, name="token-revoke"),
]
