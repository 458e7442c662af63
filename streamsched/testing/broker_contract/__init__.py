"""What every broker driver must hold. Subclass, give a `broker` fixture, done:

    class TestMyBroker(BrokerContract):
        @pytest.fixture
        def broker(self) -> OpenBroker:
            return lambda: open_broker("mylog://…")

`broker` opens the same log again and again, as if from several processes; the suite closes what it opened. The log may
be shared by all tests: topics and writers have fresh names. Compaction should be set to work on every record, or its
tests prove little. Only what `Capabilities` denies is skipped.

Asserts explain themselves when the suite is rewritten: `pytest.register_assert_rewrite("streamsched.testing")` in a
conftest, before this module is imported.
"""

from streamsched.testing.broker_contract.cleaning import Cleaning
from streamsched.testing.broker_contract.durability import Durability
from streamsched.testing.broker_contract.fairness import Fairness
from streamsched.testing.broker_contract.fencing import Fencing
from streamsched.testing.broker_contract.harness import Harness, Log, OpenBroker, Tail
from streamsched.testing.broker_contract.order import Order
from streamsched.testing.broker_contract.reading import Reading
from streamsched.testing.broker_contract.topics import Topics
from streamsched.testing.broker_contract.transactions import Transactions

__all__ = ["BrokerContract", "Log", "OpenBroker", "Tail"]


class BrokerContract(Topics, Reading, Order, Fairness, Transactions, Fencing, Cleaning, Durability, Harness):
    """All of it."""
