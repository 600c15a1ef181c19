"""What a database's schema consists of, as PostgreSQL's catalogs describe it: two databases can be compared by it.

The order of columns and the comments inside functions don't count.
"""

import re

import psycopg

_DESCRIBE = """
with ours as (
    select c.oid, c.relname, c.relkind, c.relpersistence, c.reloptions from pg_class c
     where c.relnamespace = 'public'::regnamespace and c.relname not like 'schema_migration%'
       and not exists (select from pg_depend d
                        where d.classid = 'pg_class'::regclass and d.objid = c.oid and d.deptype = 'e'))
select 'table ' || relname,
       concat_ws(' ', relkind, relpersistence, reloptions, case when relkind = 'p' then pg_get_partkeydef(oid) end)
  from ours where relkind in ('r', 'p')
union all
select format('column %s.%s', o.relname, a.attname),
       concat_ws(' ', format_type(a.atttypid, a.atttypmod), case when a.attnotnull then 'not null' end,
                 'default ' || pg_get_expr(d.adbin, d.adrelid), 'identity ' || nullif(a.attidentity::text, ''),
                 'generated ' || nullif(a.attgenerated::text, ''), 'storage ' || a.attstorage::text,
                 'collate ' || (select l.collname from pg_collation l where l.oid = a.attcollation))
  from ours o join pg_attribute a on a.attrelid = o.oid and a.attnum > 0 and not a.attisdropped
  left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
 where o.relkind in ('r', 'p', 'v')
union all
select 'index ' || o.relname, pg_get_indexdef(o.oid) from ours o where o.relkind in ('i', 'I')
union all
select format('constraint %s.%s', o.relname, c.conname), pg_get_constraintdef(c.oid)
  from pg_constraint c join ours o on o.oid = c.conrelid where c.contype <> 'n'
union all
select 'view ' || o.relname, pg_get_viewdef(o.oid) from ours o where o.relkind = 'v'
union all
select 'sequence ' || o.relname, concat_ws(' ', s.seqtypid::regtype, s.seqstart, s.seqincrement)
  from ours o join pg_sequence s on s.seqrelid = o.oid
union all
select format('trigger %s.%s', o.relname, t.tgname), pg_get_triggerdef(t.oid)
  from pg_trigger t join ours o on o.oid = t.tgrelid where not t.tgisinternal
union all
select 'function ' || p.oid::regprocedure, pg_get_functiondef(p.oid) from pg_proc p
 where p.pronamespace = 'public'::regnamespace
   and not exists (select from pg_depend d
                    where d.classid = 'pg_proc'::regclass and d.objid = p.oid and d.deptype = 'e')
union all
select 'enum ' || t.typname, string_agg(e.enumlabel, ', ' order by e.enumsortorder)
  from pg_type t join pg_enum e on e.enumtypid = t.oid group by t.typname
"""


def describe(connection: psycopg.Connection) -> dict[str, str]:
    """Every object of the schema, with its definition."""
    rows = connection.execute(_DESCRIBE).fetchall()
    return {name: " ".join(re.sub(r"--[^\n]*", "", definition).split()) for name, definition in rows}


def differences(first: dict[str, str], second: dict[str, str]) -> list[str]:
    """The objects that two schemas don't have in common, or define differently."""
    return sorted(name for name in first.keys() | second.keys() if first.get(name) != second.get(name))
