"""Probes: what a Spark standalone master, YARN's ResourceManager or Kubernetes says of free room.

| URL | asks |
|---|---|
| `spark+http://master:8080` | `/json/` of the master's UI: cores and memory of living workers, applications |
| `yarn+http://manager:8088` | `/ws/v1/cluster/metrics`: vcores and memory that are available, running applications |
| `k8s+https://api:6443/?namespace=jobs` | what the scarcest of the namespace's quotas leaves; running driver pods |

Of Kubernetes, `token_file` and `ca_file` are where a pod finds them, unless the URL says otherwise. `+https` works for
all of them. Documents: Spark's "Monitoring" (the master's JSON is as 3.x and 4.x write it), Hadoop's "ResourceManager
REST API's", the API reference of Kubernetes 1.2x.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit, urlunsplit

import httpx

from streamsched.domain.errors import ConfigurationError, UnavailableError
from streamsched.domain.load import Reading
from streamsched.ports.clusters import Probe

_SECONDS: Final = 3.0
_MIB: Final = 1 << 20
_POD: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
_QUANTITY: Final = re.compile(r"(\d+(?:\.\d+)?)([a-zA-Z]*)")
_UNITS: Final = {
    "": 1.0,
    "m": 1e-3,
    "k": 1e3,
    "M": 1e6,
    "G": 1e9,
    "T": 1e12,
    "P": 1e15,
    **{f"{letter}i": float(1 << 10 * power) for power, letter in enumerate("KMGTP", start=1)},
}


class StandaloneProbe:
    """See `ports.clusters.Probe`."""

    def __init__(self, url: str) -> None:
        self._url = f"{_address(url)}/json/"

    async def read(self) -> Reading:
        said = await _asked(self._url)
        with _understood(self._url):
            if said["status"] != "ALIVE":
                raise UnavailableError(f"the master at {self._url} is {said['status']}")
            workers = [worker for worker in said["workers"] if worker["state"] == "ALIVE"]
            return Reading(
                float(sum(worker["coresfree"] for worker in workers)),
                sum(worker["memoryfree"] for worker in workers) * _MIB,
                len(said["activeapps"]),
            )


class YarnProbe:
    """See `ports.clusters.Probe`."""

    def __init__(self, url: str) -> None:
        self._url = f"{_address(url)}/ws/v1/cluster/metrics"

    async def read(self) -> Reading:
        said = await _asked(self._url)
        with _understood(self._url):
            metrics = said["clusterMetrics"]
            return Reading(
                float(metrics["availableVirtualCores"]), metrics["availableMB"] * _MIB, int(metrics["appsRunning"])
            )


class KubernetesProbe:
    """See `ports.clusters.Probe`. A namespace without quotas says nothing of cores and memory."""

    def __init__(self, url: str) -> None:
        options = {name: values[-1] for name, values in parse_qs(urlsplit(url).query).items()}
        if unknown := sorted(options.keys() - {"namespace", "token_file", "ca_file"}):
            raise ConfigurationError(f"'{url}': '{unknown[0]}' is none of namespace, token_file, ca_file")
        self._url = f"{_address(url)}/api/v1/namespaces/{options.get('namespace', 'default')}"
        self._token = Path(options.get("token_file", f"{_POD}/token"))
        self._authority = Path(options.get("ca_file", f"{_POD}/ca.crt"))

    async def read(self) -> Reading:
        token = self._token.read_text().strip() if self._token.is_file() else ""  # it is renewed now and then
        said: dict[str, Any] = {
            "headers": {"Authorization": f"Bearer {token}"} if token else {},
            "verify": str(self._authority) if self._authority.is_file() else True,
        }
        quotas = await _asked(f"{self._url}/resourcequotas", **said)
        selected = "labelSelector=spark-role%3Ddriver&fieldSelector=status.phase%3DRunning"
        drivers = await _asked(f"{self._url}/pods?{selected}", **said)
        with _understood(self._url):
            stands = [quota["status"] for quota in quotas["items"]]
            memory = _left(stands, ("requests.memory", "memory", "limits.memory"))
            return Reading(
                _left(stands, ("requests.cpu", "cpu", "limits.cpu")),
                None if memory is None else int(memory),
                len(drivers["items"]),
            )


#: By the scheme of their URL.
PROBES: Final[Mapping[str, Callable[[str], Probe]]] = MappingProxyType(
    {
        f"{kind}+{scheme}": probe
        for kind, probe in (("spark", StandaloneProbe), ("yarn", YarnProbe), ("k8s", KubernetesProbe))
        for scheme in ("http", "https")
    }
)


def _address(url: str) -> str:
    parts = urlsplit(url)
    if not parts.hostname:
        raise ConfigurationError(f"'{url}' names no host")
    return urlunsplit((parts.scheme.rpartition("+")[2], parts.netloc, parts.path.rstrip("/"), "", ""))


async def _asked(url: str, *, headers: Mapping[str, str] | None = None, verify: Any = True) -> Any:
    """Raises:
    UnavailableError: no answer, or none of 200.
    """
    try:
        async with httpx.AsyncClient(timeout=_SECONDS, verify=verify, trust_env=False) as client:
            answer = await client.get(url, headers=dict(headers or {}), follow_redirects=True)
        answer.raise_for_status()
        return answer.json()
    except (httpx.HTTPError, ValueError) as exc:
        raise UnavailableError(f"{url}: {str(exc) or type(exc).__name__}") from exc


@contextmanager
def _understood(url: str) -> Iterator[None]:
    """What is missing in an answer is said with its URL."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError) as exc:
        raise UnavailableError(f"{url} says something else than expected: {exc!r}") from exc


def _left(stands: list[Mapping[str, Mapping[str, str]]], names: tuple[str, ...]) -> float | None:
    """What the scarcest quota leaves of a resource; None when none bounds it."""
    rooms = [
        _quantity(status["hard"][name]) - _quantity(status.get("used", {}).get(name, "0"))
        for status in stands
        for name in names
        if name in status.get("hard", {})
    ]
    return max(0.0, min(rooms)) if rooms else None


def _quantity(text: str) -> float:
    """Kubernetes' `500m`, `16Gi`, `2`."""
    matched = _QUANTITY.fullmatch(text)
    if matched is None or matched[2] not in _UNITS:
        raise ValueError(f"'{text}' is no quantity")
    return float(matched[1]) * _UNITS[matched[2]]
