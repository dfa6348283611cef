// Filrouge's plugin for OpenClaw: captures what people say, and adds memories to prompts.
//
// OpenClaw does not run commands on events, so this plugin does: it sends each event and its context to
// `filrouge hook --host openclaw` and adds the output to the prompt. It stores nothing and makes no network requests.
// A failure never stops the agent: no handler throws, and each call has a deadline.

import { spawn } from "node:child_process";
import { accessSync, constants } from "node:fs";
import { homedir } from "node:os";
import { delimiter, join } from "node:path";
import { fileURLToPath } from "node:url";

const HOST = "openclaw";
const DEADLINE_MS = 10_000; // hooks limit themselves (`hook_wait_ms`, 8 s at most); this covers one that hangs
const LATE_HOOK_MS = 30_000; // on a slow machine a hook starts late; it may still finish, so that its event is stored
const PERSON_TRIGGERS = [undefined, null, "", "user", "manual"];
const MAX_SESSIONS = 1000;
const MAX_OUTPUT_CHARACTERS = 200_000;

/** Returns the configured program if it exists, else the first on the PATH or in the usual installation folders. */
function findProgram(configured) {
  const folders = (process.env.PATH ?? "").split(delimiter).concat([
    join(homedir(), ".local", "bin"),
    join(homedir(), "bin"),
    "/usr/local/bin",
    "/opt/homebrew/bin",
    fileURLToPath(new URL("../../../../../../../bin", import.meta.url)), // this file's environment
  ]);
  for (const path of [configured, ...folders.map((folder) => folder && join(folder, "filrouge"))]) {
    if (!path) continue;
    try {
      accessSync(path, constants.X_OK);
      return path;
    } catch {
      continue;
    }
  }
  return "";
}

/** Runs the hook for one envelope and resolves to the context it printed, or an empty text. Never rejects. */
function runHook(executable, envelope) {
  return new Promise((resolve) => {
    let child;
    let printed = "";
    const done = (context) => {
      clearTimeout(timer);
      resolve(context);
    };
    const timer = setTimeout(() => {
      done("");
      letFinish(child);
    }, DEADLINE_MS);
    try {
      const input = JSON.stringify(envelope);
      child = spawn(executable, ["hook", "--host", HOST], { stdio: ["pipe", "pipe", "ignore"], windowsHide: true });
      child.on("error", () => done(""));
      child.stdin.on("error", () => {}); // it exited without reading; `close` follows
      child.stdout.setEncoding("utf8");
      child.stdout.on("data", (chunk) => {
        if (printed.length < MAX_OUTPUT_CHARACTERS) printed += chunk;
      });
      child.on("close", () => done(contextIn(printed)));
      child.stdin.end(input);
    } catch {
      done("");
    }
  });
}

/** Lets a late hook finish without making the agent wait for it. */
function letFinish(child) {
  const end = setTimeout(() => child.kill("SIGKILL"), LATE_HOOK_MS);
  child.on("close", () => clearTimeout(end));
  for (const handle of [child, child.stdout, end]) handle.unref?.();
}

function contextIn(printed) {
  try {
    const { context } = JSON.parse(printed);
    return typeof context === "string" ? context : "";
  } catch {
    return "";
  }
}

/** Returns the fields of a context that identify the agent, session and run; the rest is not sent. */
function identity(ctx, event) {
  const { agentId, sessionKey, workspaceDir, trigger, runId, inputProvenance } = ctx ?? {};
  const sessionId = ctx?.sessionId ?? event?.sessionId;
  return { agentId, sessionKey, sessionId, workspaceDir, trigger, runId, inputProvenance };
}

/** Returns the messages of the last turn; earlier turns were sent when they ended. */
function lastTurn(messages) {
  if (!Array.isArray(messages)) return [];
  const opening = messages.findLastIndex((message) => message?.role === "user");
  return messages.slice(Math.max(opening, 0));
}

function isFromPerson(ctx) {
  const kind = ctx?.inputProvenance?.kind;
  return PERSON_TRIGGERS.includes(ctx?.trigger) && (kind === undefined || kind === "external_user");
}

export default {
  id: "filrouge",
  name: "Filrouge",
  description: "A local memory that OpenClaw shares with your other agents.",
  register(api) {
    const executable = findProgram(api?.pluginConfig?.executable);
    if (!executable) {
      api?.logger?.warn?.("filrouge is not installed where this plugin looks; set its `executable`.");
      return;
    }
    const openedSessions = new Set(); // sessions whose start was sent
    const promptedRuns = new Set(); // runs whose prompt was sent
    const send = (hook, event, ctx) => runHook(executable, { hook, event, ctx });
    const safely = (handler) => async (event, ctx) => {
      try {
        return await handler(event ?? {}, ctx ?? {});
      } catch {
        return undefined;
      }
    };
    const remember = (set, name) => {
      if (set.size >= MAX_SESSIONS) set.delete(set.values().next().value);
      set.add(name);
    };

    api.on(
      "before_prompt_build",
      safely(async (event, ctx) => {
        if (!isFromPerson(ctx)) return undefined;
        const ids = identity(ctx, event);
        const { prompt, currentUserMessage, currentUserMessageId } = event;
        const parts = [];
        if (!openedSessions.has(ids.sessionId)) {
          remember(openedSessions, ids.sessionId);
          parts.push(await send("session_start", { sessionId: ids.sessionId }, ids));
        }
        remember(promptedRuns, ids.runId ?? ids.sessionId);
        parts.push(await send("before_prompt_build", { prompt, currentUserMessage, currentUserMessageId }, ids));
        const context = parts.filter(Boolean).join("\n\n");
        return context ? { prependContext: context } : undefined;
      }),
    );
    api.on(
      "agent_end",
      safely(async (event, ctx) => {
        if (!isFromPerson(ctx)) return;
        const ids = identity(ctx, event);
        ids.runId ??= event.runId;
        const prompted = [ids.runId, ids.sessionId].map((name) => promptedRuns.delete(name)).includes(true);
        const { runId, success, durationMs } = event;
        const ended = { runId, success, durationMs, messages: lastTurn(event.messages) };
        await send("agent_end", ended, { ...ids, prompted });
      }),
    );
    api.on(
      "before_compaction",
      safely(async (event, ctx) => {
        const { messageCount, tokenCount } = event;
        await send("before_compaction", { messageCount, tokenCount }, identity(ctx, event));
      }),
    );
    api.on(
      "session_end",
      safely(async (event, ctx) => {
        const { sessionId, sessionKey, messageCount, reason } = event;
        openedSessions.delete(ctx.sessionId ?? sessionId);
        await send("session_end", { sessionId, sessionKey, messageCount, reason }, identity(ctx, event));
      }),
    );
  },
};
