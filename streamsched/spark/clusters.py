"""Probes of the free capacity of a Spark standalone master, YARN's ResourceManager or Kubernetes.

| URL | reads |
|---|---|
| `spark+http://master:8080` | `/json/` of the master's UI: free cores and memory of live workers, applications |
| `yarn+http://manager:8088` | `/ws/v1/cluster/metrics`: available vcores and memory, running applications |
| `k8s+https://api:6443/?namespace=jobs` | the remainder of the namespace's tightest quotas; running driver pods |

For Kubernetes, `token_file` and `ca_file` default to a pod's service account. `+https` works for all of them. Sources:
Spark's "Monitoring" (the master's JSON of 3.x and 4.x), Hadoop's "ResourceManager REST API's", the API reference of
Kubernetes 1.2x.
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

from streamsched.domain.constraints.load import ClusterReading
from streamsched.domain.errors import ConfigurationError, UnavailableError
from streamsched.ports.cluster_probe import Probe
from streamsched.process.entry_points import installed_points

_ENTRY_POINTS: Final = "streamsched.clusters"
_TIMEOUT_S: Final = 3.0
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
    """The load of a standalone cluster, from the JSON page of its master."""

    def __init__(self, url: str) -> None:
        self._url = f"{_address(url)}/json/"

    async def read(self) -> ClusterReading:
        """Free cores and memory of the workers, and how many applications run."""
        answer = await _get(self._url)
        with _checked_fields(self._url):
            if answer["status"] != "ALIVE":
                raise UnavailableError(f"the master at {self._url} is {answer['status']}")
            workers = [worker for worker in answer["workers"] if worker["state"] == "ALIVE"]
            return ClusterReading(
                float(sum(worker["coresfree"] for worker in workers)),
                sum(worker["memoryfree"] for worker in workers) * _MIB,
                len(answer["activeapps"]),
            )


class YarnProbe:
    """The load of a YARN cluster, from the metrics of its ResourceManager."""

    def __init__(self, url: str) -> None:
        self._url = f"{_address(url)}/ws/v1/cluster/metrics"

    async def read(self) -> ClusterReading:
        """Free cores and memory of the cluster, and how many applications run."""
        answer = await _get(self._url)
        with _checked_fields(self._url):
            metrics = answer["clusterMetrics"]
            return ClusterReading(
                float(metrics["availableVirtualCores"]), metrics["availableMB"] * _MIB, int(metrics["appsRunning"])
            )


class KubernetesProbe:
    """The load of a namespace of Kubernetes, from its quotas: without any, cores and memory are None."""

    def __init__(self, url: str) -> None:
        options = {name: values[-1] for name, values in parse_qs(urlsplit(url).query).items()}
        if unknown := sorted(options.keys() - {"namespace", "token_file", "ca_file"}):
            raise ConfigurationError(f"'{url}': '{unknown[0]}' is not one of namespace, token_file, ca_file")
        self._url = f"{_address(url)}/api/v1/namespaces/{options.get('namespace', 'default')}"
        self._token = Path(options.get("token_file", f"{_POD}/token"))
        self._authority = Path(options.get("ca_file", f"{_POD}/ca.crt"))

    async def read(self) -> ClusterReading:
        """What the tightest quotas of the namespace leave, and how many drivers run."""
        token = self._token.read_text().strip() if self._token.is_file() else ""  # it is rotated
        options: dict[str, Any] = {
            "headers": {"Authorization": f"Bearer {token}"} if token else {},
            "verify": str(self._authority) if self._authority.is_file() else True,
        }
        quotas = await _get(f"{self._url}/resourcequotas", **options)
        selected = "labelSelector=spark-role%3Ddriver&fieldSelector=status.phase%3DRunning"
        drivers = await _get(f"{self._url}/pods?{selected}", **options)
        with _checked_fields(self._url):
            statuses = [quota["status"] for quota in quotas["items"]]
            memory = _resource_left(statuses, ("requests.memory", "memory", "limits.memory"))
            return ClusterReading(
                _resource_left(statuses, ("requests.cpu", "cpu", "limits.cpu")),
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


def open_probe(url: str) -> Probe:
    """The probe of the URL's scheme: one of `PROBES`, or an entry point of group `streamsched.clusters`.

    Raises:
        ConfigurationError: no installed probe has that scheme, or it refuses the URL.
    """
    scheme = urlsplit(url).scheme
    if scheme in PROBES:
        return PROBES[scheme](url)
    installed = installed_points(_ENTRY_POINTS)
    if scheme not in installed:
        raise ConfigurationError(f"no probe for '{scheme}://'; known: {', '.join(sorted({*PROBES, *installed}))}")
    return installed[scheme].load()(url)


def _address(url: str) -> str:
    parts = urlsplit(url)
    if not parts.hostname:
        raise ConfigurationError(f"'{url}' has no host")
    return urlunsplit((parts.scheme.rpartition("+")[2], parts.netloc, parts.path.rstrip("/"), "", ""))


async def _get(url: str, *, headers: Mapping[str, str] | None = None, verify: Any = True) -> Any:
    """Raises:
    UnavailableError: no answer, or a status other than 200.
    """
    try:
        async with httpx.AsyncClient(timeout=_TIMEOUT_S, verify=verify, trust_env=False) as client:
            answer = await client.get(url, headers=dict(headers or {}), follow_redirects=True)
        answer.raise_for_status()
        return answer.json()
    except (httpx.HTTPError, ValueError) as exc:
        raise UnavailableError(f"{url}: {str(exc) or type(exc).__name__}") from exc


@contextmanager
def _checked_fields(url: str) -> Iterator[None]:
    """Turns missing or malformed fields of an answer into UnavailableError with the URL."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError) as exc:
        raise UnavailableError(f"unexpected answer from {url}: {exc!r}") from exc


def _resource_left(statuses: list[Mapping[str, Mapping[str, str]]], names: tuple[str, ...]) -> float | None:
    """What the tightest quota leaves of a resource; None when no quota limits it."""
    remainders = [
        _quantity(status["hard"][name]) - _quantity(status.get("used", {}).get(name, "0"))
        for status in statuses
        for name in names
        if name in status.get("hard", {})
    ]
    return max(0.0, min(remainders)) if remainders else None


def _quantity(text: str) -> float:
    """The value of a Kubernetes quantity such as `500m`, `16Gi`, `2`."""
    matched = _QUANTITY.fullmatch(text)
    if matched is None or matched[2] not in _UNITS:
        raise ValueError(f"'{text}' is not a quantity")
    return float(matched[1]) * _UNITS[matched[2]]
