"""Tables as datasets, in the programs that write and read them.

flights = DeltaDataset("flights", "s3://lake/flights")
flights.write(df, partition_by=["day"])                     # a commit of the job, and its event; or, of another writer:
flights.announce()                                          # in the job that wrote, after its commits

new = DeltaDataset("flights", "s3://lake/flights").read_new(current_run(), spark)      # in the job it started
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Mapping
from typing import Final

from streamsched.domain.errors import ConflictError, InvalidError, StreamschedError
from streamsched.domain.events.event import PartitionsAdded
from streamsched.domain.names import DatasetRef
from streamsched.domain.triggers.trigger import Partitions, leaves
from streamsched.emit.bookmarks import BookmarkClient, api_url
from streamsched.emit.client import Emitter
from streamsched.emit.destination import namespace, token_for
from streamsched.spark.context import RunContext
from streamsched.spark.manifest import Mode
from streamsched.spark.tables.table_log import TableLog, WriteCallback
from streamsched.spark.tables.table_source import TableCommit, TableSource
from streamsched.spark.tables.watcher import First, Watcher
from streamsched.spark.writes.job_writes import begun_write

log = logging.getLogger("streamsched.spark")

_PART: Final = re.compile(r"\.\d+$")


class TableDataset:
    """What tables of all formats share: `announce`, and which commits started a run."""

    def __init__(
        self,
        dataset: str | DatasetRef,
        source: TableSource,
        environ: Mapping[str, str] | None,
        watch: WriteCallback = lambda _: None,
    ) -> None:
        """Does no I/O. `watch` is called at each phase of a write.

        Raises:
            InvalidError: the dataset's name is invalid.
        """
        self._environ = os.environ if environ is None else environ
        self.dataset = (
            dataset if isinstance(dataset, DatasetRef) else DatasetRef.parse(dataset, namespace(self._environ))
        )
        self._table = source
        self._watch = watch

    def announce(self) -> tuple[TableCommit, ...]:
        """Emits one event for each commit since the last one that was announced, by this job or by a watcher; without
        any, for the newest commit. Returns those commits.

        A failure is logged and not raised, because the table is written: the next call, or a watcher, announces what
        was left. Returns () then.
        """
        return self._announce(None)

    def _write(self, log: TableLog, mode: Mode | str, commit_id: str | None) -> TableCommit | None:
        """Writes the rows as one commit, as `DeltaDataset.write` says."""
        if mode not in tuple(Mode):
            raise InvalidError("$.mode", f"must be one of {', '.join(Mode)} but is '{mode}'")
        mode, place = Mode(mode), self._table.location
        with begun_write(self._environ, self.dataset, commit_id) as (write, writes):
            if writes is not None and writes.must_fence(place):
                writes.note_fence(self.dataset, place, log.fence(writes.author))
            found = log.find(write.commit) or log.publish(write, mode, self._watch)
            if found is None:
                return None
            if found.work != write.work:
                changed = (
                    f"it was written with mode {found.mode}, and now with {mode}" if found.mode is not mode else ""
                )
                write.check_match(found.author, changed)
        self._announce(found.before)
        return found.commit

    def _announce(self, begin: str | None) -> tuple[TableCommit, ...]:
        """Without any announced commit, begins after this position of the source; None: with the newest commit."""
        try:
            url = api_url(self._environ)
            token = token_for(url, self._environ)
            with Emitter(url, source=f"/datasets/{self.dataset}", token=token) as emitter:
                watcher = Watcher(
                    self.dataset,
                    self._table,
                    bookmarks=BookmarkClient(url, self._environ),
                    emitter=emitter,
                    first=First.NEWEST,
                    begin=begin,
                )
                seen = watcher.run_once()
        except StreamschedError as exc:
            log.warning("table.unannounced dataset=%s table=%s why=%s", self.dataset, self._table.location, exc)
            return ()
        for why in seen.refused:
            log.error("table.refused dataset=%s commit=%s", self.dataset, why)
        for note in seen.notes:
            log.warning("table.noted dataset=%s note=%s", self.dataset, note)
        return seen.commits

    def new_commits(self, run: RunContext) -> Mapping[str, frozenset[str]]:
        """The commits that started this run, in order of arrival: id of the event → the partitions of it that counted.

        Logs a warning when the schedule counts each partition once (`distinct`), since it is then not given an older
        commit of a partition that was written again.

        Raises:
            ConflictError: the run was started by hand.
        """
        if not run.triggered:
            raise ConflictError(
                f"run {run.run_id} was started by hand, so no commits of {self.dataset} started it: check "
                "run.triggered, and read the table by other means then"
            )
        trigger = () if run.trigger is None else leaves(run.trigger)
        if any(isinstance(leaf, Partitions) and leaf.dataset == self.dataset and leaf.distinct for leaf in trigger):
            log.warning(
                "read_new: schedule %s counts each partition of %s once, so of several commits to one partition this "
                "run has the newest only; with partitions(…, distinct=False) it has all of them",
                *(run.schedule, self.dataset),
            )
        found: dict[str, frozenset[str]] = {}
        for event in run.events():
            if isinstance(event.fact, PartitionsAdded) and event.fact.dataset == self.dataset:
                name = _PART.sub("", event.id)
                found[name] = found.get(name, frozenset()) | {each.key for each in event.fact.partitions}
        return found
