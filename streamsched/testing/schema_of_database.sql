-- What tells two schemas apart, and whether a table was analyzed: as few rows as possible, all of them comparable.
WITH named AS (
    SELECT oid, nspname FROM pg_namespace WHERE nspname !~ '^pg_' AND nspname <> 'information_schema'
), relations AS (
    SELECT c.* FROM pg_class c JOIN named n ON n.oid = c.relnamespace
), facts (fact) AS (
    SELECT format('%s %s', oid, nspname) FROM named
    UNION ALL
    SELECT format('%s %s %s %s %s %s', oid, relname, relkind, reloptions, relchecks, CASE WHEN relkind IN ('r', 'p') THEN reltuples END)
    FROM relations
    UNION ALL
    SELECT format('%s %s %s %s %s %s', attrelid, attnum, attname, atttypid, attnotnull, attisdropped)
    FROM pg_attribute JOIN relations ON relations.oid = attrelid
    UNION ALL
    SELECT format('%s %s %s %s', c.oid, conname, conrelid, convalidated) FROM pg_constraint c JOIN named n ON n.oid = c.connamespace
    UNION ALL
    SELECT format('%s %s %s %s', t.oid, tgname, tgrelid, tgenabled) FROM pg_trigger t JOIN relations r ON r.oid = t.tgrelid
    UNION ALL
    SELECT format('%s %s %s', p.oid, proname, md5(prosrc)) FROM pg_proc p JOIN named n ON n.oid = p.pronamespace
    UNION ALL
    SELECT format('%s %s %s', indexrelid, indisvalid, indisready) FROM pg_index JOIN relations r ON r.oid = indrelid
    UNION ALL
    SELECT format('%s %s', starelid, staattnum) FROM pg_statistic JOIN relations r ON r.oid = starelid
    UNION ALL
    SELECT format('%s', setconfig) FROM pg_db_role_setting s JOIN pg_database d ON d.oid = s.setdatabase
    WHERE d.datname = current_database()
)
SELECT count(*), md5(string_agg(fact, E'\n' ORDER BY fact COLLATE "C")) FROM facts
