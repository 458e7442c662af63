"""Delivery to an app over HTTP: POST /job/NAME, the body is the data alone."""

from __future__ import annotations

import asyncio
from urllib.parse import quote, urlsplit

import httpx

from streamsched.dialects.dapr.app_channel import CONNECT_S, REASON, TIMEOUT, JobDelivery, JobDeliveryResult
from streamsched.dialects.dapr.codec.job import DaprJob
from streamsched.dialects.dapr.codec.job_json import body_of
from streamsched.dialects.dapr.store.instances import AppInstance
from streamsched.domain.addresses import EVERYWHERE
from streamsched.domain.errors import InvalidError, describe_failure
from streamsched.process.http_client import HttpClient


class HttpAppChannel:
    """See `dapr.app_channel.AppChannel`. Addresses come from settings of endpoints only, so they may be anywhere."""

    def __init__(self, instance: AppInstance) -> None:
        self._address = instance.address
        self._headers = {"Content-Type": "application/json"}
        if instance.token:
            self._headers["dapr-api-token"] = instance.token
        self._client = HttpClient(EVERYWHERE)

    async def is_ready(self) -> bool:
        parts = urlsplit(self._address)
        try:
            async with asyncio.timeout(CONNECT_S):
                _, writer = await asyncio.open_connection(parts.hostname, parts.port)
        except (OSError, TimeoutError):
            return False
        writer.close()
        return True

    async def deliver(self, job: DaprJob) -> JobDelivery:
        url = f"{self._address}/job/{quote(job.name, safe='')}"
        try:
            request = httpx.Request("POST", url, headers=self._headers, content=body_of(job.data))
        except (InvalidError, httpx.InvalidURL, ValueError) as exc:
            return JobDelivery(
                JobDeliveryResult.FAILED, f"no request can be made of it: {describe_failure(exc)}"[:REASON]
            )
        answer = await self._client.send(request, TIMEOUT)
        if not answer.connected:
            return JobDelivery(JobDeliveryResult.UNREACHABLE, f"app {self._address} does not answer: {answer.text}")
        if answer.status == 404:
            return JobDelivery(JobDeliveryResult.UNHANDLED, f"{answer.text}; the app has no handler for this job")
        if answer.cut:
            return JobDelivery(JobDeliveryResult.LOST, f"app {self._address} was lost: {answer.text}")
        return JobDelivery(JobDeliveryResult.DELIVERED if answer.is_accepted else JobDeliveryResult.FAILED, answer.text)

    async def close(self) -> None:
        await self._client.close()
