"""Maps Java's time zone ids to IANA zones. CDAP replaces unknown ids by GMT; here they are an error.

>>> iana("PST"), iana("GMT+8"), iana("Europe/Berlin")
('America/Los_Angeles', 'Etc/GMT-8', 'Europe/Berlin')
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

#: Java's three-letter ids (`java.time.ZoneId.SHORT_IDS`), without those that are IANA names too.
_SHORT: Final[Mapping[str, str]] = MappingProxyType(
    {
        "ACT": "Australia/Darwin",
        "AET": "Australia/Sydney",
        "AGT": "America/Argentina/Buenos_Aires",
        "ART": "Africa/Cairo",
        "AST": "America/Anchorage",
        "BET": "America/Sao_Paulo",
        "BST": "Asia/Dhaka",
        "CAT": "Africa/Harare",
        "CNT": "America/St_Johns",
        "CST": "America/Chicago",
        "CTT": "Asia/Shanghai",
        "EAT": "Africa/Addis_Ababa",
        "ECT": "Europe/Paris",
        "IET": "America/Indiana/Indianapolis",
        "IST": "Asia/Kolkata",
        "JST": "Asia/Tokyo",
        "MIT": "Pacific/Apia",
        "NET": "Asia/Yerevan",
        "NST": "Pacific/Auckland",
        "PLT": "Asia/Karachi",
        "PNT": "America/Phoenix",
        "PRT": "America/Puerto_Rico",
        "PST": "America/Los_Angeles",
        "SST": "Pacific/Guadalcanal",
        "VST": "Asia/Ho_Chi_Minh",
    }
)
#: `GMT+8`, `GMT-08`, `GMT-08:00`. The IANA database has fixed zones for whole hours only.
_OFFSET: Final = re.compile(r"GMT([+-])(\d{1,2})(?::?00)?")
_WIDEST: Final = {"+": 14, "-": 12}


def iana(zone: str) -> str:
    """The IANA zone of a Java id; anything else is returned unchanged and unchecked."""
    offset = _OFFSET.fullmatch(zone)
    if offset is None:
        return _SHORT.get(zone, zone)
    sign, hours = offset[1], int(offset[2])
    if hours > _WIDEST[sign]:
        return zone
    # In IANA names, offsets west of Greenwich are positive.
    return "Etc/GMT" if not hours else f"Etc/GMT{'-' if sign == '+' else '+'}{hours}"
