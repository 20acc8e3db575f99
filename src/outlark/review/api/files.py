"""Files that come and go: exports, and recordings that are dropped on the page."""

import errno
import os
import re
import shutil
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import quote

from fastapi import APIRouter, HTTPException, Query, Request, Response
from fastapi import Path as InPath
from starlette.concurrency import run_in_threadpool

from outlark.audio.sound_files import is_sound
from outlark.plain_text import visible
from outlark.review.api.recordings import found
from outlark.review.exporting import SCOPES, export, writable_formats
from outlark.review.project import Project

#: Largest recording that can be dropped on the page, in bytes.
MOST_BYTES = 4 * 2**30
#: So much of the disk stays free.
SPARE_BYTES = 2**26


def router(project: Project, most_bytes: int = MOST_BYTES) -> APIRouter:
    """The requests about files."""
    routes = APIRouter(prefix="/api", tags=["files"])

    @routes.get("/formats")
    def formats() -> dict[str, Any]:
        return {"formats": writable_formats(), "scopes": SCOPES}

    @routes.get("/export", response_class=Response)
    def exported(
        format: Annotated[str, Query(max_length=40)] = "raven",
        scope: Literal["corrected", "decided", "reviewed"] = "corrected",
        recording: Annotated[int | None, Query(ge=0, le=2**53)] = None,
    ) -> Response:
        """A table, or an archive of tables for all recordings."""
        chosen = project.recordings() if recording is None else [found(project, recording)]
        name, content = export(project, format=format, scope=scope, recordings=chosen)
        disposition = f"attachment; filename*=UTF-8''{quote(name)}"
        headers = {"content-disposition": disposition, "cache-control": "no-store"}
        return Response(content, media_type="application/octet-stream", headers=headers)

    @routes.put("/uploads/{name}", status_code=201)
    async def upload(name: Annotated[str, InPath(max_length=255)], request: Request) -> dict[str, Any]:
        """A recording, as the body; it is checked before it becomes part of the project."""
        check_name(name)
        length = int(request.headers.get("content-length", "0"))
        folder = project.folder / "uploads"
        if length > most_bytes:
            raise HTTPException(413, f"{name} has {length} bytes, more than {most_bytes}; open its folder instead")
        if length + SPARE_BYTES > shutil.disk_usage(folder).free:
            raise HTTPException(507, f"there is no room for {name} ({length} bytes) on the disk; free some space")
        target = folder / name
        if target.exists():
            raise HTTPException(409, f"there is a recording {name} already; rename the file")
        part = folder / f".{os.urandom(8).hex()}.part"
        try:
            received = 0
            with part.open("xb") as file:
                async for chunk in request.stream():
                    received += len(chunk)
                    if received > length:
                        raise HTTPException(413, f"{name} is longer than announced")
                    file.write(chunk)
            if received != length or not length:
                raise HTTPException(400, f"{name} was cut short on its way: {received} of {length} bytes; try again")
            os.replace(part, target)
            try:
                recording = await run_in_threadpool(project.add, target, name)
            except BaseException:
                target.unlink(missing_ok=True)
                raise
        except OSError as error:
            code = 507 if error.errno == errno.ENOSPC else 500
            raise HTTPException(code, f"{name} cannot be stored ({error.strerror}); free some space") from None
        finally:
            part.unlink(missing_ok=True)
        return {"id": recording.id, "name": recording.name}

    return routes


def check_name(name: str) -> None:
    """Refuse what is no plain name of a sound file."""
    plain = (
        re.fullmatch(r"[^/\\:*?\"<>|\x00-\x1f]+", name) and not name.startswith((".", "-")) and visible(name) == name
    )
    if not plain or Path(name).name != name or not is_sound(name) or len(name.encode()) > 200:
        raise HTTPException(422, f"{name!r:.80} is not the name of a sound file; rename it to something like night.wav")
