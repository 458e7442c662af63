"""Drivers on YARN: submitted by `spark-submit`, found by their tag, watched and killed by the ResourceManager.

The manager's address is read from `yarn-site.xml` in `HADOOP_CONF_DIR` (or `YARN_CONF_DIR`).
"""

from __future__ import annotations

import getpass
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote
from xml.etree import ElementTree

from streamsched.domain.errors import ConfigurationError, UnavailableError
from streamsched.spark.backends.backend import MOST_LOG, DriverState, DriverStatus, DriverSubmission
from streamsched.spark.backends.requests import Cluster, format_answer
from streamsched.spark.backends.submit_process import SubmitProcess

_TAGS: Final = "spark.yarn.tags"
_WEB: Final = "yarn.resourcemanager.webapp.address"
_HOST: Final = "yarn.resourcemanager.hostname"
_IDS: Final = "yarn.resourcemanager.ha.rm-ids"
_STATES: Final[Mapping[str, DriverState]] = {"RUNNING": DriverState.RUNNING, "KILLED": DriverState.KILLED}
_ENDS: Final[Mapping[str, DriverState]] = {"SUCCEEDED": DriverState.SUCCEEDED, "KILLED": DriverState.KILLED}
_CONTENTS: Final = b"LogContents:\n"
_CONTENTS_END: Final = b"\nEnd of LogType:"
_LENGTH: Final = b"LogLength:"


class YarnBackend:
    """Drivers in containers of YARN, asked for at its ResourceManagers and NodeManagers.

    Args:
        managers: URLs of the ResourceManagers; a standby redirects or is passed over.
    """

    def __init__(
        self,
        submission: DriverSubmission,
        managers: Sequence[str],
        submit: SubmitProcess,
        cluster: Cluster | None = None,
    ) -> None:
        self._submission = submission
        self._managers = managers
        self._submit = submit
        self._cluster = cluster or Cluster()

    async def find(self) -> str | None:
        answer = await self._ask("GET", f"apps?applicationTags={quote(self._submission.label)}")
        apps = ((answer or {}).get("apps") or {}).get("app") or []
        newest = max(apps, key=lambda app: int(app["startedTime"]), default=None)
        return None if newest is None else str(newest["id"])

    async def submit(self) -> str:
        conf = yarn_settings(self._submission)
        return await self._submit.submit(self._submission, conf, self.find, absent="YARN shows no application yet")

    async def status(self, driver: str) -> DriverStatus:
        app = await self._app(driver)
        if app is None:
            return DriverStatus(DriverState.FAILED, f"YARN does not know {driver} any more, so its end is not known")
        logs = str(app.get("amContainerLogs") or "")
        said, end = str(app.get("state")), str(app.get("finalStatus"))
        why = " ".join(str(app.get("diagnostics") or "").split())[:500]
        if said in ("FINISHED", "FAILED"):
            state = _ENDS.get(end, DriverState.FAILED)
            return DriverStatus(state, f"{driver} is {end}. {why}".strip(), logs=logs)
        return DriverStatus(_STATES.get(said, DriverState.WAITING), f"{driver} is {said}. {why}".strip(), logs=logs)

    async def kill(self, driver: str) -> None:
        user = self._submission.proxy_user or self._submission.user or getpass.getuser()
        path = f"apps/{quote(driver)}/state?user.name={quote(user)}"
        answer = await self._ask("PUT", path, {"state": "KILLED"})
        if answer is None:
            raise UnavailableError(f"YARN does not know {driver}")

    async def logs(self, driver: str, read: Mapping[str, int]) -> Mapping[str, bytes]:
        app = await self._app(driver)
        address, container = (app or {}).get("amHostHttpAddress"), (app or {}).get("amContainerLogs", "")
        parts = container.split("/containerlogs/")
        if not address or len(parts) < 2:
            return {}
        name = parts[1].split("/")[0]
        found: dict[str, bytes] = {}
        for stream in ("stderr", "stdout"):
            url = f"http://{address}/ws/v1/node/containers/{quote(name)}/logs/{stream}?size=-{MOST_LOG}"
            answer = await self._cluster.send("GET", url)
            if answer.is_success:
                found[stream] = _new_bytes(answer.content, read.get(stream, 0))
        return found

    async def _app(self, driver: str) -> Mapping[str, Any] | None:
        answer = await self._ask("GET", f"apps/{quote(driver)}")
        return None if answer is None else answer["app"]

    async def _ask(self, method: str, path: str, content: Any = None) -> Any:
        failure: UnavailableError = UnavailableError("no ResourceManager is named")
        for manager in self._managers:
            try:
                answer = await self._cluster.send(method, f"{manager}/ws/v1/cluster/{path}", content)
                if answer.status_code == 404:
                    return None
                if answer.is_success:
                    return answer.json()
                failure = UnavailableError(f"{manager}: {format_answer(answer)}")
            except UnavailableError as exc:
                failure = exc
            except ValueError as exc:
                failure = UnavailableError(f"{manager} does not answer JSON: {exc}")
        raise failure


def yarn_settings(submission: DriverSubmission) -> dict[str, str]:
    """The settings of a submission to YARN, beside those of the program. One attempt only, unless the program says
    otherwise: the retry policy of the schedule repeats runs.
    """
    tags = [submission.label, submission.conf.get(_TAGS, "")]
    return {
        "spark.yarn.maxAppAttempts": submission.conf.get("spark.yarn.maxAppAttempts", "1"),
        _TAGS: ",".join(filter(None, tags)),
        "spark.yarn.submit.waitAppCompletion": "false",
        **{f"spark.yarn.appMasterEnv.{name}": value for name, value in submission.env.items()},
    }


def resource_managers(environ: Mapping[str, str]) -> tuple[str, ...]:
    """URLs of the ResourceManagers of Hadoop's configuration.

    Raises:
        ConfigurationError: there is no such configuration.
    """
    folder = environ.get("HADOOP_CONF_DIR") or environ.get("YARN_CONF_DIR")
    if not folder:
        raise ConfigurationError("master yarn needs HADOOP_CONF_DIR or YARN_CONF_DIR where the launcher runs")
    path = Path(folder) / "yarn-site.xml"
    try:
        root = ElementTree.fromstring(path.read_bytes())
    except (OSError, ElementTree.ParseError) as exc:
        raise ConfigurationError(f"{path} cannot be read: {exc}") from exc
    values = {
        (each.findtext("name") or "").strip(): (each.findtext("value") or "").strip() for each in root.iter("property")
    }
    ids = [f".{each.strip()}" for each in values.get(_IDS, "").split(",") if each.strip()] or [""]
    found = [_resolve(values, f"{_WEB}{each}") or _default(values, each) for each in ids]
    return tuple(f"http://{each}" for each in found)


def _default(values: Mapping[str, str], suffix: str) -> str:
    return f"{values.get(f'{_HOST}{suffix}') or values.get(_HOST) or '127.0.0.1'}:8088"


def _resolve(values: Mapping[str, str], name: str) -> str:
    """The value, with `${…}` replaced."""
    text = values.get(name, "")
    for key, value in values.items():
        text = text.replace(f"${{{key}}}", value)
    return "" if "${" in text else text


def _new_bytes(answer: bytes, read: int) -> bytes:
    """What follows the bytes that were read, from the NodeManager's answer with the last bytes of a log."""
    head, sign, rest = answer.partition(_CONTENTS)
    if not sign:
        return b""
    content = rest.rpartition(_CONTENTS_END)[0] if _CONTENTS_END in rest else rest
    length = head.rpartition(_LENGTH)[2].split(b"\n")[0].strip()
    total = int(length) if length.isdigit() else len(content)
    return content[max(0, read - max(0, total - len(content))) :]
