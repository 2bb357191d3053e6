"""``/jobs/{job}/files``: list, download and zip of what a job wrote into its directory."""

import io
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from django.http import HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.utils.http import content_disposition_header
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework.exceptions import NotFound
from rest_framework.request import Request
from rest_framework.response import Response

from scheduler.api.http import parameters
from scheduler.api.http.documents import document_of
from scheduler.api.http.permissions import READ
from scheduler.api.http.view import ApiView
from scheduler.api.jobs.files.ranges import wanted_part
from scheduler.api.jobs.files.sending import PIECE_BYTES, Download, file_pieces
from scheduler.core.model.errors import NotFound as NotThere
from scheduler.models import Job
from scheduler.selectors.files.archive import MOST_PATHS, zip_choice, zip_pieces
from scheduler.selectors.files.listing import folder_list
from scheduler.selectors.files.names import MOST_PATH, name_shown, path_parts
from scheduler.selectors.files.opening import job_files
from scheduler.selectors.files.pictures import picture_type
from scheduler.selectors.files.rows import FileRow, FolderRow
from scheduler.selectors.visibility import require_job

PATH = "From the job's directory on, as `path` of the list says."
FOLDER = parameters.text("path", f"A folder. {PATH} The directory itself when absent.", most=MOST_PATH)
BYTES = OpenApiResponse(OpenApiTypes.BINARY, description="The content.")
FolderDocument = document_of(FolderRow, "FolderDocument", results=document_of(FileRow, "FileDocument"))

# What a job made never becomes a page of ours, whatever a browser makes of it.
HARMLESS = {
    "Content-Security-Policy": "default-src 'none'; sandbox; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
}


@contextmanager
def told() -> Iterator[None]:
    """Say why a file cannot be had; the job is one that the caller sees."""
    try:
        yield
    except NotThere as missing:
        raise NotFound(str(missing)) from None


class JobFileList(ApiView):
    """A folder of a job."""

    rules = {"GET": READ}
    query = {
        "GET": (
            FOLDER,
            parameters.integer("limit", "So many names at most.", least=1, most=1000, default=200),
            parameters.text("after", "`next` of the answer before.", most=MOST_PATH),
        )
    }

    @extend_schema(operation_id="job_files", summary="List files", responses={200: FolderDocument})
    def get(self, request: Request, job: str) -> Response:
        """Return the names in a folder of the job's directory, in order; the job may be changing them meanwhile."""
        found = require_job(request.user, job)
        with told():
            row = folder_list(found, self.params["path"], limit=self.params["limit"], after=self.params["after"])
        return Response(row)


class JobFileContent(ApiView):
    """One file of a job."""

    rules = {"GET": READ}
    query = {"GET": (parameters.flag("picture", "For a png, jpg, gif or webp up to 8 MiB: say so in `Content-Type`."),)}

    @extend_schema(
        operation_id="job_file",
        summary="Download a file",
        parameters=[
            OpenApiParameter("path", OpenApiTypes.STR, OpenApiParameter.PATH, description=PATH),
            OpenApiParameter("Range", OpenApiTypes.STR, OpenApiParameter.HEADER, description="Such as `bytes=1000-`."),
            OpenApiParameter("If-Range", OpenApiTypes.STR, OpenApiParameter.HEADER, description="ETag of before."),
            OpenApiParameter("If-None-Match", OpenApiTypes.STR, OpenApiParameter.HEADER, description="ETag of before."),
        ],
        responses={
            (200, "application/octet-stream"): BYTES,
            (206, "application/octet-stream"): BYTES,
            304: OpenApiResponse(description="It has this ETag still."),
            416: OpenApiResponse(description="It has no such byte."),
        },
    )
    def get(self, request: Request, job: str, path: str) -> HttpResponseBase:
        """Return the bytes of a file, or of a part of it, always as a download. The ETag changes when it is written.

        A file that becomes shorter while it is sent ends the connection early. Links, FIFOs and devices are not opened.
        """
        found = require_job(request.user, job)
        with told(), job_files(found) as files, ExitStack() as held:
            file = held.enter_context(files.file(path_parts(path)))
            kind = picture_type(file, path) if self.params["picture"] else "application/octet-stream"
            held.pop_all()
        return self._answer(request, found, file, _headers(file, path), kind)

    def _answer(
        self, request: Request, job: Job, file: io.FileIO, headers: dict[str, str], kind: str
    ) -> HttpResponseBase:
        """Answer with the part that is asked for, and close the file."""
        size, etag = os.fstat(file.fileno()).st_size, headers["ETag"]
        with ExitStack() as held:
            held.enter_context(file)
            if etag in [tag.strip().removeprefix("W/") for tag in request.headers.get("If-None-Match", "").split(",")]:
                return HttpResponse(status=304, headers={"ETag": etag, "Cache-Control": headers["Cache-Control"]})
            asked = request.headers.get("Range", ""), request.headers.get("If-Range", "")
            part = wanted_part(*asked, size=size, etag=etag)
            start, end = part or (0, size)
            headers["Content-Length"] = str(end - start)
            if part is not None:
                headers["Content-Range"] = f"bytes {start}-{end - 1}/{size}"
            status = 200 if part is None else 206
            if request.method == "HEAD":
                return HttpResponse(status=status, content_type=kind, headers=headers)
            if end - start <= PIECE_BYTES:
                content = b"".join(file_pieces(file, start, end))
                return HttpResponse(content, status=status, content_type=kind, headers=headers)
            download = Download(request, job, file_pieces(file, start, end), held=file)
            held.pop_all()
        return StreamingHttpResponse(download, status=status, content_type=kind, headers=headers)


def _headers(file: io.FileIO, path: str) -> dict[str, str]:
    about = os.fstat(file.fileno())
    return {
        **HARMLESS,
        "ETag": f'"{about.st_ino:x}-{about.st_size:x}-{about.st_mtime_ns:x}"',
        "Accept-Ranges": "bytes",
        "Cache-Control": "private, no-cache",
        "Content-Disposition": content_disposition_header(True, path.rstrip("/").rpartition("/")[2]) or "",
    }


class JobArchive(ApiView):
    """Files of a job in one file."""

    http_method_names = ["get"]  # a HEAD would pack all without sending it
    rules = {"GET": READ}
    query = {
        "GET": (
            parameters.texts(
                "path",
                f"A file or a folder. {PATH} Given several times: all of them. All files when absent.",
                most=MOST_PATH,
                most_times=MOST_PATHS,
            ),
        )
    }

    @extend_schema(operation_id="job_archive", summary="Download a zip", responses={(200, "application/zip"): BYTES})
    def get(self, request: Request, job: str) -> HttpResponseBase:
        """Return files and folders of a job, or all of it, as a zip that is made while it is sent.

        Names in it begin at the job's directory; of one folder alone, in that folder. What is named twice, or lies in
        a folder that is named as well, is sent once. Links are left out. What cannot be read is named in
        `LEFT-OUT.txt` at the end, also what goes away meanwhile. A zip holds 50,000 files at most.
        """
        found = require_job(request.user, job)
        with told():
            chosen = zip_choice(found, self.params["path"])
        of = "selected" if len(chosen) > 1 else name_shown(chosen[0][-1]) if chosen[0] else ""
        name = f"J-{found.number}{'-' if of else ''}{of}.zip"
        return StreamingHttpResponse(
            Download(request, found, zip_pieces(found, chosen)),
            content_type="application/zip",
            headers={**HARMLESS, "Content-Disposition": content_disposition_header(True, name) or ""},
        )
