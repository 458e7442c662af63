"""Contract suites are shipped, so pytest must be told to explain their asserts."""

import pytest

pytest.register_assert_rewrite("streamsched.testing")
