-- While missed ticks are spread, a timer is due later than the tick it stands for.
ALTER TABLE timers ADD COLUMN tick_at timestamptz;  -- NULL: due_at is the tick's own time
