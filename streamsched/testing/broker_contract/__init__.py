"""The contract of broker drivers as a test suite. Subclass it and provide a `broker` fixture:

    class TestMyBroker(BrokerContract):
        @pytest.fixture
        def broker(self) -> OpenBroker:
            return lambda: open_broker("mylog://…")

`broker` opens the same log on every call, as several processes would; the suite closes the brokers. Tests may share one
log: topics and writers have unique names. Configure compaction to process every record, otherwise its tests check
little. Tests of a capability that the driver's `Capabilities` deny are skipped.

For detailed assertion messages, call `pytest.register_assert_rewrite("streamsched.testing")` in a conftest before this
module is imported.
"""

from streamsched.testing.broker_contract.cleaning import Cleaning
from streamsched.testing.broker_contract.durability import Durability
from streamsched.testing.broker_contract.fairness import Fairness
from streamsched.testing.broker_contract.fencing import Fencing
from streamsched.testing.broker_contract.harness import Harness, Log, OpenBroker, Tail
from streamsched.testing.broker_contract.order import OrderContract
from streamsched.testing.broker_contract.reading import ReadingContract
from streamsched.testing.broker_contract.topics import Topics
from streamsched.testing.broker_contract.transactions import Transactions

__all__ = ["BrokerContract", "Log", "OpenBroker", "Tail"]


class BrokerContract(
    Topics, ReadingContract, OrderContract, Fairness, Transactions, Fencing, Cleaning, Durability, Harness
):
    """The complete contract."""
