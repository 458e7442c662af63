-- Deliveries of this tick whose worker was lost (ADR 97).
ALTER TABLE tasks ADD COLUMN losses integer NOT NULL DEFAULT 0;
ALTER TABLE tasks ADD CONSTRAINT tasks_losses CHECK (losses >= 0) NOT VALID;
