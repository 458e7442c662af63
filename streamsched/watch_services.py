"""Composition of what watches and what notifies: deadlines, expectations with the evidence of them, messages about
failures, and mail.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from streamsched.catalog.resumption import Resumption
from streamsched.config import Settings
from streamsched.domain.programs.secret_rules import SecretRule
from streamsched.launcher.deadlines import DeadlineWatch
from streamsched.ports.broker import Broker
from streamsched.ports.clock import Clock
from streamsched.ports.notifier import Notifier
from streamsched.process.supervision import Loop
from streamsched.secrets.resolver import Secrets, installed
from streamsched.store.catalog.app_expectations import PostgresExpectationGrants
from streamsched.store.catalog.catalog import PostgresCatalogStore
from streamsched.store.catalog.pauses import PostgresPauseStore
from streamsched.store.connections import Pool
from streamsched.store.expectations.evidence import PostgresCompletions, PostgresEvidence
from streamsched.store.expectations.judgement import PostgresExpectationStore
from streamsched.store.expectations.records import PostgresExpectationReader
from streamsched.store.runs.deadlines import PostgresDeadlineStore
from streamsched.store.webhooks.notices import NoticeStore
from streamsched.store.webhooks.work_history import PostgresWorkHistory
from streamsched.timers.evidence import CompletionIntake, EvidenceIntake
from streamsched.timers.expectations import ExpectationWatch
from streamsched.webhooks.mailing import MailDelivery
from streamsched.webhooks.notices import NoticeFeeding

_Roles = Mapping[str, Callable[[], Coroutine[Any, Any, None]]]


def watching_services(pool: Pool, settings: Settings) -> Mapping[str, Any]:
    """The services of the HTTP application that expectations and recipients have (`ApiServices`)."""
    return {
        "expectations": PostgresExpectationReader(pool),
        "expectation_grants": PostgresExpectationGrants(pool),
        "mail": settings.mail(),
    }


def watching_loops(pool: Pool, notifier: Notifier, clock: Clock) -> Mapping[str, Loop]:
    """What every launcher does, by the database's clock: it judges deadlines and expectations when they are due, and
    pauses and resumes schedules.
    """
    catalog, pauses = PostgresCatalogStore(pool), PostgresPauseStore(pool)
    return {
        "resumption": lambda: Resumption(store=catalog, pauses=pauses, notifier=notifier, clock=clock).run(),
        "deadlines": lambda: DeadlineWatch(PostgresDeadlineStore(pool), notifier, clock).run(),
        "expectations": lambda: ExpectationWatch(PostgresExpectationStore(pool), notifier, clock).run(),
    }


def watching_roles(settings: Settings, pool: Pool, broker: Broker, clock: Clock) -> _Roles:
    """What one launcher does at a time, by the name of the role."""
    notices = NoticeStore(pool, pages=settings.pages_url.rstrip("/"))
    return {
        "evidence": lambda: EvidenceIntake(broker, PostgresEvidence(pool), clock).run(),
        "completions": lambda: CompletionIntake(PostgresCompletions(pool), clock).run(),
        "notices": lambda: NoticeFeeding(PostgresWorkHistory(pool), notices, clock).run(),
    }


def make_mail(pool: Pool, settings: Settings, environ: Mapping[str, str], clock: Clock) -> MailDelivery:
    """The delivery of mail. Only the reference of the settings can be read by it."""
    mail = settings.mail()
    rules = [] if mail is None or mail.secret is None else [SecretRule.parse(f"*={mail.secret.reference}")]
    return MailDelivery(NoticeStore(pool), mail, Secrets(rules, environ, installed()), clock)
