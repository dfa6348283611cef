// Filrouge's plugin for OpenCode: captures what is said, and adds memories to prompts.
//
// OpenCode does not run commands on events, so this plugin does: it sends each event to
// `filrouge hook --host opencode` and adds the output to the system prompt. It stores nothing and makes no network
// requests. A failure never stops the agent: no hook throws, and each call has a deadline. `filrouge init` adds this
// file and the program's path to `plugin` in opencode.json. A copy in OpenCode's plugin directory searches for the
// program.

import { spawn } from "node:child_process";
import { accessSync, constants } from "node:fs";
import { homedir } from "node:os";
import { delimiter, join } from "node:path";
import { fileURLToPath } from "node:url";

const HOST = "opencode";
const DEADLINE_MS = 10_000; // hooks limit themselves (`hook_wait_ms`, 8 s at most); this covers one that hangs
const LATE_HOOK_MS = 30_000; // on a slow machine a hook starts late; it may still finish, so that its event is stored
const MAX_SESSIONS = 1000;
const MAX_OUTPUT_CHARACTERS = 200_000;

/** Returns the program set by `filrouge init`, else the first on the PATH or in the usual installation folders. */
function findProgram(configured) {
  if (typeof configured === "string" && isProgram(configured)) return configured;
  const folders = (process.env.PATH ?? "").split(delimiter).concat([
    join(homedir(), ".local", "bin"),
    join(homedir(), "bin"),
    "/usr/local/bin",
    "/opt/homebrew/bin",
    fileURLToPath(new URL("../../../../../../../bin", import.meta.url)), // this file's environment
  ]);
  for (const folder of folders) {
    if (!folder) continue;
    const path = join(folder, "filrouge");
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

/** Runs the hook for one event and resolves to the context it printed, or an empty text. Never rejects. */
function runHook(executable, payload) {
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
      const input = JSON.stringify(payload);
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

/** Returns the text of a message's parts, without parts that the host or a plugin inserted. */
function textOf(parts) {
  const texts = (parts ?? []).filter((part) => part?.type === "text" && !part.synthetic && !part.ignored);
  return texts.map((part) => part.text).join("\n");
}

/** Returns the prompt as typed: `opencode run` puts quotes around an argument that contains a space. */
function unquoted(prompt) {
  const text = prompt.trim();
  return /^"(?:[^"\\]|\\.)*"$/s.test(text) ? text.slice(1, -1).replaceAll('\\"', '"') : prompt;
}

/** Returns true for OpenCode's request for a session title, which must not contain memories. */
function isTitleRequest(system) {
  return system.some((text) => text.trimStart().startsWith("You are a title generator"));
}

export const Filrouge = async ({ client, directory } = {}, options = {}) => {
  const executable = findProgram(options?.executable);
  if (!executable) return {};
  const sessions = new Map(); // session id → { helper, start, prompt }: whether it is a helper's, and its contexts
  const send = (hook_event_name, session_id, more) =>
    runHook(executable, { host: HOST, hook_event_name, session_id, cwd: directory ?? "", ...more });
  const safely = (hook) => async (input, output) => {
    try {
      await hook(input ?? {}, output ?? {});
    } catch {
      return;
    }
  };

  /** Returns a session and starts a new one. A session that another one opened for a task is a helper's. */
  async function session(id) {
    if (!sessions.has(id)) {
      if (sessions.size >= MAX_SESSIONS) sessions.delete(sessions.keys().next().value);
      const info = await client?.session?.get?.({ path: { id } }).catch(() => undefined);
      const state = { helper: Boolean(info?.data?.parentID), start: "", prompt: "" };
      sessions.set(id, state);
      if (!state.helper) state.start = await send("SessionStart", id, { source: "startup" });
    }
    return sessions.get(id);
  }

  /** Sends the answer to the last prompt, once the agent is idle. */
  async function sendAnswer(id) {
    if (!id || (await session(id)).helper) return;
    const messages = (await client.session.messages({ path: { id } }))?.data ?? [];
    const opening = messages.findLastIndex((message) => message?.info?.role === "user");
    const answers = messages.slice(opening + 1).filter((message) => message?.info?.role === "assistant");
    const last_assistant_message = answers.map((message) => textOf(message.parts)).filter(Boolean).join("\n\n");
    const message_id = messages[opening]?.info?.id;
    if (last_assistant_message) await send("Stop", id, { message_id, last_assistant_message });
  }

  async function endSession(id, reason) {
    const state = sessions.get(id);
    sessions.delete(id);
    if (state && !state.helper) await send("SessionEnd", id, { reason });
  }

  return {
    "chat.message": safely(async ({ sessionID, messageID }, { message, parts }) => {
      const state = await session(sessionID);
      const prompt = unquoted(textOf(parts));
      state.prompt = "";
      if (state.helper || !prompt.trim()) return;
      state.prompt = await send("UserPromptSubmit", sessionID, { message_id: message?.id ?? messageID, prompt });
    }),
    "experimental.chat.system.transform": safely(async ({ sessionID }, { system }) => {
      const state = isTitleRequest(system) ? undefined : sessions.get(sessionID);
      for (const context of [state?.start, state?.prompt]) if (context) system.push(context);
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
      if (event?.type === "session.idle") await sendAnswer(sessionID);
      if (event?.type === "session.deleted") await endSession(info?.id, "deleted");
      if (event?.type === "session.compacted" && sessionID) {
        const state = await session(sessionID);
        if (!state.helper) state.start = await send("SessionStart", sessionID, { source: "compact" });
      }
    }),
    dispose: safely(async () => {
      await Promise.all([...sessions.keys()].map((id) => endSession(id, "exit")));
    }),
  };
};
