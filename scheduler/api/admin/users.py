"""``/users``: users who may sign in, with their roles and tokens. For admins."""

from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.exceptions import NotFound
from rest_framework.request import Request
from rest_framework.response import Response

from scheduler.api.admin.tokens import TokenPage, token_row
from scheduler.api.http import parameters
from scheduler.api.http.bodies import Body, read_body
from scheduler.api.http.documents import document_of, page_of
from scheduler.api.http.pagination import NEWEST_FIRST, PAGE, Order
from scheduler.api.http.permissions import ADMIN
from scheduler.api.http.view import ApiView
from scheduler.models import ApiToken
from scheduler.ports import live_ports
from scheduler.selectors.accounts.rows import NewUserRow, UserQueue, UserRow
from scheduler.selectors.accounts.users import require_user, tokens_of, user_list, user_row
from scheduler.services.accounts.tokens import token_revoke
from scheduler.services.accounts.users import user_change, user_create, user_set_active

BY_NAME = Order(name="username", column="username", tie="id")


class UserBody(Body):
    """A new user."""

    username = serializers.CharField(max_length=150, help_text="Letters, digits, '.', '@', '_' and '-'.")
    email = serializers.CharField(max_length=254, required=False, allow_blank=True, help_text="For mails.")


class UserChangeBody(Body):
    """A change; what is left out stays."""

    email = serializers.CharField(max_length=254, required=False, allow_blank=True, help_text="For mails.")
    is_active = serializers.BooleanField(required=False, help_text="false keeps the user out at once.")


UserDocument = document_of(UserRow, "UserDocument", queues=document_of(UserQueue, "RoleDocument"))
UserPage = page_of(UserDocument, "UserPage", "A page of users.")
NewUserDocument = document_of(NewUserRow, "NewUserDocument", queues=document_of(UserQueue, "RoleDocument"))


class Users(ApiView):
    """All users."""

    rules = {"GET": ADMIN, "POST": ADMIN}
    query = {"GET": (*PAGE, parameters.text("search", "Part of a name or address.", most=150))}

    @extend_schema(operation_id="user_list", summary="List users", responses={200: UserPage})
    def get(self, request: Request) -> Response:
        """List users by name with their roles in queues."""
        return self.page(request, user_list(request.user, self.params["search"]), BY_NAME, user_row)

    @extend_schema(
        operation_id="user_create", summary="Make a user", request=UserBody, responses={201: NewUserDocument}
    )
    def post(self, request: Request) -> Response:
        """Make a user. The password is in this answer and nowhere else, so no Idempotency-Key is taken."""
        body = read_body(request, UserBody)
        made, password = user_create(actor=request.user, at=live_ports().clock.now(), **body)
        row: NewUserRow = {**user_row(made), "password": password}
        return Response(row, status=201)


class UserDetail(ApiView):
    """One user."""

    rules = {"GET": ADMIN, "PATCH": ADMIN}

    @extend_schema(operation_id="user_read", summary="Read a user", responses={200: UserDocument})
    def get(self, request: Request, username: str) -> Response:
        """Return one user."""
        return Response(user_row(require_user(request.user, username)))

    @extend_schema(
        operation_id="user_change",
        summary="Change a user",
        request=UserChangeBody,
        responses={200: UserDocument, 409: OpenApiResponse(description="It is you, or the last admin.")},
    )
    def patch(self, request: Request, username: str) -> Response:
        """Keep a user out or let one in again, or change the address for mails."""
        body = read_body(request, UserChangeBody)
        user, at = require_user(request.user, username), live_ports().clock.now()
        if "email" in body:
            user_change(actor=request.user, user=user, email=body["email"], at=at)
        if "is_active" in body:
            user_set_active(actor=request.user, user=user, active=body["is_active"], at=at)
        return Response(user_row(require_user(request.user, username)))


class UserTokens(ApiView):
    """The tokens of a user."""

    rules = {"GET": ADMIN}
    query = {"GET": PAGE}

    @extend_schema(operation_id="user_tokens", summary="List a user's tokens", responses={200: TokenPage})
    def get(self, request: Request, username: str) -> Response:
        """List the tokens of one user: scopes, when they end, when they were last used; never their texts."""
        rows = tokens_of(require_user(request.user, username)).order_by()
        return self.page(request, rows, NEWEST_FIRST, token_row)


class UserToken(ApiView):
    """One token of a user."""

    rules = {"DELETE": ADMIN}

    @extend_schema(
        operation_id="user_token_revoke",
        summary="Revoke a user's token",
        responses={204: OpenApiResponse(description="It is refused from now on.")},
    )
    def delete(self, request: Request, username: str, token: int) -> Response:
        """End somebody's token at once."""
        found = ApiToken.objects.filter(user=require_user(request.user, username), pk=token).first()
        if found is None:
            raise NotFound(f"{username} has no token {token}.")
        token_revoke(actor=request.user, token=found, at=live_ports().clock.now())
        return Response(status=204)
