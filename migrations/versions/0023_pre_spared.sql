-- When a check found that no end of a run can let the job go, so that it is woken by none: as long as that is its last
-- check. A check by older code, which says nothing of this, is later, and then the job is woken as ever.
ALTER TABLE jobs ADD COLUMN spared_at timestamptz;
