"""Users of `run_as` that separate nothing are refused at the start."""

from __future__ import annotations

import grp
import os
import pwd

import pytest

from streamsched.domain.errors import ConfigurationError
from streamsched.domain.programs.program_users import ProgramUsers
from streamsched.process.separation import check_users


def _known(monkeypatch: pytest.MonkeyPatch, **groups: int) -> None:
    """Users of this machine, by name, with their primary groups."""
    users = {
        name: pwd.struct_passwd((name, "x", 900 + number, gid, "", f"/home/{name}", "/bin/sh"))
        for number, (name, gid) in enumerate(groups.items())
    }
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(pwd, "getpwnam", users.__getitem__)
    monkeypatch.setattr(os, "getgrouplist", lambda _name, gid: [gid])
    monkeypatch.setattr(grp, "getgrgid", lambda gid: grp.struct_group((f"g{gid}", "x", gid, [])))


def test_two_users_with_one_primary_group_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    _known(monkeypatch, anna=50, bert=50, carl=51)

    with pytest.raises(
        ConfigurationError, match="users 'anna' and 'bert' of STREAMSCHED_RUN_AS have the same group g50"
    ):
        check_users(ProgramUsers.parse("sales=anna,finance=bert"))
    check_users(ProgramUsers.parse("sales=anna,finance=carl"))
    check_users(ProgramUsers.parse("sales=anna,finance=anna"))


def test_users_need_a_launcher_of_the_superuser(monkeypatch: pytest.MonkeyPatch) -> None:
    _known(monkeypatch, anna=50)
    monkeypatch.setattr(os, "geteuid", lambda: 7)

    with pytest.raises(ConfigurationError, match="started as the superuser"):
        check_users(ProgramUsers.parse("*=anna"))
    check_users(ProgramUsers.parse(""))
