-- What each process of the installation says of itself: by which rules of zones it computes ticks, and how far its
-- machine's clock is ahead.
CREATE TABLE IF NOT EXISTS processes (
    id text PRIMARY KEY,
    role text NOT NULL,
    host text NOT NULL,
    pid integer NOT NULL,
    release text NOT NULL,
    tzdata text NOT NULL,
    own_ahead_s double precision NOT NULL,
    seen_at timestamptz NOT NULL
);

-- By which rules of zones, and after which judgement about the clock, the stored ticks were reviewed last; one row.
CREATE TABLE IF NOT EXISTS ticks_reviewed (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    tzdata text NOT NULL,
    judgement bigint NOT NULL,
    at timestamptz NOT NULL
);
