"""Making a plug-in runs code of others in the process that checks a definition."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from streamsched.domain.constraints.plugin import PlugIn
from streamsched.domain.errors import InvalidError
from streamsched.launcher.plugins import Answer, make_plugin


@pytest.mark.parametrize("raised", [SystemExit(3), KeyboardInterrupt(), RuntimeError("no")])
def test_a_plug_in_that_ends_the_process_when_it_is_made_is_refused(raised: BaseException) -> None:
    def make(_config: Mapping[str, Any]) -> Answer:
        raise raised

    with pytest.raises(InvalidError, match=type(raised).__name__):
        make_plugin(PlugIn("hostile"), {"hostile": lambda: make})
