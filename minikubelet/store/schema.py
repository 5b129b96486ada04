"""The one owner of the database's schema: its version and the steps from each version to the next."""

from __future__ import annotations

import sqlite3

#: Step n brings a database from version n to version n + 1.
_MIGRATIONS = (
    """
    CREATE TABLE pods (
        uid TEXT PRIMARY KEY,
        file TEXT NOT NULL,      -- the manifest file that defines it
        pod BLOB NOT NULL,       -- the defaulted Pod, JSON
        memory BLOB NOT NULL     -- its worker's memory, JSON
    ) STRICT;
    """,
)
VERSION = len(_MIGRATIONS)


class SchemaTooNewError(Exception):
    """The database was written by a newer minikubelet. Nothing has been changed in it."""

    def __init__(self, path: str, found: int) -> None:
        super().__init__(
            f"{path} has schema version {found}, this minikubelet knows versions up to {VERSION}: "
            "it was written by a newer minikubelet. Install that version again, or move the file away and begin anew."
        )


def migrate(connection: sqlite3.Connection, *, path: str) -> None:
    """Bring the database to `VERSION`, all steps or none. Raises SchemaTooNewError."""
    (found,) = connection.execute("PRAGMA user_version").fetchone()
    if found > VERSION:
        raise SchemaTooNewError(path, found)
    if found < VERSION:
        steps = "".join(_MIGRATIONS[found:])
        connection.executescript(f"BEGIN IMMEDIATE; {steps} PRAGMA user_version = {VERSION}; COMMIT;")
