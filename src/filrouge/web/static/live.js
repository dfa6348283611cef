// The live feed for every tab of a browser over one WebSocket.
//
// A browser opens six connections to a host, and people open more tabs than that. So the tabs elect one: whoever
// holds the lock holds the socket, and hands what it hears to the others over a broadcast channel. When it goes, the
// browser gives the lock to the next, which asks all others what they want and connects. Nothing is kept: what
// happened between two sockets was not heard, and every tab is told so by a new `ws:hello`.
//
//   const feed = live({ topics: ["progress"] });
//   feed.addEventListener("message", (event) => show(event.detail));
//   feed.addEventListener("state", (event) => console.log(event.detail));  // waiting, connecting, open, closed
//   feed.close();

const NAME = "filrouge-live";
const FIRST_WAIT = 500;
const LONGEST_WAIT = 30_000;
/** Which topic a message belongs to; a message of no topic (`ws:hello`, `ws:lost`) is for everybody. */
const TOPIC_OF = {
  "ws:memory_progress": "progress",
  "ws:event_captured": "events",
  "ws:event_settled": "events",
  "ws:memory_decided": "memories",
  "ws:thread_placed": "threads",
  "ws:thread_changed": "threads",
  "ws:recall_injected": "recalls",
  "ws:job_dead": "jobs",
  "ws:forgotten": "forgetting",
  "ws:setting_changed": "settings",
  "ws:backup_made": "backups",
};

/** Listen to the feed: to some topics, or to all. */
export function live({ topics = Object.values(TOPIC_OF), url = "/ws" } = {}) {
  return new Feed([...new Set(topics)], url);
}

class Feed extends EventTarget {
  #id = Array.from(crypto.getRandomValues(new Uint32Array(4)), String).join("-");
  #topics;
  #url;
  #state = "waiting";
  #channel = null;
  #ending = null;
  #socket = null;
  #leads = false;
  #wanted = new Map();

  constructor(topics, url) {
    super();
    this.#topics = topics;
    this.#url = url;
    // A page that is put aside lets go of the socket, so that another tab has it; it may be taken out again.
    addEventListener("pagehide", this.#asleep);
    addEventListener("pageshow", this.#awake);
    this.#begin();
  }

  /** `waiting` for a socket, `connecting`, `open`, or `closed` for good. */
  get state() {
    return this.#state;
  }

  /** Whether this tab holds the socket. */
  get leads() {
    return this.#leads;
  }

  /** Listen no more. */
  close() {
    removeEventListener("pagehide", this.#asleep);
    removeEventListener("pageshow", this.#awake);
    this.#end();
    this.#become("closed");
  }

  #asleep = () => this.#end();
  #awake = (event) => event.persisted && this.#begin();

  #begin() {
    if (this.#ending) return;
    this.#ending = new AbortController();
    const { signal } = this.#ending;
    this.#channel = new BroadcastChannel(NAME);
    this.#channel.onmessage = (event) => this.#hear(event.data);
    this.#say({ kind: "wants", tab: this.#id, topics: this.#topics });
    // Without locks (a page that is no secure context) each tab has a socket of its own, and keeps what it hears.
    const elected = navigator.locks?.request(NAME, { signal }, () => this.#lead(signal)) ?? this.#lead(signal);
    elected.catch((error) => {
      if (error.name !== "AbortError") throw error;
    });
  }

  #end() {
    if (!this.#ending) return;
    this.#say({ kind: "gone", tab: this.#id });
    this.#ending.abort();
    this.#ending = null;
    this.#socket?.close();
    this.#channel.close();
    this.#channel = null;
  }

  async #lead(signal) {
    this.#leads = true;
    this.#wanted = new Map([[this.#id, this.#topics]]);
    this.#say({ kind: "who" });
    let wait = FIRST_WAIT;
    while (!signal.aborted) {
      this.#share("connecting");
      const greeted = await this.#converse();
      if (signal.aborted) break;
      wait = greeted ? FIRST_WAIT : Math.min(2 * wait, LONGEST_WAIT);
      this.#share("waiting");
      await pause((wait * (1 + Math.random())) / 2, signal);
    }
    this.#leads = false;
  }

  /** One socket, from its opening to its end; whether it was greeted. */
  #converse() {
    return new Promise((ended) => {
      let greeted = false;
      const address = new URL(this.#url, location.href);
      address.protocol = address.protocol.replace("http", "ws");
      const socket = new WebSocket(address);
      this.#socket = socket;
      socket.onmessage = ({ data }) => {
        const message = JSON.parse(data);
        if (message.type === "ws:hello") {
          greeted = true;
          this.#subscribe();
          this.#share("open");
        }
        if (message.type !== "ws:subscribed") {
          this.#say({ kind: "message", message });
          this.#tell(message);
        }
      };
      socket.onclose = () => {
        this.#socket = null;
        ended(greeted);
      };
    });
  }

  #subscribe() {
    if (this.#socket?.readyState !== WebSocket.OPEN) return;
    const topics = new Set([...this.#wanted.values()].flat());
    this.#socket.send(JSON.stringify({ subscribe: [...topics] }));
  }

  /** What another tab says. */
  #hear(said) {
    if (said.kind === "message") this.#tell(said.message);
    else if (said.kind === "state") this.#become(said.state);
    else if (said.kind === "who") this.#say({ kind: "wants", tab: this.#id, topics: this.#topics });
    else if (this.#leads) {
      if (said.kind === "wants") this.#wanted.set(said.tab, said.topics);
      else this.#wanted.delete(said.tab);
      this.#subscribe();
      this.#say({ kind: "state", state: this.#state });
    }
  }

  #say(said) {
    this.#channel?.postMessage(said);
  }

  #share(state) {
    this.#say({ kind: "state", state });
    this.#become(state);
  }

  #become(state) {
    if (state === this.#state) return;
    this.#state = state;
    this.dispatchEvent(new CustomEvent("state", { detail: state }));
  }

  #tell(message) {
    const topic = TOPIC_OF[message.type];
    if (topic && !this.#topics.includes(topic)) return;
    this.dispatchEvent(new CustomEvent("message", { detail: message }));
  }
}

function pause(milliseconds, signal) {
  return new Promise((over) => {
    const timer = setTimeout(over, milliseconds);
    signal.addEventListener("abort", () => (clearTimeout(timer), over()), { once: true });
  });
}
