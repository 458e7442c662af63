"""The types of PostgreSQL's own arrays, so that a connection need not ask for them.

asyncpg knows the built-in types, but not their arrays: the first statement of each connection that has one makes it
search the catalog, which takes the server longer than most statements (5 to 15 ms). The numbers of built-in types are
the same in every PostgreSQL.
"""

from __future__ import annotations

from typing import Any, Final

#: Number and name of a type → the number of its array.
ARRAYS: Final = {
    (16, "bool"): 1000,
    (17, "bytea"): 1001,
    (20, "int8"): 1016,
    (21, "int2"): 1005,
    (23, "int4"): 1007,
    (25, "text"): 1009,
    (26, "oid"): 1028,
    (701, "float8"): 1022,
    (1082, "date"): 1182,
    (1184, "timestamptz"): 1185,
    (1186, "interval"): 1187,
    (1700, "numeric"): 1231,
    (2249, "record"): 2287,
    (2950, "uuid"): 2951,
    (3802, "jsonb"): 3807,
}


def declare_arrays(connection: Any) -> None:
    """Tells an asyncpg connection these arrays, as its own search would. Call it after `set_type_codec`: an array has
    the codec that its elements have then.
    """
    settings = connection._protocol.get_settings()
    settings.register_data_types([_found(number, *element) for element, number in ARRAYS.items()])


def _found(array: int, element: int, name: str) -> dict[str, object]:
    return {
        "oid": array,
        "ns": "pg_catalog",
        "name": f"_{name}",
        "kind": b"b",
        "basetype": None,
        "elemtype": element,
        "elemtype_name": name,
        "elemdelim": ",",
        "range_subtype": None,
        "attrtypoids": None,
        "attrnames": None,
    }
