"""Names with and without the default namespace."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsched.cli.naming import field_path, full_app, full_job, full_name, full_run, short_name, without_default
from streamsched.domain.errors import InvalidError

names = st.one_of(
    st.sampled_from(["default", "a", "manual-x", "1", "r1"]), st.from_regex(r"[a-zA-Z0-9_-]{1,40}", fullmatch=True)
)
namespaces = st.one_of(st.just("default"), st.from_regex(r"[a-zA-Z0-9_]{1,40}", fullmatch=True))
numbers = st.integers(1, 2**63 - 1)
schedules = st.builds("{}.{}.{}".format, namespaces, names, names | st.just("pipeline~2Ens~2Ejoin"))
jobs = st.builds("{}.{}.{}".format, schedules, numbers, numbers) | st.builds("{}.submitted-{}".format, schedules, names)
runs = st.one_of(
    st.builds("{}.r{}".format, jobs, numbers),
    st.builds("{}.manual-{}.r1".format, schedules, names),
    st.builds("{}.missed-{}-{}.r1".format, schedules, jobs, numbers),
)


@given(schedules)
def test_a_schedule_is_found_by_its_short_name(name: str) -> None:
    assert full_name(short_name(name)) == name
    assert full_name(name) == name


@given(jobs)
def test_a_job_is_found_by_its_short_id(job: str) -> None:
    assert full_job(short_name(job)) == job
    assert full_job(job) == job


@given(runs.filter(lambda run: not run.split(".")[2].startswith(("manual-", "missed-")) or run.startswith("default.")))
def test_a_run_is_found_by_its_short_id(run: str) -> None:
    assert full_run(short_name(run)) == run
    assert full_run(run) == run


@pytest.mark.parametrize("name", ["weekly", "a.b.c.d", "..."])
def test_an_invalid_schedule_name_is_refused(name: str) -> None:
    with pytest.raises(InvalidError, match=r"app\.name"):
        full_name(name)


def test_names_of_apps() -> None:
    assert (full_app("a"), full_app("prod.a"), full_app("")) == ("default.a", "prod.a", "")
    with pytest.raises(InvalidError):
        full_app("a.b.c")


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("$", ""),
        ("$.schedules[2].trigger", "schedules[2].trigger"),
        ("$[1].type", "[1].type"),
        ("app.yaml $.programs[0].main", "app.yaml programs[0].main"),
        ("app.yaml", "app.yaml"),
        ("limit", "limit"),
        ("--after", "--after"),
        ("/a$b/app.py:7", "/a$b/app.py:7"),
    ],
)
def test_paths_are_shown_without_a_dollar(path: str, shown: str) -> None:
    assert field_path(path) == shown


def test_the_default_namespace_is_removed_only_from_names_in_sentences() -> None:
    said = "7 new partitions of default.flights and mydefault.x of default.$a, host a.default.svc"
    assert without_default(said) == "7 new partitions of flights and mydefault.x of $a, host a.default.svc"
