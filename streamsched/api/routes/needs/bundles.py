"""Bundles: folders of apps as tar archives, named by the SHA-256 of the archive."""

from __future__ import annotations

import asyncio
import tempfile
from hashlib import sha256
from typing import BinaryIO

from starlette.requests import Request
from starlette.responses import Response

from streamsched.api.body import announced_size, receive, too_large
from streamsched.api.deps import BundlesDep, ClockDep, NamespaceDep, ServicesDep
from streamsched.api.rendering import json_response
from streamsched.api.routing.routes import ARCHIVE, Body, Routes
from streamsched.api.routing.rules import DEPLOY, VIEW
from streamsched.domain.errors import DecodeError
from streamsched.domain.programs.bundle import check_digest
from streamsched.process.bundle_archive import chunks_of, list_files
from streamsched.wire.namespaces import BUNDLE, BUNDLE_USE, STORED_BUNDLE

routes = Routes("/v1/namespaces/{namespace}/bundles", "programs")

#: Bytes of an archive in memory; a larger one is on the disk while it is received.
_IN_MEMORY = 1024 * 1024


@routes.get("", "List bundles", may=VIEW, answers=BUNDLE.whole_list("bundles"))
async def list_bundles(namespace: NamespaceDep, bundles: BundlesDep) -> Response:
    """The bundles of the namespace, the newest first, at most 1000. `programs`: how many refer to it."""
    return json_response({"bundles": [BUNDLE.answer_of(each) for each in await bundles.list(namespace)]})


@routes.post("/{digest}/use", "Ask for a bundle", may=DEPLOY, answers=BUNDLE_USE.answer)
async def use_bundle(namespace: NamespaceDep, digest: str, services: ServicesDep, clock: ClockDep) -> Response:
    """Whether the bundle `exists`; it need not be uploaded then, and is kept for at least a day from now. `limit`: most
    bytes of an upload.
    """
    check_digest(digest, "$.digest")
    exists = await services.programs.bundles.use(namespace, digest, now=clock.now())
    limit = services.settings.programs.bundle_limit
    return json_response(BUNDLE_USE.answer_of(namespace=namespace, digest=digest, exists=exists, limit=limit))


@routes.put("/{digest}", "Upload a bundle", may=DEPLOY, body=Body({ARCHIVE: "Archive"}), answers=STORED_BUNDLE.answer)
async def put_bundle(
    namespace: NamespaceDep,
    digest: str,
    request: Request,
    services: ServicesDep,
    clock: ClockDep,
) -> Response:
    """The body is a tar archive (`application/x-tar`) without compression, of regular files only, at most
    `STREAMSCHED_BUNDLE_LIMIT` bytes; `digest` is its SHA-256. `new`: whether it was not there yet. A bundle to which no
    program refers is removed a day after its upload.
    """
    check_digest(digest, "$.digest")
    limit = services.settings.programs.bundle_limit

    def check(size: int) -> None:
        if size > limit:
            raise too_large("bundle", f"{limit} bytes", "see STREAMSCHED_BUNDLE_LIMIT")

    check(announced_size(request))
    with tempfile.SpooledTemporaryFile(_IN_MEMORY) as spooled:
        archive: BinaryIO = spooled  # type: ignore[assignment]
        size, found = 0, sha256()
        async for chunk in receive(request):
            size += len(chunk)
            check(size)
            found.update(chunk)
            await asyncio.to_thread(archive.write, chunk)
        if found.hexdigest() != digest:
            raise DecodeError("$", f"has digest {found.hexdigest()}, but the path has {digest}")
        files = await asyncio.to_thread(list_files, archive, most_bytes=limit)
        new = await services.programs.bundles.put(
            namespace, digest, chunks_of(archive), size=size, files=len(files), now=clock.now()
        )
    stored = STORED_BUNDLE.answer_of(namespace=namespace, digest=digest, bytes=size, files=len(files), new=new)
    return json_response(stored)
