"""Maps Java's time zone ids to IANA zones. CDAP replaces unknown ids by GMT; here they are an error.

>>> iana("PST"), iana("GMT+8"), iana("GMT+05:30"), iana("Europe/Berlin")
('America/Los_Angeles', 'Etc/GMT-8', 'Asia/Kolkata', 'Europe/Berlin')
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from streamsched.domain.errors import DecodeError

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
#: `GMT+8`, `GMT-08`, `GMT-08:00`, `GMT+0530`. The IANA database has fixed zones for whole hours only.
_OFFSET: Final = re.compile(r"GMT([+-])(\d{1,2})(?::?([0-5]\d))?")
_WIDEST: Final = {"+": 14, "-": 12}
#: Zones that have another offset all year round, today and for as long as their rules are known.
_FRACTIONS: Final[Mapping[tuple[str, int, int], str]] = MappingProxyType(
    {
        ("-", 9, 30): "Pacific/Marquesas",
        ("+", 3, 30): "Asia/Tehran",
        ("+", 4, 30): "Asia/Kabul",
        ("+", 5, 30): "Asia/Kolkata",
        ("+", 5, 45): "Asia/Kathmandu",
        ("+", 6, 30): "Asia/Yangon",
        ("+", 8, 45): "Australia/Eucla",
        ("+", 9, 30): "Australia/Darwin",
    }
)


def iana(zone: str, path: str = "$") -> str:
    """The IANA zone of a Java id; anything else is returned unchanged and unchecked.

    Raises:
        DecodeError: it is empty; to CDAP that is GMT.
    """
    if not zone:
        raise DecodeError(path, "is empty: leave it out, or name an IANA time zone such as Europe/Berlin")
    offset = _OFFSET.fullmatch(zone)
    if offset is None:
        return _SHORT.get(zone, zone)
    sign, hours, minutes = offset[1], int(offset[2]), int(offset[3] or 0)
    if minutes:
        return _FRACTIONS.get((sign, hours, minutes), zone)
    if hours > _WIDEST[sign]:
        return zone
    # In IANA names, offsets west of Greenwich are positive.
    return "Etc/GMT" if not hours else f"Etc/GMT{'-' if sign == '+' else '+'}{hours}"
