-- Judgements about this server's clock (domain/clock_judge.py); the newest counts, and without one the clock is right.
-- `until` and `at` are the time that processes went by, `theirs` is what the clock said then.
CREATE TABLE IF NOT EXISTS clock_judgements (
    number bigint PRIMARY KEY CHECK (number > 0),
    fact text NOT NULL CHECK (fact IN ('jumped', 'overruled', 'returned', 'accepted', 'confirmed')),
    ahead_s double precision NOT NULL,
    until timestamptz,
    at timestamptz NOT NULL,
    theirs timestamptz NOT NULL,
    judged_by text NOT NULL,
    CHECK ((fact = 'jumped') = (ahead_s <> 0))
);
