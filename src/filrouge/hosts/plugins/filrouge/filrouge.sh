#!/bin/sh
# Finds the installed filrouge and executes it: `filrouge.sh hook` for a host's hooks, `filrouge.sh mcp` for its tools.
# Hosts that were started from a desktop have a short PATH, so the usual installation folders are searched too. If
# filrouge is not installed, a hook exits with 0 and prints nothing: the agent works as if there were no plugin.

find_filrouge() {
  command -v filrouge && return
  for place in "${HOME:-}/.local/bin" "${HOME:-}/.local/share/uv/tools/filrouge/bin" \
    "${HOME:-}/.local/share/pipx/venvs/filrouge/bin" "${HOME:-}/.local/pipx/venvs/filrouge/bin" \
    "${HOME:-}/bin" /usr/local/bin /opt/homebrew/bin; do
    [ -x "$place/filrouge" ] && echo "$place/filrouge" && return
  done
}

found=$(find_filrouge 2>/dev/null)
if [ -z "$found" ]; then
  [ "${1:-}" = hook ] && exit 0
  echo "filrouge is not installed where this plugin looks: run 'uv tool install .' in its repository." >&2
  exit 127
fi
if [ "${1:-}" = hook ]; then
  # Two hosts share one hooks file; only Codex sets this variable in a hook's environment.
  if [ -n "${PLUGIN_ROOT:-}" ]; then set -- hook --host codex; else set -- hook --host claude-code; fi
fi
exec "$found" "$@"
