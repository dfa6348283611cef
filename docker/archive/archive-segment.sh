#!/bin/sh
# PostgreSQL's archive_command: keeps a finished segment of the write-ahead log. Arguments: its path and its name.
# A segment appears under its name only when it is complete, and one that is there is never replaced.
set -eu
if [ -e "$ARCHIVE/$2" ]; then
  exec cmp -s "$1" "$ARCHIVE/$2"
fi
cp "$1" "$ARCHIVE/$2.part"
sync "$ARCHIVE/$2.part"
mv "$ARCHIVE/$2.part" "$ARCHIVE/$2"
