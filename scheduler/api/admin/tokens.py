"""``/tokens``: the caller's own tokens. A token is shown once and cannot make a stronger or longer-lived one."""

from datetime import datetime
from typing import Annotated, TypedDict

from drf_spectacular.utils import OpenApiExample, OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.exceptions import NotFound, PermissionDenied
from rest_framework.request import Request
from rest_framework.response import Response

from scheduler.api.http.authentication import signed_in, token_of
from scheduler.api.http.bodies import Body, OneOfField, read_body
from scheduler.api.http.documents import document_of, page_of
from scheduler.api.http.pagination import NEWEST_FIRST, PAGE
from scheduler.api.http.permissions import OWN_ACCESS
from scheduler.api.http.view import ApiView
from scheduler.models import ApiToken
from scheduler.ports import live_ports
from scheduler.selectors.rows import Moment, one_of
from scheduler.selectors.times import iso
from scheduler.services.accounts.tokens import LASTS_DAYS, SCOPES, token_create, token_revoke, usual


class TokenBody(Body):
    """A new token."""

    name = serializers.CharField(max_length=80, help_text="What it is for, so that you can tell it apart.")
    scopes = serializers.ListField(child=OneOfField(SCOPES), allow_empty=False, help_text="What it may be used for.")
    expires_at = serializers.DateTimeField(
        allow_null=True,
        default=None,
        help_text=f"null: {LASTS_DAYS} days from now, or sooner where the token that makes it or the admin's limit "
        "(`TOKEN_MOST_DAYS`, 365) ends sooner.",
    )


class TokenRow(TypedDict):
    """A token without its text."""

    id: str
    name: str
    prefix: Annotated[str, "Its first letters."]
    scopes: list[Annotated[str, one_of(SCOPES)]]
    created_at: Moment
    expires_at: Annotated[Moment | None, "null: made before tokens had to end; make a new one and revoke it."]
    revoked_at: Moment | None
    last_used_at: Moment | None


class NewTokenRow(TokenRow):
    """A token with its text, which is shown only here."""

    token: Annotated[str, "Send it as `Authorization: Bearer <token>`. It is not kept."]


TokenDocument = document_of(TokenRow, "TokenDocument")
NewTokenDocument = document_of(NewTokenRow, "NewTokenDocument")
TokenPage = page_of(TokenDocument, "TokenPage", "A page of tokens.")


def token_row(token: ApiToken) -> TokenRow:
    """Return one token as the API shows it: never its text or hash."""
    return {
        "id": str(token.pk),
        "name": token.name,
        "prefix": token.prefix,
        "scopes": token.scopes,
        "created_at": iso(token.created_at),
        "expires_at": iso(token.expires_at),
        "revoked_at": iso(token.revoked_at),
        "last_used_at": iso(token.last_used_at),
    }


def _within_life(maker: ApiToken | None, expires_at: datetime | None, at: datetime) -> datetime | None:
    """Return when a new token is to end: as asked, or as usual, but never after the token that makes it."""
    if maker is None or maker.expires_at is None:
        return expires_at
    if expires_at is not None and expires_at > maker.expires_at:
        raise PermissionDenied(f"A token made with this one must expire by {maker.expires_at:%Y-%m-%dT%H:%M:%SZ}.")
    return expires_at or min(at + usual(), maker.expires_at)


class Tokens(ApiView):
    """Your own tokens."""

    rules = {"GET": OWN_ACCESS, "POST": OWN_ACCESS}
    query = {"GET": PAGE}

    @extend_schema(operation_id="token_list", summary="List your tokens", responses={200: TokenPage})
    def get(self, request: Request) -> Response:
        """List your tokens, newest first, revoked and expired ones too."""
        return self.page(request, ApiToken.objects.filter(user=signed_in(request)), NEWEST_FIRST, token_row)

    @extend_schema(
        operation_id="token_create",
        summary="Make a token",
        request=TokenBody,
        responses={201: NewTokenDocument},
        examples=[
            OpenApiExample("For a script", {"name": "nightly", "scopes": ["jobs:write"]}, request_only=True),
        ],
    )
    def post(self, request: Request) -> Response:
        """Make a token of your own. Its text is in this answer and nowhere else, so no Idempotency-Key is taken."""
        body = read_body(request, TokenBody)
        at = live_ports().clock.now()
        body["expires_at"] = _within_life(token_of(request), body["expires_at"], at)
        token, text = token_create(actor=request.user, at=at, **body)
        row: NewTokenRow = {**token_row(token), "token": text}
        return Response(row, status=201)


class TokenDetail(ApiView):
    """One of your own tokens."""

    rules = {"DELETE": OWN_ACCESS}

    @extend_schema(
        operation_id="token_revoke",
        summary="Revoke a token",
        responses={204: OpenApiResponse(description="It is refused from now on.")},
    )
    def delete(self, request: Request, token: int) -> Response:
        """End a token at once."""
        found = ApiToken.objects.filter(user=signed_in(request), pk=token).first()
        if found is None:
            raise NotFound(f"You have no token {token}.")
        token_revoke(actor=request.user, token=found, at=live_ports().clock.now())
        return Response(status=204)
