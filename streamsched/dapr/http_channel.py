"""Delivery to an app over HTTP: POST /job/NAME, the body is the data alone."""

from __future__ import annotations

import asyncio
from urllib.parse import quote, urlsplit

import aiohttp
from yarl import URL

from streamsched.codec.dapr.job import DaprJob
from streamsched.codec.dapr.job_json import body_of
from streamsched.dapr.app_channel import CONNECT_S, REASON, TIMEOUT, JobDelivery, JobDeliveryResult
from streamsched.domain.errors import InvalidError, described
from streamsched.launcher.request import open_client
from streamsched.ports.dapr.instances import AppInstance


class HttpAppChannel:
    """See `dapr.app_channel.AppChannel`."""

    def __init__(self, instance: AppInstance) -> None:
        self._address = instance.address
        self._headers = {"Content-Type": "application/json"}
        if instance.token:
            self._headers["dapr-api-token"] = instance.token
        self._client: aiohttp.ClientSession | None = None

    async def ready(self) -> bool:
        parts = urlsplit(self._address)
        try:
            async with asyncio.timeout(CONNECT_S):
                _, writer = await asyncio.open_connection(parts.hostname, parts.port)
        except (OSError, TimeoutError):
            return False
        writer.close()
        return True

    async def deliver(self, job: DaprJob) -> JobDelivery:
        self._client = self._client or open_client()
        url = URL(f"{self._address}/job/{quote(job.name, safe='')}", encoded=True)
        try:
            body = body_of(job.data)
            async with (
                asyncio.timeout(TIMEOUT.total_seconds()),
                self._client.post(url, data=body, headers=self._headers, allow_redirects=False) as response,
            ):
                status, text = response.status, _text(await response.content.read(REASON))
        except aiohttp.ClientConnectorError as exc:
            return JobDelivery(JobDeliveryResult.UNREACHABLE, f"app {self._address} does not answer: {exc.os_error}")
        except TimeoutError:
            return JobDelivery(JobDeliveryResult.FAILED, f"no answer within {TIMEOUT.total_seconds():g} s")
        except (aiohttp.ClientError, InvalidError, OSError, ValueError) as exc:
            return JobDelivery(JobDeliveryResult.FAILED, f"no answer: {described(exc)}"[:REASON])
        detail = f"HTTP {status}{text}"
        if status == 404:
            return JobDelivery(JobDeliveryResult.DELIVERED, f"{detail}; the app has no handler for this job")
        return JobDelivery(JobDeliveryResult.DELIVERED if 200 <= status < 300 else JobDeliveryResult.FAILED, detail)

    async def close(self) -> None:
        if self._client is not None:
            await self._client.close()


def _text(content: bytes) -> str:
    text = " ".join(content.decode(errors="replace").split())
    return f": {text}" if text else ""
