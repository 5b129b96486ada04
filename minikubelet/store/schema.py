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
    # Jobs and CronJobs. Times are unix seconds; JSON where it says so. `store.jobs` reads and writes them.
    """
    CREATE TABLE jobs (
        uid TEXT PRIMARY KEY,
        namespace TEXT NOT NULL,
        name TEXT NOT NULL,
        owner TEXT NOT NULL,             -- the CronJob's uid, or empty
        generation INTEGER NOT NULL,
        state TEXT NOT NULL,             -- current, replaced, removed, expired, tombstone
        file TEXT NOT NULL,
        job BLOB NOT NULL,               -- the defaulted Job, JSON
        spec_hash TEXT NOT NULL,
        suspend INTEGER,                 -- by command, over the manifest's
        created_at REAL NOT NULL,
        start_time REAL,
        completion_time REAL,
        succeeded INTEGER NOT NULL,
        failed INTEGER NOT NULL,
        completed TEXT NOT NULL,         -- index set
        failed_indexes TEXT NOT NULL,    -- index set
        conditions BLOB NOT NULL,        -- JSON
        failure_times BLOB NOT NULL,     -- of the failures since the last success, JSON
        success_time REAL NOT NULL,
        UNIQUE (namespace, name)
    ) STRICT;
    CREATE TABLE job_pods (
        uid TEXT PRIMARY KEY,
        job_uid TEXT NOT NULL REFERENCES jobs (uid) ON DELETE CASCADE,
        namespace TEXT NOT NULL,
        name TEXT NOT NULL,
        idx INTEGER,                     -- completion index
        failures INTEGER NOT NULL,       -- job-index-failure-count
        ignored INTEGER NOT NULL,        -- job-index-ignored-failure-count
        created_at REAL NOT NULL,
        pod BLOB NOT NULL,               -- the Pod as it was made, JSON
        mark TEXT,                       -- why it was marked for deletion
        marked_at REAL,
        outcome TEXT,                    -- succeeded, failed, ignored, dropped: written once
        outcome_at REAL,
        phase TEXT NOT NULL DEFAULT '',  -- the last one
        exit_codes BLOB NOT NULL DEFAULT X'7B7D',  -- by container, JSON
        cut INTEGER NOT NULL DEFAULT 0,  -- its index was cut off by scaling down
        gone INTEGER NOT NULL DEFAULT 0, -- nothing of it is left on the host
        UNIQUE (namespace, name)
    ) STRICT;
    CREATE INDEX job_pods_of ON job_pods (job_uid);
    CREATE UNIQUE INDEX one_open_pod_per_index ON job_pods (job_uid, idx) WHERE outcome IS NULL AND idx IS NOT NULL;
    CREATE TABLE job_indexes (
        job_uid TEXT NOT NULL REFERENCES jobs (uid) ON DELETE CASCADE,
        idx INTEGER NOT NULL,
        failures INTEGER NOT NULL,       -- the counts of its next pod
        ignored INTEGER NOT NULL,
        finished_at REAL NOT NULL,       -- of its last failed pod
        PRIMARY KEY (job_uid, idx)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE cronjobs (
        uid TEXT PRIMARY KEY,
        namespace TEXT NOT NULL,
        name TEXT NOT NULL,
        file TEXT NOT NULL,
        cron BLOB NOT NULL,              -- the defaulted CronJob, JSON
        created_at REAL NOT NULL,
        reference_at REAL NOT NULL,      -- nothing before it is caught up
        last_schedule_time REAL,
        last_successful_time REAL,
        removed INTEGER NOT NULL,
        UNIQUE (namespace, name)
    ) STRICT;
    CREATE TABLE cron_runs (
        cron_uid TEXT NOT NULL REFERENCES cronjobs (uid) ON DELETE CASCADE,
        minute INTEGER NOT NULL,         -- unix seconds of the scheduled time / 60
        job_uid TEXT NOT NULL,
        PRIMARY KEY (cron_uid, minute)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE job_events (
        id INTEGER PRIMARY KEY,
        object TEXT NOT NULL,            -- uid of the Job or CronJob
        at REAL NOT NULL,
        type TEXT NOT NULL,
        reason TEXT NOT NULL,
        message TEXT NOT NULL
    ) STRICT;
    CREATE INDEX job_events_of ON job_events (object);
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
