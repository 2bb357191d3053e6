"""``/code``: folders that jobs start in. Only what the server has not had from the sender is sent."""

from collections.abc import Mapping
from typing import IO, Any

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiExample, OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.exceptions import NotFound, ParseError
from rest_framework.parsers import BaseParser
from rest_framework.request import Request
from rest_framework.response import Response

from scheduler.api.http.bodies import Body, OneOfField
from scheduler.api.http.documents import document_of
from scheduler.api.http.errors import BodyTooLarge
from scheduler.api.http.parsers import RawBody, body_stream, json_from_text
from scheduler.api.http.permissions import WRITE_JOBS
from scheduler.api.http.uploads import MANIFEST_BYTES
from scheduler.api.http.view import ApiView
from scheduler.core.spec.code import DIGEST, PREFIX
from scheduler.core.spec.reading import quoted
from scheduler.ports import live_ports
from scheduler.services.code.archives import code_from_archive
from scheduler.services.code.folders import CodeAnswer, code_offer, code_take

CodeDocument = document_of(CodeAnswer, "Code")
REFUSED = {
    400: OpenApiResponse(description="A file that cannot be taken; the name is told."),
    413: OpenApiResponse(description="The body is larger than a folder may be."),
    507: OpenApiResponse(description="The disk has no room for it."),
}
MOST_BODY_BYTES = 2**42  # the limit in front of Django is the one that an admin sets


class CodeFileBody(Body):
    """One file of a folder."""

    path = serializers.CharField(max_length=1024, help_text="From the folder on, with / between names.")
    mode = OneOfField(["644", "755"], help_text="755 for a file that can be run.")
    size = serializers.IntegerField(min_value=0, help_text="Bytes.")
    sha256 = serializers.CharField(max_length=64, help_text="Of its content, in lower-case hexadecimal digits.")


class ManifestBody(Body):
    """All files of a folder, in any order."""

    version = serializers.ChoiceField(choices=[1])
    files = CodeFileBody(many=True)


class LargeJson(BaseParser):
    """``application/json`` of a manifest: 50,000 files take about 10 MB."""

    media_type = "application/json"

    def parse(  # type: ignore[override]  # a body may hold any JSON value
        self, stream: IO[bytes], media_type: str | None = None, parser_context: Mapping[str, Any] | None = None
    ) -> object:
        """Return the data."""
        body = stream.read(MANIFEST_BYTES + 1)
        if len(body) > MANIFEST_BYTES:
            raise BodyTooLarge(f"A manifest may have at most {MANIFEST_BYTES // 2**20} MiB.")
        try:
            return json_from_text(body or b"null")
        except ValueError as error:
            raise ParseError(f"The body is not JSON as it must be: {error}.") from None


class CodeFolders(ApiView):
    """Folders that are about to be sent."""

    rules = {"POST": WRITE_JOBS}
    parser_classes = [LargeJson]
    most_body_bytes = MANIFEST_BYTES

    @extend_schema(
        operation_id="code_offer",
        summary="Offer a folder",
        request=ManifestBody,
        responses={200: CodeDocument, **REFUSED},
        examples=[
            OpenApiExample(
                "Two files",
                {
                    "version": 1,
                    "files": [
                        {"path": "train.py", "mode": "644", "size": 912, "sha256": "9f86d0…"},
                        {"path": "data/train.bin", "mode": "644", "size": 5242880, "sha256": "60303a…"},
                    ],
                },
                request_only=True,
            )
        ],
    )
    def post(self, request: Request) -> Response:
        """Say which files a folder has, and learn which contents to send; none: it is complete.

        A content is missing unless you have sent it before. The same manifest may be offered again at any time: what
        has arrived is not asked for again. Refused with the name: paths that leave the folder, names that differ by
        case alone, files that are there twice, more files or bytes than an admin allows (50,000 and 2 GiB).
        """
        return Response(code_offer(actor=request.user, data=request.data, at=live_ports().clock.now()))


class CodeBlobs(ApiView):
    """Contents of a folder."""

    rules = {"POST": WRITE_JOBS}
    parser_classes = [RawBody]
    most_body_bytes = MOST_BODY_BYTES

    @extend_schema(
        operation_id="code_send",
        summary="Send contents of a folder",
        request={"application/octet-stream": OpenApiTypes.BINARY},
        responses={200: CodeDocument, **REFUSED},
    )
    def post(self, request: Request, manifest: str) -> Response:
        """Send contents that are missing, in any number of requests; the folder is complete when nothing is missing.

        The body is one content after the other: its SHA-256 as 32 bytes, then its bytes, as many as the manifest says.
        Each is checked while it arrives. Those that arrived whole stay, also when the connection breaks.
        """
        if not DIGEST.fullmatch(manifest):
            raise NotFound(f"There is no folder {quoted(manifest)}. Send its manifest first.")
        digest = manifest.removeprefix(PREFIX)
        return Response(
            code_take(actor=request.user, digest=digest, content=body_stream(request), at=live_ports().clock.now())
        )


class CodeArchive(ApiView):
    """A folder in one file."""

    rules = {"POST": WRITE_JOBS}
    parser_classes = [RawBody]
    most_body_bytes = MOST_BODY_BYTES

    @extend_schema(
        operation_id="code_archive",
        summary="Send a folder as a zip or tar",
        request={"application/octet-stream": OpenApiTypes.BINARY},
        responses={201: CodeDocument, **REFUSED},
    )
    def post(self, request: Request) -> Response:
        """Send a whole folder as a zip, or a tar that is plain or packed by gzip, bzip2 or xz.

        It is unpacked at once, by a process with limits. Links and devices are refused with their name, and what
        `/code` refuses. A folder around all the rest is left out of the paths.
        """
        found = code_from_archive(actor=request.user, content=body_stream(request), at=live_ports().clock.now())
        return Response(found, status=201)
