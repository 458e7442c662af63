"""Shapes of JSON: a frozen dataclass and a `JsonShape` of it. From these come the reader with its errors, the writer,
the schemas of bodies and answers with their examples, and the values that the client returns.

    @dataclass(frozen=True, slots=True, kw_only=True)
    class PoolSize:
        size: Annotated[int | None, About(4, least=0)]
        age: timedelta | None = None

    POOL_SIZE = JsonShape(PoolSize)
    POOL_SIZE.read({"size": 4, "age": "10m"})

`about` is what a member says besides its type, `kinds` what each type means, `json_shape` a whole object. Where a value
of the domain has the members of the JSON, it is the dataclass. What has several spellings, as triggers have, is read by
hand.
"""
