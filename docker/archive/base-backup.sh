#!/bin/sh
# Writes a base backup, and checks it. A restore starts from it, and continues with the archived log.
set -eu
name="$ARCHIVE/base-$(date -u +%Y%m%dT%H%M%SZ)"
pg_basebackup --username=postgres --pgdata="$name.part" --checkpoint=fast --wal-method=stream
pg_verifybackup --quiet "$name.part"
mv "$name.part" "$name"
echo "$name"
