// Plays a script to one of Filrouge's JavaScript plugins, as its host would, and prints what came of each step.
//
// In: {"plugin": path, "config": …, "directory": …, "sessions": {id: {parentID?, messages?}}, "steps": [[hook, a, b], …],
//      "hurry": how many times as fast the plugin's own timers run}
// Out: one JSON list with {"returned", "first", "second", "seconds"} a step: the value, and both arguments afterwards.

import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const script = JSON.parse(readFileSync(0, "utf8"));
const plainTimeout = globalThis.setTimeout;
globalThis.setTimeout = (act, wait, ...rest) => plainTimeout(act, wait / (script.hurry ?? 1), ...rest);
const module = await import(pathToFileURL(script.plugin));
const warnings = [];
const handlers = module.default ? openclaw(module.default) : await module.Filrouge(opencode(), script.config);

function openclaw(plugin) {
  const found = {};
  plugin.register({
    pluginConfig: script.config,
    logger: { warn: (text) => warnings.push(text) },
    on: (name, handler) => (found[name] = handler),
  });
  return found;
}

function opencode() {
  const session = (path) => script.sessions?.[path.id];
  const get = async ({ path }) => ({ data: { id: path.id, parentID: session(path)?.parentID } });
  const messages = async ({ path }) => ({ data: session(path).messages });
  return { directory: script.directory, client: { session: { get, messages } } };
}

const results = [];
for (const [hook, first, second] of script.steps) {
  const began = performance.now();
  const returned = await handlers[hook]?.(first ?? undefined, second ?? undefined);
  results.push({ returned: returned ?? null, first, second, seconds: (performance.now() - began) / 1000 });
}
console.log(JSON.stringify({ hooks: Object.keys(handlers), warnings, results }));
process.exit(0);
