// Filrouge in OpenCode: what you say here is remembered, and what is known comes back before a prompt.
//
// OpenCode runs no commands at its events, so this plugin runs one: it tells `filrouge hook --host opencode`
// what happened and puts the answer into the system prompt. It keeps nothing, asks no network, and whatever
// happens to it the agent goes on: no hook throws, each call has a deadline. `filrouge init` names this file and the
// program in `plugin` of opencode.json; copied into OpenCode's plugin directory it looks for the program itself.

import { spawn } from "node:child_process";
import { accessSync, constants } from "node:fs";
import { homedir } from "node:os";
import { delimiter, join } from "node:path";
import { fileURLToPath } from "node:url";

const HOST = "opencode";
const DEADLINE_MS = 10_000; // a hook limits itself (`hook_wait_ms` goes to 8 s); this ends the wait for one that hangs
const LEFT_MS = 30_000; // on a machine that stalls a hook starts late: what it was told is kept all the same
const MOST_SESSIONS = 1000;
const MOST_ANSWER = 200_000;

/** The program: the one that `filrouge init` named, else the first on the PATH or where installers put programs. */
function program(named) {
  if (typeof named === "string" && isProgram(named)) return named;
  const places = (process.env.PATH ?? "").split(delimiter).concat([
    join(homedir(), ".local", "bin"),
    join(homedir(), "bin"),
    "/usr/local/bin",
    "/opt/homebrew/bin",
    fileURLToPath(new URL("../../../../../../../bin", import.meta.url)), // of the environment that brought this file
  ]);
  for (const place of places) {
    if (!place) continue;
    const path = join(place, "filrouge");
    if (isProgram(path)) return path;
  }
  return "";
}

function isProgram(path) {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/** What the hook printed for one event: its context, or nothing. Never rejects. */
function told(executable, payload) {
  return new Promise((resolve) => {
    let child;
    let printed = "";
    const done = (context) => {
      clearTimeout(timer);
      resolve(context);
    };
    const timer = setTimeout(() => {
      done("");
      leave(child);
    }, DEADLINE_MS);
    try {
      const input = JSON.stringify(payload);
      child = spawn(executable, ["hook", "--host", HOST], { stdio: ["pipe", "pipe", "ignore"], windowsHide: true });
      child.on("error", () => done(""));
      child.stdin.on("error", () => {}); // it ended without reading: its exit tells
      child.stdout.setEncoding("utf8");
      child.stdout.on("data", (piece) => {
        if (printed.length < MOST_ANSWER) printed += piece;
      });
      child.on("close", () => done(contextIn(printed)));
      child.stdin.end(input);
    } catch {
      done("");
    }
  });
}

/** Lets a late hook come to its end, which the agent does not wait for. */
function leave(child) {
  const end = setTimeout(() => child.kill("SIGKILL"), LEFT_MS);
  child.on("close", () => clearTimeout(end));
  for (const one of [child, child.stdout, end]) one.unref?.();
}

function contextIn(printed) {
  try {
    const { context } = JSON.parse(printed);
    return typeof context === "string" ? context : "";
  } catch {
    return "";
  }
}

/** The words in a message's parts, without what the host or a plugin slipped in. */
function words(parts) {
  const texts = (parts ?? []).filter((part) => part?.type === "text" && !part.synthetic && !part.ignored);
  return texts.map((part) => part.text).join("\n");
}

/** What was typed: `opencode run` puts words with a space among them between quotes. */
function unquoted(prompt) {
  const text = prompt.trim();
  return /^"(?:[^"\\]|\\.)*"$/s.test(text) ? text.slice(1, -1).replaceAll('\\"', '"') : prompt;
}

/** Whether OpenCode asks for a session's title, which needs no memory and must not be made of one. */
function forTitle(system) {
  return system.some((text) => text.trimStart().startsWith("You are a title generator"));
}

export const Filrouge = async ({ client, directory } = {}, options = {}) => {
  const executable = program(options?.executable);
  if (!executable) return {};
  const sessions = new Map(); // session id → { helper, start, prompt }: what it is, what its model is told
  const send = (hook_event_name, session_id, more) =>
    told(executable, { host: HOST, hook_event_name, session_id, cwd: directory ?? "", ...more });
  const safely = (hook) => async (input, output) => {
    try {
      await hook(input ?? {}, output ?? {});
    } catch {
      return;
    }
  };

  /** A session, begun where it is new. Those that another session opened for a task are its helpers. */
  async function session(id) {
    if (!sessions.has(id)) {
      if (sessions.size >= MOST_SESSIONS) sessions.delete(sessions.keys().next().value);
      const info = await client?.session?.get?.({ path: { id } }).catch(() => undefined);
      const known = { helper: Boolean(info?.data?.parentID), start: "", prompt: "" };
      sessions.set(id, known);
      if (!known.helper) known.start = await send("SessionStart", id, { source: "startup" });
    }
    return sessions.get(id);
  }

  /** The answer to the last prompt, once the agent rests. */
  async function answered(id) {
    if (!id || (await session(id)).helper) return;
    const messages = (await client.session.messages({ path: { id } }))?.data ?? [];
    const opening = messages.findLastIndex((one) => one?.info?.role === "user");
    const answers = messages.slice(opening + 1).filter((one) => one?.info?.role === "assistant");
    const last_assistant_message = answers.map((one) => words(one.parts)).filter(Boolean).join("\n\n");
    const message_id = messages[opening]?.info?.id;
    if (last_assistant_message) await send("Stop", id, { message_id, last_assistant_message });
  }

  async function ended(id, reason) {
    const known = sessions.get(id);
    sessions.delete(id);
    if (known && !known.helper) await send("SessionEnd", id, { reason });
  }

  return {
    "chat.message": safely(async ({ sessionID, messageID }, { message, parts }) => {
      const known = await session(sessionID);
      const prompt = unquoted(words(parts));
      known.prompt = "";
      if (known.helper || !prompt.trim()) return;
      known.prompt = await send("UserPromptSubmit", sessionID, { message_id: message?.id ?? messageID, prompt });
    }),
    "experimental.chat.system.transform": safely(async ({ sessionID }, { system }) => {
      const known = forTitle(system) ? undefined : sessions.get(sessionID);
      for (const context of [known?.start, known?.prompt]) if (context) system.push(context);
    }),
    "tool.execute.after": safely(async ({ tool, sessionID, callID, args }, { output }) => {
      if ((await session(sessionID)).helper) return;
      const call = { tool_name: tool, tool_use_id: callID, tool_input: args, tool_response: output };
      await send("PostToolUse", sessionID, call);
    }),
    "experimental.session.compacting": safely(async ({ sessionID }) => {
      if (!(await session(sessionID)).helper) await send("PreCompact", sessionID, { trigger: "auto" });
    }),
    event: safely(async ({ event }) => {
      const { sessionID, info } = event?.properties ?? {};
      if (event?.type === "session.idle") await answered(sessionID);
      if (event?.type === "session.deleted") await ended(info?.id, "deleted");
      if (event?.type === "session.compacted" && sessionID) {
        const known = await session(sessionID);
        if (!known.helper) known.start = await send("SessionStart", sessionID, { source: "compact" });
      }
    }),
    dispose: safely(async () => {
      await Promise.all([...sessions.keys()].map((id) => ended(id, "exit")));
    }),
  };
};
