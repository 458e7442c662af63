-- What a job waits for in a group's queue, so that a slot that becomes free wakes those it is enough for, as many as
-- there are slots, and no others. NULL: written by a release that did not say, so any slot wakes it.
ALTER TABLE group_waits ADD COLUMN weight integer;
ALTER TABLE group_waits ADD COLUMN max_slots integer;  -- its schedule's own limit of the group
-- Nothing but slots of groups holds it: the end of a run of its program alone does not help.
ALTER TABLE group_waits ADD COLUMN slots_only boolean NOT NULL DEFAULT false;
