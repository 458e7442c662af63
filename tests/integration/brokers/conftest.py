"""The contract's checked reader is used here too; pytest must be told to explain its asserts."""

import pytest

pytest.register_assert_rewrite("streamsched.testing")
