// What all pages share: keys, the palette, messages that close, the live feed, and modules of single pages.
//
// Every page works without this. Nothing here makes HTML from text.

import { live } from "/static/live.js";
import { showViews } from "./views.js";

const WAIT_BEFORE_REFRESH = 400;

// Keys. A letter on an item presses the item's control with `data-key`; `g` and a letter goes to a screen.

let going = 0;

document.addEventListener("keydown", (event) => {
  if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
    event.preventDefault();
    open("palette");
    return;
  }
  if (event.key === "Escape") leave(event.target);
  if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
  const { key } = event;
  if (going && Date.now() - going < 1500 && follow(`[data-go="${CSS.escape(key)}"]`)) event.preventDefault();
  else if (key === "j" || key === "k") move(key === "j" ? 1 : -1, event);
  else if (key === "?") open("keys");
  else if (key === "/") focusSearch(event);
  else if (key === "u") follow('#done [data-key="u"]');
  else if (/^[a-z]$/.test(key)) pressOnItem(key, event);
  going = key === "g" ? Date.now() : 0;
});

/** Leave a field, so that the keys work again, and the dialog around it; a search field would only empty itself. */
function leave(target) {
  target.closest("dialog")?.close();
  target.blur(); // a field of a closed dialog keeps the focus until the next frame
}

function isTyping(target) {
  return target.closest("textarea, select, dialog, [contenteditable]") || (target.matches("input") && !/checkbox|radio|range/.test(target.type));
}

function items() {
  return [...document.querySelectorAll("main [data-item]")];
}

function move(step, event) {
  const all = items();
  if (!all.length) return;
  event.preventDefault();
  const now = all.indexOf(document.activeElement.closest("[data-item]"));
  const next = all[Math.min(all.length - 1, Math.max(0, now < 0 ? (step > 0 ? 0 : all.length - 1) : now + step))];
  next.focus({ preventScroll: true });
  next.scrollIntoView({ block: "nearest" });
}

function pressOnItem(key, event) {
  const item = document.activeElement.closest("[data-item]");
  const control = item?.querySelector(`[data-key="${key}"]`);
  if (!control) return;
  event.preventDefault();
  control.click();
}

function follow(selector) {
  const found = document.querySelector(selector);
  found?.click();
  return Boolean(found);
}

function focusSearch(event) {
  const field = document.querySelector('main input[type="search"]');
  if (!field) return;
  event.preventDefault();
  field.focus();
  field.select();
}

// The palette and other dialogs.

function open(id) {
  const dialog = document.getElementById(id);
  if (!dialog || dialog.open) return;
  dialog.querySelector("form")?.reset();
  if (id === "palette") showViews(dialog);
  for (const entry of dialog.querySelectorAll("[data-palette] li")) entry.hidden = false;
  dialog.showModal();
}

document.addEventListener("click", (event) => {
  if (event.target.matches("dialog")) event.target.close();
  const closing = event.target.closest("[data-close]");
  if (closing) document.getElementById(closing.dataset.close)?.remove();
  if (event.target.closest("#palette a")) document.getElementById("palette").close();
});

document.addEventListener("input", (event) => {
  if (event.target.closest("#palette [role=search]")) {
    const wanted = event.target.value.toLowerCase();
    for (const entry of document.querySelectorAll("[data-palette] li")) entry.hidden = !entry.textContent.toLowerCase().includes(wanted);
  }
  const shown = event.target.dataset?.shows;
  if (shown) document.getElementById(shown).textContent = event.target.value;
});

// Filters apply as soon as they change; a search while it is typed.

let typing = 0;

function applyFilters(event) {
  const form = event.target.closest("form[data-filters]");
  if (!form || event.target.matches("[data-manual]")) return;
  clearTimeout(typing);
  typing = setTimeout(() => form.requestSubmit(), event.type === "input" ? 300 : 0);
}
document.addEventListener("change", (event) => !event.target.matches('input[type="search"], input[type="text"]') && applyFilters(event));
document.addEventListener("input", (event) => event.target.matches('input[type="search"]') && applyFilters(event));

// After a page or a part of it was replaced.

let lastPath = location.pathname;

document.addEventListener("htmx:after:swap", () => {
  if (location.pathname !== lastPath) scrollTo(0, 0);
  lastPath = location.pathname;
  // A control that somebody changed keeps what it showed; where each change is saved, what came from the server counts.
  for (const form of document.querySelectorAll('form[method="post"][data-filters]')) {
    if (!form.contains(document.activeElement)) form.reset();
  }
  prepare();
});

/** Take what concerns one visit only (the key of a message, the item with the focus) out of the address, and start
 *  what a page needs beyond HTML. */
function prepare() {
  const here = new URL(location.href);
  for (const name of ["done", "at"]) here.searchParams.delete(name);
  if (here.href !== location.href) history.replaceState(history.state, "", here);
  for (const element of document.querySelectorAll("[data-module]:not([data-started])")) {
    element.dataset.started = "";
    import(element.dataset.module).then((module) => module.start(element));
  }
  document.querySelector("[autofocus]")?.focus();
  showState();
}

// The live feed: an element with `data-live="memories events"` is fetched again when something of that kind happened.

const feed = live({});
let refreshing = 0;
const happened = new Set();
const TOPICS = {
  "ws:memory_progress": "progress", "ws:event_captured": "events", "ws:event_settled": "events",
  "ws:memory_decided": "memories", "ws:thread_placed": "threads", "ws:thread_changed": "threads",
  "ws:recall_injected": "recalls", "ws:job_dead": "jobs", "ws:forgotten": "memories",
  "ws:setting_changed": "settings", "ws:backup_made": "backups",
};

feed.addEventListener("message", ({ detail }) => {
  document.dispatchEvent(new CustomEvent("filrouge:message", { detail }));
  if (detail.type === "ws:lost") Object.values(TOPICS).forEach((topic) => happened.add(topic));
  else if (TOPICS[detail.type]) happened.add(TOPICS[detail.type]);
  refreshing ||= setTimeout(refresh, WAIT_BEFORE_REFRESH);
});
feed.addEventListener("state", () => showState());

/** Fetch again what may have changed; not what somebody is typing in. */
function refresh() {
  refreshing = 0;
  for (const element of document.querySelectorAll("[data-live][id]")) {
    if (!element.dataset.live.split(" ").some((topic) => happened.has(topic))) continue;
    if (element.querySelector("form textarea, :checked[name=id]")) continue;
    htmx.ajax("GET", location.pathname + location.search, { target: `#${element.id}`, select: `#${element.id}`, swap: "outerMorph", source: element });
  }
  happened.clear();
}

function showState() {
  const shown = document.getElementById("live-state");
  if (!shown) return;
  shown.dataset.state = feed.state;
  shown.textContent = feed.state === "open" ? shown.dataset.open : shown.dataset.closed;
}

prepare();
performance.mark("filrouge:prepared");
