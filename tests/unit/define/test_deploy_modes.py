"""Where the driver of a Spark program runs, as the builder and JSON take it."""

from __future__ import annotations

import re
from typing import Any

import pytest

from streamsched import App
from streamsched.codec.schedules.schedule import app_from_json, app_to_json
from streamsched.domain.errors import DecodeError, InvalidDefinitionError


@pytest.mark.parametrize("mode", ["client", "cluster", "connect"])
def test_a_deploy_mode_is_kept(mode: str) -> None:
    app = App("shop")
    app.spark("join", main="join.py", deploy_mode=mode)

    assert app_from_json(app_to_json(app.definition())) == app.definition()


@pytest.mark.parametrize(
    ("fields", "path", "why"),
    [
        ({"deploy_mode": "clustr"}, "$.programs.join.deploy_mode", "client, cluster, connect"),
        ({"deploy_mode": "cluster", "master": "local[2]"}, "$.programs.join.master", "where no driver can run"),
        ({"deploy_mode": "connect", "master": "yarn"}, "$.programs.join.master", "needs sc://host:port"),
        ({"master": "sc://there:15002"}, "$.programs.join.master", "needs deploy_mode connect"),
        (
            {"deploy_mode": "cluster", "conf": {"spark.submit.deployMode": "cluster"}},
            '$.programs.join.conf["spark.submit.deployMode"]',
            "leave it out",
        ),
    ],
)
def test_what_does_not_fit_its_deploy_mode_is_refused(fields: dict[str, Any], path: str, why: str) -> None:
    with pytest.raises(InvalidDefinitionError, match=re.escape(why)) as caught:
        App("shop").spark("join", main="join.py", **fields)
    assert caught.value.path == path

    program = {"name": "join", "type": "spark", "main": "j.py", **fields}
    with pytest.raises((InvalidDefinitionError, DecodeError), match=re.escape(why)) as caught:
        app_from_json({"application": "shop", "programs": [program]})
    assert caught.value.path == path.replace(".join", "[0]")


@pytest.mark.parametrize("mode", ["cluster", "connect"])
def test_a_module_needs_client_mode(mode: str) -> None:
    with pytest.raises(InvalidDefinitionError, match="deploy_mode client") as caught:
        App("shop").spark("join", pymodule="tasks.join", deploy_mode=mode)
    assert caught.value.path == "$.programs.join.pymodule"
