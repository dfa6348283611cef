#!/bin/sh
# Puts a base backup in the place of the data, so that the next start recovers up to a time. PostgreSQL must be stopped.
# Arguments: the base backup, and the time, as '2026-11-27 14:05:00+00'; without a time, to the end of the log.
# Run it as root or as the owner of both; the former data stays beside the new one.
set -eu
if [ -e "$PGDATA/postmaster.pid" ]; then
  echo "Stop PostgreSQL first: $PGDATA/postmaster.pid is there." >&2
  exit 1
fi
if [ -e "$PGDATA" ]; then
  mv "$PGDATA" "$PGDATA.before-$(date -u +%Y%m%dT%H%M%SZ)"
fi
cp -a "$1" "$PGDATA"
chmod 700 "$PGDATA"
{
  echo "restore_command = 'cp $ARCHIVE/%f %p'"
  echo "recovery_target_action = 'promote'"
  echo "recovery_target_time = '${2:-}'"
} >>"$PGDATA/postgresql.auto.conf"
touch "$PGDATA/recovery.signal"
chown --reference="$1" "$PGDATA/recovery.signal"
