"""SessionStore: every conversation as an append-only tree in one SQLite file.

    with SessionStore.open("sessions.db") as store:
        session = store.create_session(cwd="/proj/demo")
        store.append_message(session.id, {"role": "user", "content": "hello"})
        fork = store.fork(session.id)
        store.rewind(session.id, None)
        store.undo(session.id)

The only part of the program that runs SQL writes, in pieces by idea: appending, branching, operation_log, importing,
runs, summary_writes; reading and forest only read. Synchronous; one store object belongs to one thread at a time.
"""

from __future__ import annotations

from pi_sessions.summary_writes import SummaryWrites


class SessionStore(SummaryWrites):
    """One SQLite file with all sessions; open it with `SessionStore.open`, close it or use it in a `with` block."""
