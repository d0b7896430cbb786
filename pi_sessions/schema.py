"""The tables of a store and the ordered migrations that make them.

A released migration never changes; a new one is appended and `VERSION` (mirrored into `pragma user_version`) goes up by
one. Imported only to create or migrate a store, because sqlite-utils costs more than any command that reads one.

One forest of entries, clustered by segment: a segment is a maximal unbranched chain written by one session, an entry's
key is `segment << 24 | position`, its parent is the key before it, or `segments.parent` for the first. So a path is a
few key ranges. Sessions, branches, labels and names are rows that point into the forest.
"""

from __future__ import annotations

import sqlite3

from sqlite_utils import Database
from sqlite_utils.migrations import Migrations

from pi_sessions.connection import APPLICATION_ID, SCHEMA_VERSION

migrations = Migrations("pi-session")

FIRST_TABLES = """
create table sessions(
  sid integer primary key,
  id text not null unique collate nocase,
  cwd text not null default '',
  header text,
  origin text,
  origin_key integer,
  created integer not null,
  name text,
  archived integer not null default 0,
  pinned integer not null default 0,
  deleted integer,
  branch text not null default 'main',
  parent_session text,
  parent_agent text,
  parent_call text,
  written integer not null default 0,
  messages integer not null default 0,
  first_user text,
  first_user_key integer,
  last integer not null,
  last_entry integer not null default 0
) strict;
create index sessions_last on sessions(last, last_entry);
create index sessions_cwd on sessions(cwd);
create index sessions_name on sessions(name) where name is not null;
create index sessions_origin on sessions(origin) where origin is not null;
create index sessions_parent on sessions(parent_session) where parent_session is not null;
create table branches(
  sid integer not null references sessions(sid),
  name text not null,
  leaf integer,
  primary key(sid, name)
) strict, without rowid;
create table tips(
  sid integer not null references sessions(sid),
  key integer not null,
  primary key(sid, key)
) strict, without rowid;
create table places(
  place text primary key,
  sid integer not null references sessions(sid)
) strict, without rowid;
create table segments(
  segment integer primary key,
  sid integer not null references sessions(sid),
  parent integer,
  depth integer not null
) strict;
create index segments_sid on segments(sid);
create index segments_parent on segments(parent) where parent is not null;
create table states(
  state integer primary key,
  provider text,
  model text,
  thinking text,
  unique(provider, model, thinking)
) strict;
create table entries(
  key integer primary key,
  id text not null,
  kind text not null,
  ts integer,
  seq integer not null,
  base integer,
  state integer,
  messages integer not null,
  payload text not null,
  extra text,
  blobs integer
) strict;
create index entries_id on entries(id);
create table compactions(
  key integer primary key,
  keep integer
) strict;
create table labels(
  sid integer not null references sessions(sid),
  target integer not null,
  text text not null,
  ts integer,
  primary key(sid, target)
) strict, without rowid;
create table blobs(
  hash blob primary key,
  encoded integer not null,
  bytes blob not null
) strict;
create table entry_blobs(
  key integer not null,
  at integer not null,
  hash blob not null references blobs(hash),
  primary key(key, at)
) strict, without rowid;
create table operations(
  op integer primary key,
  sid integer not null references sessions(sid),
  at integer not null,
  command text not null,
  summary text not null,
  changes text not null,
  undoes integer,
  undone_by integer
) strict;
create index operations_sid on operations(sid, op);
create index operations_undoes on operations(undoes) where undoes is not null;
create table imports(
  import integer primary key,
  sid integer not null references sessions(sid),
  op integer,
  branch text not null,
  leaf integer,
  at integer not null,
  format text not null,
  source text not null,
  source_id text not null,
  digest text not null,
  size integer not null,
  mtime integer not null,
  lines integer not null,
  entries integer not null,
  importer text not null,
  opening text
) strict;
create index imports_source_id on imports(source_id collate nocase);
create index imports_digest on imports(digest);
create index imports_source on imports(source);
create index imports_opening on imports(opening) where opening is not null;
create table sources(
  source text primary key,
  format text not null,
  importer text not null,
  stamp text not null
) strict, without rowid;
create table origins(
  key integer primary key,
  import integer not null references imports(import),
  entries integer not null,
  line integer not null,
  foreign_id text
) strict;
create table repairs(
  import integer not null references imports(import),
  line integer,
  code text not null,
  message text not null,
  key integer,
  original blob,
  lost integer not null
) strict;
create index repairs_import on repairs(import);
create table runs(
  run integer primary key,
  sid integer not null references sessions(sid),
  op integer not null references operations(op),
  branch text not null,
  own text,
  start integer,
  leaf integer,
  began integer not null,
  ended integer,
  outcome text,
  pid integer not null,
  host text not null
) strict;
create index runs_unfinished on runs(sid) where ended is null;
create table accepted(
  accepted integer primary key autoincrement,
  run integer not null references runs(run),
  kind text not null,
  message text not null,
  at integer not null
) strict;
create index accepted_run on accepted(run);
create table started_calls(
  run integer not null references runs(run),
  answer integer not null,
  call_id text not null,
  tool text not null,
  at integer not null,
  result text
) strict;
create index started_calls_run on started_calls(run);
create virtual table entry_index using fts5(
  text, content = '', tokenize = "unicode61 remove_diacritics 2"
);
create table indexed_segments(
  segment integer primary key,
  last integer not null
) strict;
create table indexed_sessions(
  sid integer primary key,
  written integer not null
) strict;
"""


@migrations()
def m001_first_tables(db: Database) -> None:
    """Everything the first release holds."""
    for statement in FIRST_TABLES.split(";\n"):
        if statement.strip():
            db.conn.execute(statement)


def migrate(connection: sqlite3.Connection) -> None:
    """Bring an open store to `SCHEMA_VERSION`; the caller holds the write lock.

    Args:
        connection: In a transaction begun with BEGIN IMMEDIATE: sqlite-utils then nests in savepoints, and several
            processes that open a new file at once wait for each other instead of failing.
    """
    migrations.apply(Database(connection, execute_plugins=False))
    connection.execute(f"pragma application_id = {APPLICATION_ID}")
    connection.execute(f"pragma user_version = {SCHEMA_VERSION}")
