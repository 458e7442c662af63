"""Names of zones: IANA's, spelled as IANA spells them, and no file that a machine keeps beside them."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from sysconfig import get_config_var
from zoneinfo import ZoneInfo

import pytest
import tzdata

from streamsched.domain.errors import InvalidDefinitionError
from streamsched.domain.time import zone as zones
from streamsched.domain.time.zone import check_zone, tzdata_version, zone_names, zone_of

#: Where this machine has its own zones; the tests use those that the product ships.
TZPATH = get_config_var("TZPATH").split(os.pathsep)
SHIPPED = (Path(tzdata.__file__).parent / "zones").read_text().split()
NOW = datetime(2026, 7, 1, 12, tzinfo=UTC)


def accepted(zone: str) -> bool:
    try:
        check_zone(zone, "$")
    except InvalidDefinitionError:
        return False
    return True


def test_every_name_of_the_shipped_data_is_accepted_and_has_rules() -> None:
    assert {name for name in SHIPPED if not accepted(name)} == {"Factory"}
    assert {zone_of(name).key for name in zone_names()} == zone_names()
    assert tzdata_version() == tzdata.IANA_VERSION


@pytest.mark.parametrize(
    "name",
    [
        *("localtime", "posixrules", "Factory", "right/UTC", "right/Europe/Berlin", "posix/Europe/Berlin", "posix"),
        *("europe/berlin", "EUROPE/BERLIN", "Europe/berlin", "utc", "Utc", "gmt", "Z"),
        *("", " ", "Europe", "Etc", "Europe/", "/Europe/Berlin", "Europe//Berlin", "Europe/Berlin/", "Europe\\Berlin"),
        *("./UTC", "../zoneinfo/UTC", "/usr/share/zoneinfo/UTC", "/etc/localtime", "Europe/../UTC", "~/UTC"),
        *("tzdata.zi", "zone.tab", "zone1970.tab", "leapseconds", "__init__.py", "+VERSION", "SECURITY", "iso3166.tab"),
        *(" UTC", "UTC ", "UTC\n", "UTC\0", "UTC+1", "+01:00", "CEST", "PST", "Mars/City", "Europe/Bеrlin"),  # Cyrillic
        "x" * 100_000,
    ],
)
def test_anything_else_is_refused(name: str) -> None:
    with pytest.raises(InvalidDefinitionError, match="is no IANA time zone"):
        check_zone(name, "$.zone")


def test_no_name_of_a_file_of_this_machine_is_accepted_that_iana_does_not_have() -> None:
    found = {
        str(path.relative_to(root))
        for root in TZPATH
        for path in Path(root).rglob("*")
        if path.is_file() and not path.is_symlink()
    }

    assert {name for name in found - set(SHIPPED) if accepted(name)} == set()


def test_rules_are_those_of_the_package_whatever_the_machine_has(monkeypatch: pytest.MonkeyPatch) -> None:
    def other_rules(key: str) -> ZoneInfo:
        raise AssertionError(f"the machine was asked for {key}")

    monkeypatch.setattr(zones, "ZoneInfo", type("Other", (), {"__new__": other_rules, "from_file": ZoneInfo.from_file}))
    zones.find_zone.cache_clear()

    assert NOW.astimezone(zone_of("Europe/Berlin")).hour == 14


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        ("CET+1", "; did you mean 'CET'?"),
        ("UTC-05:00", "; did you mean 'UTC'?"),
        ("utc", "; did you mean 'UTC'?"),
        ("Berlin", "; did you mean 'Europe/Berlin'?"),
        ("CEST", ""),
        ("MARS+1", ""),
    ],
)
def test_what_may_have_been_meant_is_named(given: str, hint: str) -> None:
    with pytest.raises(InvalidDefinitionError) as caught:
        check_zone(given, "$")

    assert caught.value.reason == f"'{given}' is no IANA time zone{hint}"
