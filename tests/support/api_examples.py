"""One request for every operation of the API, in an order that works on a fresh home.

The API reference shows them, and a test sends them all. What a request needs from an answer before it (an id, a token)
is kept under a name and stands in braces in the requests behind it; in `NOW` a time is put.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

SHOP = "origin:forge.example/ana/shop"
PORT = "For the record: production listens on port 8443."
CHANGE = "Correction: production listens on port 9443, not 8443."
NOW = "{now}"
COUPON = (
    "The checkout page breaks when the coupon is empty, please find out why the coupon fails",
    "Where in the checkout is the coupon validated, in the form or in the coupon service?",
)
KIOSK = "For the record: the kiosk listens on port 7070."
POSTGRES = "We must migrate the Postgres database to version 17, what changes in our Postgres schema?"


@dataclass(frozen=True, kw_only=True, slots=True)
class Example:
    """One request.

    Attributes:
        operation: its id in the document.
        path: as it is asked, with its query; names in braces stand for what an answer before told.
        status: of its answer.
        keep: what is kept of its answer, by name: a path of keys and numbers.
        shown: in the reference; what only prepares another is not.
    """

    operation: str
    path: str
    body: Any = None
    status: int = 200
    keep: dict[str, str] = field(default_factory=dict[str, str])
    shown: bool = True


def _prompt(session: str, text: str, key: str, kind: str = "prompt") -> dict[str, Any]:
    data = {"text": text} if text else {}
    return {
        "id": f"event-{key}", "host": "claude-code", "kind": kind, "session": session, "at": NOW, "project": [SHOP],
        "data": data,
    }  # fmt: skip


def _of(operation: str, path: str, body: Any = None, status: int = 200, **keep: str) -> Example:
    return Example(operation=operation, path=path, body=body, status=status, keep=keep)


def _before(operation: str, path: str, body: Any = None, status: int = 200, **keep: str) -> Example:
    return Example(operation=operation, path=path, body=body, status=status, keep=keep, shown=False)


_MEMORIES, _THREADS = "/api/memory/memories", "/api/memory/threads"

EXAMPLES: tuple[Example, ...] = (
    _of("daemon_health", "/health"),
    # Told, listed, found.
    _of("memory_add_memory", _MEMORIES, {"text": PORT, "project": [SHOP]}, 201, memory_id="actions.0.id"),
    _of("memory_add_fact", "/api/memory/facts", {"key": "editor", "value": "Helix", "scope": "user"}),
    _of("memory_facts", f"/api/memory/facts?project={SHOP}&limit=1"),
    _of("facts_one", "/api/memory/facts/editor"),
    _of("facts_change", "/api/memory/facts/editor", {"value": "Neovim"}),
    _of("facts_delete", "/api/memory/facts/editor"),
    _of("novelty_memories", f"{_MEMORIES}?kind=fact&limit=1"),
    _of("memory_one_memory", _MEMORIES + "/{memory_id}"),
    _of("memory_search", "/api/memory/search?q=production%20port&collection=memories&limit=1"),
    _of("memory_ask", "/search", {"query": "Which port does production listen on?", "k": 1}),
    _of("novelty_novel", "/memory/novel", {"text": "Production listens on port 8443."}),
    _of("memory_stats", "/api/memory/stats"),
    # Rules and what is put in front of a prompt.
    _of(
        "rules_add_rule",
        "/api/memory/rules",
        {"text": "Run the linter before you commit.", "project": [SHOP]},
        201,
        rule_id="id",
    ),
    _of("rules_all_rules", "/api/memory/rules?limit=1"),
    _of("rules_change_rule", "/api/memory/rules/{rule_id}", {"enabled": False}),
    _of("rules_remove_rule", "/api/memory/rules/{rule_id}"),
    _of(
        "injecting_context_of",
        "/memory/context",
        {"prompt": "Which port does production listen on?", "channel": "bot", "session_id": "s-1", "project": SHOP},
    ),
    _of(
        "injecting_preview_of",
        "/api/memory/context/preview",
        {"prompt": "Which port does production listen on?", "channel": "bot", "session_id": "s-2", "project": SHOP},
    ),
    _of("memory_retrievals", "/api/memory/retrievals?limit=1", None, 200, recall_id="0.id"),
    _of("jobs_recall", "/api/memory/recalls/{recall_id}"),
    # Conversations.
    _of(
        "turns_add_turns",
        "/memory/turns",
        {
            "channel": "telegram",
            "session_id": "chat-7",
            "project": SHOP,
            "messages": [
                {"role": "user", "content": "The staging port is 8444.", "id": "m-1"},
                {"role": "assistant", "content": "Noted.", "id": "m-2"},
            ],
        },
        202,
    ),
    _of("turns_messages", "/api/memory/messages?channel=telegram&session_id=chat-7&limit=2"),
    _of(
        "extracting_extract",
        "/memory/extract",
        {
            "messages": [{"role": "user", "content": "We decided to keep the invoices in Postgres."}],
            "source": "bot/shop",
        },
    ),
    _of(
        "hooks_deliver",
        "/hooks/events",
        {"events": [_prompt("a", COUPON[0], "1")], "context": True},
    ),
    _of("hooks_delivered", "/hooks/delivered", {"recall": "01k0000000000000000000000a"}),
    _before("hooks_deliver", "/hooks/events", {"events": [_prompt("a", COUPON[1], "2")]}),
    _before("hooks_deliver", "/hooks/events", {"events": [_prompt("b", POSTGRES, "3")]}),
    _before(
        "memory_search", "/api/memory/search?q=coupon%20service&collection=turns&limit=1", None, 200, turn_id="0.id"
    ),
    _of("turns_events", "/api/memory/events?state=read&limit=1"),
    # Lines of work.
    _of("threads_list_threads", f"{_THREADS}?limit=2", None, 200, other_id="0.id"),
    _of("threads_why_thread", "/api/memory/turns/{turn_id}/thread", None, 200, thread_id="thread_id"),
    _of("threads_one_thread", _THREADS + "/{thread_id}"),
    _of("turns_one_turn", "/api/memory/turns/{turn_id}?around=1"),
    _of("threads_change_thread", _THREADS + "/{thread_id}", {"title": "Coupons at the checkout"}),
    _of(
        "bridges_add",
        "/api/memory/bridges",
        {"source": "{thread_id}", "target": "{other_id}", "type": "refines"},
        201,
        bridge_id="id",
    ),
    _of("bridges_bridges", "/api/memory/bridges?thread={thread_id}&limit=1"),
    _of("bridges_graph", "/api/memory/graph?format=json&limit=10"),
    _of("bridges_remove", "/api/memory/bridges/{bridge_id}"),
    _of(
        "threads_split_thread",
        _THREADS + "/{thread_id}/split",
        {"turns": ["{turn_id}"], "title": "Validation"},
        200,
        part_id="id",
    ),
    _of("threads_move_turns", _THREADS + "/{thread_id}/move", {"turns": ["{turn_id}"]}),
    _of("threads_merge_thread", _THREADS + "/{other_id}/merge", {"into": "{thread_id}"}),
    _of("topics_topics", "/api/memory/topics?limit=2"),
    _of("topics_timeline", "/api/memory/timeline?limit=1"),
    _of("concepts_concepts", "/api/memory/concepts?limit=2"),
    _of("notes_vault", "/api/memory/notes"),
    _of("notes_preview", "/api/memory/notes/preview?path=Work/Shop.md"),
    _of("notes_anew", "/api/memory/notes/anew", {}),
    # Changing one's mind.
    _of("changing_change_memory", _MEMORIES + "/{memory_id}", {"pinned": True}),
    _of("changing_selection", _MEMORIES + "/selection", {"ids": ["{memory_id}"], "action": "unpin"}),
    _before("changing_change_memory", _MEMORIES + "/{memory_id}", {"pinned": True}),
    _before("memory_add_memory", _MEMORIES, {"text": CHANGE, "project": [SHOP]}, 201, review_id="actions.0.review"),
    _of("changing_reviews", "/api/memory/review?limit=1"),
    _of("changing_one_review", "/api/memory/review/{review_id}"),
    _of("changing_settle", "/api/memory/review/{review_id}", {"settle": "old"}),
    _of(
        "changing_supersede_one",
        "/memory/supersede",
        {"old_id": "{memory_id}", "new_text": "Production listens on port 9443.", "source": "bot/shop"},
        200,
        new_id="new_id",
    ),
    _of("changing_undo_one", "/api/memory/undo", {"memory_id": "{new_id}", "dry_run": True}),
    _of("changing_bin_one", _MEMORIES + "/{new_id}/bin"),
    _of("changing_restore_one", _MEMORIES + "/{new_id}/restore"),
    _of("changing_history", _MEMORIES + "/{new_id}/history"),
    _before("hooks_deliver", "/hooks/events", {"events": [_prompt("c", KIOSK, "4")]}),
    _of("changing_session_changes", "/api/memory/sessions/c/changes"),
    _of("changing_revert_session", "/api/memory/sessions/c/revert", {"dry_run": True}),
    _of("changing_verify", "/api/audit/verify"),
    # Projects, and two that are one.
    _of("projects_all_projects", "/api/memory/projects"),
    _of(
        "projects_add_names",
        "/api/memory/projects/aliases",
        {"project": SHOP, "names": ["origin:forge.example/ana/store"]},
    ),
    _before("memory_add_memory", _MEMORIES, {"text": "The till prints in euros.", "project": ["name:till"]}, 201),
    _of("projects_join", "/api/memory/projects/join", {"names": ["name:shop", "path:/home/ana/shop"], "dry_run": True}),
    _of("projects_merge", "/api/memory/projects/merge", {"source": "name:till", "into": SHOP, "dry_run": True}),
    # Taken along, brought back, consolidated, copied.
    _of("exporting_export", "/api/memory/export?format=json&what=memories"),
    _of("exporting_import_", "/api/memory/import", "{export}"),
    _of(
        "imports_take",
        "/api/memory/imports",
        {
            "source": "codex",
            "turns": [
                {
                    "session": "01a200ad-e79a-7560-bd3b-dbd8eaea8a28",
                    "key": "7",
                    "role": "user",
                    "source": "prompt",
                    "text": "Where do we keep the fonts of the kiosk?",
                    "at": 1763800000.0,
                    "project": [SHOP],
                }
            ],
            "mark": {"path": "/home/ana/.codex/sessions/rollout-7.jsonl", "session": "01a200ad", "offset": 4096},
        },
    ),
    _of("imports_offsets", "/api/memory/imports?source=codex"),
    _of("gardens_begin", "/api/memory/gardens", None, 202, garden_id="garden.id"),
    _of("gardens_gardens", "/api/memory/gardens?limit=1"),
    _of("gardens_garden", "/api/memory/gardens/{garden_id}"),
    _of("gardens_progress", "/api/memory/gardens/{garden_id}/progress?after=0"),
    _of("backups_make", "/api/memory/backups", None, 201),
    _of("backups_listed", "/api/memory/backups"),
    # Shared with a team.
    _before("rules_add_rule", "/api/memory/rules", {"text": "Sign every tag.", "project": [SHOP]}, 201, team_rule="id"),
    _of("team_join", "/api/team/join", {"url": "{hub}", "token": "{team_token}", "device": "laptop"}),
    _of("team_policy", "/api/team/policy", {"project": SHOP, "policy": "ask"}),
    _of("team_memories", "/api/team/memories?state=candidate"),
    _of("team_share", "/api/team/share", {"ids": ["{new_id}"]}),
    _before("team_share", "/api/team/share", {"ids": ["{team_rule}"]}),
    _before("team_synchronise", "/api/team/synchronise"),
    _of("team_accept", "/api/team/accept", {"ids": ["{team_rule}"]}),
    _of("team_synchronise", "/api/team/synchronise"),
    _of("team_status", "/api/team"),
    _of("team_unshare", "/api/team/unshare", {"ids": ["{new_id}"]}),
    _of("team_leave", "/api/team/leave"),
    # Forgotten for good.
    _of("forgetting_forget", "/api/memory/forget", {"text": "9443", "dry_run": True}, 200, forget="token"),
    _before(
        "forgetting_forget", "/api/memory/forget", {"text": "9443", "token": "{forget}"}, 200, receipt_id="receipt"
    ),
    _of("forgetting_receipts", "/api/memory/receipts?limit=1"),
    _of("forgetting_one_receipt", "/api/memory/receipts/{receipt_id}"),
    # A model's own notes.
    _of(
        "memory_tool_memory_tool",
        "/memory/tool",
        {"command": "create", "path": "/memories/progress.md", "file_text": "Coupons: half done.\n", "project": [SHOP]},
    ),
    # Settings, models, the queue.
    _of("memory_settings", "/api/memory/settings"),
    _of("memory_origins", "/api/memory/settings/origins"),
    _of("memory_change_settings", "/api/memory/settings", {"auto_retrieve_max_results": 3}),
    _of("embedding_embedding", "/embedding"),
    _of("embedding_begin", "/embedding/reindex", {"model": "hashing"}, 202),
    _of("models_status", "/extract/status"),
    _of("models_letters", "/extract/dead-letters"),
    _of("usage_usage", "/api/memory/usage?days=7"),
    _of("usage_activity", "/api/memory/activity?days=1"),
    _of("jobs_jobs", "/api/memory/jobs?state=dead&limit=1"),
    _of("jobs_letters", "/api/memory/dead-letters?limit=2", None, 200, job_id="0.id", dead_id="1.id"),
    _of("jobs_retry", "/api/memory/dead-letters/{job_id}/retry"),
    _of("jobs_discard", "/api/memory/dead-letters/{dead_id}"),
    # Who may ask.
    _of("tokens_create", "/api/tokens", {"name": "laptop", "scope": "read"}, 201, token_id="id", secret="token"),
    _of("tokens_listed", "/api/tokens"),
    _of("tokens_revoke", "/api/tokens/{token_id}"),
    _of("tokens_new_link", "/api/tokens/login-links", {"scope": "read"}, 201, link="url"),
    _of("tokens_sign_in", "/login/{link}", None, 303),
    _of("hosts_listed", "/api/hosts"),
    _of("static_static", "/static/live.js"),
    # The daemon about itself, and its end.
    _of("metrics_metrics", "/metrics"),
    _of("daemon_status", "/daemon/status"),
    _of("daemon_attention", "/daemon/attention"),
    _of("daemon_well", "/daemon/health"),
    _of("daemon_drain", "/daemon/drain"),
    _of("daemon_stop", "/daemon/stop"),
)
