"""schemathesis on the API's own OpenAPI document, against a real API with all checks.

    python -m tests.fuzz.api --minutes 30 --seed 1

The API has an app, a queue, a bookmark and a token, so that paths name things that exist too. Rounds with one seed
after another go on until the time is over. Left out, with reasons: `OMITTED`. The last line is `RESULT {json}`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx
import structlog

from tests.support.served_api import ServedApi, served_api, temporary_database

CONFIG = Path(__file__).with_name("schemathesis.toml")
APP = {
    "programs": [{"name": "join", "type": "bash", "command": "true"}],
    "schedules": [
        {
            "name": "weekly",
            "program": "join",
            "trigger": {"type": "PARTITION", "dataset": "flights", "numPartitions": 7},
        }
    ],
}
#: Checks that are left out.
OMITTED = {
    "positive_data_acceptance": "rules of meaning, such as a cron that never matches, are not in the schemas",
    "negative_data_rejection": "readers are lenient where the document is strict: enums in any case, nulls as absent",
    "use_after_free": "history and ends of deleted things stay readable on purpose",
    "ensure_resource_availability": "a created thing can be one that the next request already ended",
}


def prepare(api: ServedApi) -> None:
    """What the examples of the document name exists."""
    with api.client() as client:
        for method, path, body in (
            ("PUT", "/v1/apps/default/flights", APP),
            ("PUT", "/v1/queues/mail", {"target": {"type": "worker"}}),
            ("POST", "/v1/queues/mail/tasks", {"key": "welcome", "lane": "customer-7", "after": "1d"}),
            ("PUT", "/v1/bookmarks/watch.default.flights", {"value": "1", "revision": 0}),
            ("POST", "/v1/programs/default.flights.join/runs", {"reason": "a job"}),
        ):
            answer = client.request(method, path, json=body)
            assert answer.is_success, (path, answer.text)


def fuzz(api: ServedApi, seconds: float, seed: int, phases: str) -> dict[str, Any]:
    """One run of schemathesis. Returns the number of requests by outcome, and its output when something failed."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "run.ndjson"
        command = [
            str(Path(sys.executable).with_name("schemathesis")),
            f"--config-file={CONFIG}",
            "run",
            f"{api.url}/v1/openapi.json",
            "--checks=all",
            "--exclude-path=/v1/dapr/{namespace}/{app}/import",  # lines of JSON, which it cannot write
            "--exclude-operation-id=uploadBundle",  # nor an archive
            "--exclude-operation-id=revokeToken",  # its own, after which every answer is 401
            "--exclude-operation-id=testWebhook",  # waits 20 s for a launcher, which this API has not got
            "--exclude-path=/v1/decisions",  # a stream that does not end
            f"--exclude-checks={','.join(OMITTED)}",
            f"--max-time={max(1, int(seconds))}",
            f"--seed={seed}",
            f"--phases={phases}",
            "--continue-on-failure",
            "--no-shrink",
            "--request-timeout=30",
            f"--header=Authorization: Bearer {api.token}",
            f"--report-ndjson-path={report}",
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=seconds + 300)
        return {"code": done.returncode, "output": done.stdout + done.stderr}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--phases", default="examples,coverage,fuzzing,stateful", help="those of schemathesis")
    asked = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    deadline, rounds, failed = time.monotonic() + 60 * asked.minutes, 0, 0
    with temporary_database() as database, served_api(database) as api:
        prepare(api)
        while (left := deadline - time.monotonic()) > 0 and (rounds == 0 or left > 20):
            found = fuzz(api, left, asked.seed + rounds, asked.phases)
            rounds += 1
            failed += found["code"] != 0
            sys.stdout.write(found["output"])
            sys.stdout.flush()
        alive = httpx.get(f"{api.url}/health/live").status_code == 200
    sys.stdout.write(f"RESULT {json.dumps({'rounds': rounds, 'failed': failed, 'alive': alive})}\n")
    return 0 if not failed and alive else 1


if __name__ == "__main__":
    sys.exit(main())
