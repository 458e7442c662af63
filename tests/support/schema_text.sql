-- The schema of a database as lines to read: sequences, functions, then tables by name with what belongs to each.
WITH tables AS (
    SELECT c.oid, c.relname AS name, c.reloptions AS options, pg_get_partkeydef(c.oid) AS key, p.inhparent::regclass AS parent,
        pg_get_expr(c.relpartbound, c.oid) AS bound
    FROM pg_class c LEFT JOIN pg_inherits p ON p.inhrelid = c.oid
    WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND c.relname <> 'alembic_version'
        AND c.relname !~ '_\d{8}(\d\d)?$'  -- parts that time made
), tails AS (
    SELECT oid, coalesce(' PARTITION BY ' || key, '') || coalesce(' WITH (' || array_to_string(options, ', ') || ')', '') || ';' AS tail
    FROM tables
), members AS (
    SELECT t.oid, false AS rule, a.attnum::text AS place, format('%I %s%s%s', a.attname, format_type(a.atttypid, a.atttypmod),
        CASE WHEN a.attnotnull THEN ' NOT NULL' ELSE '' END,
        CASE WHEN a.attidentity <> '' THEN ' GENERATED ALWAYS AS IDENTITY'
            WHEN a.attgenerated <> '' THEN format(' GENERATED ALWAYS AS (%s) STORED', pg_get_expr(d.adbin, d.adrelid))
            WHEN d.adbin IS NOT NULL THEN ' DEFAULT ' || pg_get_expr(d.adbin, d.adrelid) ELSE '' END) AS text
    FROM tables t JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum > 0 AND NOT a.attisdropped
    LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
    UNION ALL
    SELECT t.oid, true, n.conname, format('CONSTRAINT %I %s', n.conname, pg_get_constraintdef(n.oid))
    FROM tables t JOIN pg_constraint n ON n.conrelid = t.oid AND n.contype IN ('p', 'u', 'f', 'c')
), bodies AS (
    SELECT oid, string_agg('    ' || regexp_replace(text, '\s+', ' ', 'g'), E',\n'
        ORDER BY rule, CASE WHEN rule THEN 0 ELSE place::integer END, place) AS body
    FROM members GROUP BY oid
), pieces AS (
    SELECT 1 AS kind, relname::text AS name, 0 AS part, '' AS place, format('CREATE SEQUENCE %I;', relname) AS text
    FROM pg_class c WHERE relkind = 'S' AND relnamespace = 'public'::regnamespace
        AND NOT EXISTS (SELECT FROM pg_depend WHERE objid = c.oid AND deptype = 'i')
    UNION ALL
    SELECT 2, proname, 0, '', rtrim(pg_get_functiondef(oid)) || ';' FROM pg_proc WHERE pronamespace = 'public'::regnamespace
    UNION ALL
    SELECT 3, t.name, 0, '', CASE WHEN t.bound IS NULL THEN format(E'CREATE TABLE %I (\n%s\n)%s', t.name, b.body, s.tail)
        ELSE format('CREATE TABLE %I PARTITION OF %s %s%s', t.name, t.parent, t.bound, s.tail) END
    FROM tables t JOIN tails s USING (oid) JOIN bodies b USING (oid)
    UNION ALL
    SELECT 3, t.name, 1, i.indexrelid::regclass::text, pg_get_indexdef(i.indexrelid) || ';'
    FROM tables t JOIN pg_index i ON i.indrelid = t.oid
    WHERE NOT EXISTS (SELECT FROM pg_constraint WHERE conindid = i.indexrelid AND contype <> 'f')
        AND NOT EXISTS (SELECT FROM pg_inherits WHERE inhrelid = i.indexrelid)  -- copied from the parent's
    UNION ALL
    SELECT 3, t.name, 2, g.tgname, pg_get_triggerdef(g.oid) || ';' FROM tables t JOIN pg_trigger g ON g.tgrelid = t.oid
    WHERE NOT g.tgisinternal
)
SELECT string_agg(replace(text, 'public.', ''), CASE WHEN part > 0 THEN E'\n' ELSE E'\n\n' END ORDER BY kind, name, part, place) FROM pieces
