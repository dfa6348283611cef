// The local graph of a thread: laid out by d3-force, drawn to a canvas of our own.
//
// The nodes and links stand as JSON in `data-graph`. The list beside the canvas says the same; it is what is read
// without this script. The layout settles within two seconds, and its timer stops then.

import { forceCollide, forceLink, forceManyBody, forceSimulation, forceX, forceY } from "../vendor/d3-force.js";

const SETTLE_MS = 1800;
const TICKS = 90;
const RADIUS = { self: 10, thread: 8, topic: 5, memory: 5 };
const LABEL_CHARS = { self: 60, thread: 40, topic: 30, memory: 32 };
/** Labels of the first kinds win the place where two would overlap. */
const LABEL_ORDER = ["self", "thread", "topic", "memory"];
const ZOOM_RANGE = [0.2, 6];
const MARGIN = 56;

const running = new WeakMap();

/** Start or restart the graph in an element; one that already shows the same data is kept. */
export function start(element) {
  const before = running.get(element);
  if (before?.json === element.dataset.graph && before.canvas.isConnected) {
    showControls(element);
    return;
  }
  before?.stop();
  running.set(element, new Graph(element));
}

class Graph {
  constructor(element) {
    this.element = element;
    this.json = element.dataset.graph;
    this.stage = element.querySelector(".stage");
    this.chosen = element.querySelector(".graph-chosen");
    this.isCalm = matchMedia("(prefers-reduced-motion: reduce)");
    this.view = { x: 0, y: 0, scale: 1 };
    this.isFitted = true;
    const { nodes, links } = JSON.parse(this.json);
    this.all = { nodes, links };
    this.byId = new Map(nodes.map((node) => [node.id, node]));
    this.self = nodes[0];
    this.canvas = document.createElement("canvas");
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute("role", "application");
    this.canvas.setAttribute("aria-label", this.stage.dataset.label);
    this.stage.replaceChildren(this.canvas);
    this.pen = this.canvas.getContext("2d");
    showControls(element);
    this.listen();
    this.readColours();
    this.resize();
    this.filter();
    this.select(null);
  }

  stop() {
    this.simulation?.stop();
    this.ending.abort();
    this.observer.disconnect();
  }

  listen() {
    this.ending = new AbortController();
    const { signal } = this.ending;
    const on = (target, type, act, options) => target.addEventListener(type, act, { signal, ...options });
    on(this.element, "change", (event) => event.target.matches("[data-kind], [data-age]") && this.filter());
    on(this.element, "click", (event) => {
      const button = event.target.closest("[data-zoom]");
      if (button) this.zoom(Number(button.dataset.zoom));
    });
    for (const type of ["focusin", "mouseover"]) {
      on(this.element.querySelector(".graph-list"), type, (event) => {
        const item = event.target.closest("[data-node]");
        if (item) this.select(this.byId.get(item.dataset.node));
      });
    }
    on(this.canvas, "pointerdown", (event) => this.press(event));
    on(this.canvas, "pointermove", (event) => this.move(event));
    on(this.canvas, "pointerup", () => this.release());
    on(this.canvas, "pointercancel", () => this.release());
    on(this.canvas, "dblclick", () => this.follow());
    on(this.canvas, "keydown", (event) => this.key(event));
    on(this.canvas, "wheel", (event) => this.wheel(event), { passive: false });
    on(matchMedia("(prefers-color-scheme: dark)"), "change", () => {
      this.readColours();
      this.draw();
    });
    this.observer = new ResizeObserver(() => {
      if (!this.stage.isConnected) this.stop();
      else this.resize();
    });
    this.observer.observe(this.stage);
  }

  // What is shown.

  /** Show the kinds and ages that are ticked; what lost its links hangs on the thread. */
  filter() {
    const ticked = (name) => new Set([...this.element.querySelectorAll(`[data-${name}]:checked`)].map((box) => box.dataset[name]));
    const kinds = ticked("kind");
    const ages = ticked("age");
    const isShown = (node) => node === this.self || (kinds.has(node.kind) && (!node.age || ages.has(node.age)));
    this.nodes = this.all.nodes.filter(isShown);
    const shown = new Set(this.nodes.map((node) => node.id));
    this.links = this.all.links.filter((link) => shown.has(link.source) && shown.has(link.target)).map((link) => ({ ...link }));
    const linked = new Set(this.links.flatMap((link) => [link.source, link.target]));
    for (const node of this.nodes) {
      if (node !== this.self && !linked.has(node.id)) this.links.push({ source: this.self.id, target: node.id, kind: node.kind, label: "" });
    }
    for (const item of this.element.querySelectorAll(".graph-list [data-node]")) item.hidden = !shown.has(item.dataset.node);
    if (this.selected && !shown.has(this.selected.id)) this.select(null);
    this.layOut();
  }

  layOut() {
    this.simulation?.stop();
    this.simulation = forceSimulation(this.nodes)
      .alphaMin(0.01)
      .alphaDecay(1 - 0.01 ** (1 / TICKS))
      .force("link", forceLink(this.links).id((node) => node.id).distance((link) => (link.kind === "bridge" ? 140 : 70)))
      .force("charge", forceManyBody().strength(-320).distanceMax(500))
      .force("collide", forceCollide((node) => RADIUS[node.kind] + 14))
      .force("x", forceX().strength(0.05))
      .force("y", forceY().strength(0.09))
      .stop();
    this.simulation.tick(this.isCalm.matches ? 2 * TICKS : TICKS / 3);
    this.isFitted = true;
    this.paint();
    if (!this.isCalm.matches) this.run();
  }

  /** Let the layout move until it has settled, for two seconds at most. */
  run() {
    const until = performance.now() + SETTLE_MS;
    this.simulation.on("tick", () => {
      this.paint();
      if (performance.now() > until && !this.held) this.simulation.stop();
    });
    this.simulation.restart();
  }

  // Drawing.

  readColours() {
    const probe = document.createElement("span");
    this.stage.append(probe);
    const read = (name) => {
      probe.style.color = `var(--${name})`;
      return getComputedStyle(probe).color;
    };
    this.colours = Object.fromEntries(["paper", "sheet", "ink", "muted", "line", "strong-line", "thread", "thread-soft", "focus"].map((name) => [name, read(name)]));
    this.font = getComputedStyle(probe).fontFamily;
    probe.remove();
  }

  resize() {
    const { width, height } = this.stage.getBoundingClientRect();
    const ratio = devicePixelRatio || 1;
    this.size = { width, height, ratio };
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    if (this.nodes) this.paint();
  }

  paint() {
    if (this.isFitted) this.fit();
    this.draw();
  }

  fit() {
    const xs = this.nodes.map((node) => node.x);
    const ys = this.nodes.map((node) => node.y);
    const [left, right, top, bottom] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
    const { width, height } = this.size;
    const scale = Math.min((width - 2 * MARGIN) / Math.max(right - left, 1), (height - MARGIN) / Math.max(bottom - top, 1), 1.6);
    this.view = { scale: Math.max(scale, ZOOM_RANGE[0]), x: 0, y: 0 };
    this.view.x = width / 2 - ((left + right) / 2) * this.view.scale;
    this.view.y = height / 2 - ((top + bottom) / 2) * this.view.scale;
  }

  at(node) {
    return [node.x * this.view.scale + this.view.x, node.y * this.view.scale + this.view.y];
  }

  draw() {
    const { pen, colours, size } = this;
    pen.setTransform(size.ratio, 0, 0, size.ratio, 0, 0);
    pen.clearRect(0, 0, size.width, size.height);
    const near = this.neighbours(this.selected);
    for (const link of this.links) {
      const isNear = this.selected && (link.source === this.selected || link.target === this.selected);
      pen.globalAlpha = this.selected && !isNear ? 0.35 : 1;
      pen.strokeStyle = link.kind === "bridge" ? colours.thread : isNear ? colours.ink : colours["strong-line"];
      pen.lineWidth = link.kind === "bridge" ? 1.75 : 1;
      pen.beginPath();
      pen.moveTo(...this.at(link.source));
      pen.lineTo(...this.at(link.target));
      pen.stroke();
    }
    for (const node of this.nodes) {
      pen.globalAlpha = this.selected && !near.has(node) ? 0.4 : 1;
      this.drawNode(node);
    }
    pen.globalAlpha = 1;
    this.drawLabels(near);
  }

  drawNode(node) {
    const { pen, colours } = this;
    const [x, y] = this.at(node);
    const radius = RADIUS[node.kind];
    pen.beginPath();
    if (node.kind === "topic") pen.rect(x - radius + 1, y - radius + 1, 2 * radius - 2, 2 * radius - 2);
    else pen.arc(x, y, radius, 0, 2 * Math.PI);
    pen.lineWidth = 2;
    pen.fillStyle = { self: colours.thread, thread: colours.sheet, topic: colours.muted, memory: colours.ink }[node.kind];
    pen.strokeStyle = { self: colours.thread, thread: colours.thread, topic: colours.sheet, memory: colours.sheet }[node.kind];
    pen.fill();
    pen.stroke();
    if (node !== this.selected) return;
    pen.beginPath();
    pen.arc(x, y, radius + 4, 0, 2 * Math.PI);
    pen.strokeStyle = colours.focus;
    pen.stroke();
  }

  /** Draw labels where they do not cover others: those of the selected node first, then by kind. */
  drawLabels(near) {
    const { pen, colours } = this;
    const rank = (node) => (node === this.selected ? -2 : this.selected && near.has(node) ? -1 : 0) * 10 + LABEL_ORDER.indexOf(node.kind);
    const taken = this.nodes.map((node) => box(...this.at(node), RADIUS[node.kind] * 2, RADIUS[node.kind] * 2));
    pen.textAlign = "center";
    pen.textBaseline = "top";
    for (const node of [...this.nodes].sort((one, other) => rank(one) - rank(other))) {
      const text = shorten(node.label, LABEL_CHARS[node.kind]);
      pen.font = `${node.kind === "self" || node === this.selected ? "600 " : ""}12px ${this.font}`;
      const width = pen.measureText(text).width;
      const places = this.labelPlaces(node, width);
      const place = places.find((free) => !taken.some((other) => overlap(free, other))) ?? (node === this.selected ? places[0] : null);
      if (!place) continue;
      taken.push(place);
      const [centre, top] = [(place.left + place.right) / 2, place.top + 1];
      pen.globalAlpha = this.selected && !near.has(node) ? 0.5 : 1;
      pen.lineWidth = 3;
      pen.lineJoin = "round";
      pen.strokeStyle = colours.sheet;
      pen.strokeText(text, centre, top);
      pen.fillStyle = node.kind === "topic" ? colours.muted : colours.ink;
      pen.fillText(text, centre, top);
    }
    pen.globalAlpha = 1;
  }

  /** Return where the label of a node may stand: below, above, right or left of it. */
  labelPlaces(node, width) {
    const [x, y] = this.at(node);
    const away = RADIUS[node.kind] + 11;
    const aside = RADIUS[node.kind] + 6 + width / 2;
    return [[x, y + away], [x, y - away], [x + aside, y], [x - aside, y]].map(([centre, middle]) => {
      const inside = Math.min(Math.max(centre, width / 2 + 4), this.size.width - width / 2 - 4);
      return box(inside, middle, width + 4, 15);
    });
  }

  neighbours(node) {
    const found = new Set(node ? [node] : []);
    for (const link of this.links) {
      if (link.source === node) found.add(link.target);
      if (link.target === node) found.add(link.source);
    }
    return found;
  }

  // Selection: the pane tells the node, its link and what connects it.

  select(node) {
    this.selected = node;
    for (const item of this.element.querySelectorAll(".graph-list [data-node]")) item.classList.toggle("on", item.dataset.node === node?.id);
    this.chosen.replaceChildren(...(node ? this.describe(node) : [text("p", this.chosen.dataset.hint, "quiet small")]));
    this.draw();
  }

  describe(node) {
    const title = text("p", node.label, "label");
    const made = [title];
    if (node.when) made.push(text("p", node.when, "quiet small"));
    const ties = document.createElement("ul");
    for (const link of this.links) {
      if (!link.label || (link.source !== node && link.target !== node)) continue;
      const other = link.source === node ? link.target : link.source;
      const tie = document.createElement("li");
      tie.append(text("span", `${link.label} `, "quiet"), text("span", shorten(other.label, 60)));
      ties.append(tie);
    }
    if (ties.children.length) made.push(ties);
    if (node.href && node !== this.self) {
      const open = text("a", this.chosen.dataset.open, "button");
      open.href = node.href;
      made.push(open);
    }
    return made;
  }

  follow() {
    if (this.selected?.href && this.selected !== this.self) this.chosen.querySelector("a")?.click();
  }

  // Pointer, wheel and keys.

  hit(event) {
    const near = ({ x, y }) => Math.hypot(x - event.offsetX, y - event.offsetY);
    const candidates = this.nodes.map((node) => ({ node, away: near({ x: this.at(node)[0], y: this.at(node)[1] }) - RADIUS[node.kind] }));
    const best = candidates.reduce((one, other) => (other.away < one.away ? other : one));
    return best.away < 8 ? best.node : null;
  }

  press(event) {
    this.canvas.setPointerCapture(event.pointerId);
    const node = this.hit(event);
    if (node) this.select(node);
    this.held = { node, x: event.offsetX, y: event.offsetY, isMoved: false };
  }

  move(event) {
    if (!this.held) {
      this.canvas.classList.toggle("over", Boolean(this.hit(event)));
      return;
    }
    const { held, view } = this;
    const [dx, dy] = [event.offsetX - held.x, event.offsetY - held.y];
    if (!held.isMoved && Math.hypot(dx, dy) < 4) return;
    this.isFitted = false;
    if (held.node) {
      held.node.fx = held.node.x = (event.offsetX - view.x) / view.scale;
      held.node.fy = held.node.y = (event.offsetY - view.y) / view.scale;
      if (!held.isMoved && !this.isCalm.matches) {
        this.simulation.alphaTarget(0.15);
        this.run();
      }
    } else {
      view.x += dx;
      view.y += dy;
      [held.x, held.y] = [event.offsetX, event.offsetY];
    }
    held.isMoved = true;
    this.draw();
  }

  release() {
    const { held } = this;
    this.held = null;
    if (held && !held.node && !held.isMoved) this.select(null);
    if (!held?.node || !held.isMoved) return;
    held.node.fx = held.node.fy = null;
    if (this.isCalm.matches) return;
    this.simulation.alphaTarget(0);
    this.run();
  }

  /** Zoom by a factor around a point; 0 shows everything again. */
  zoom(factor, x = this.size.width / 2, y = this.size.height / 2) {
    this.isFitted = factor === 0;
    if (!this.isFitted) {
      const scale = Math.min(Math.max(this.view.scale * factor, ZOOM_RANGE[0]), ZOOM_RANGE[1]);
      const ratio = scale / this.view.scale;
      this.view = { scale, x: x - (x - this.view.x) * ratio, y: y - (y - this.view.y) * ratio };
    }
    this.paint();
  }

  /** The wheel zooms once the graph has the focus, or with Ctrl; otherwise it scrolls the page. */
  wheel(event) {
    if (document.activeElement !== this.canvas && !event.ctrlKey) return;
    event.preventDefault();
    this.zoom(Math.exp(-event.deltaY * 0.002), event.offsetX, event.offsetY);
  }

  key(event) {
    const direction = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (direction) this.select(this.towards(direction));
    else if (event.key === "Enter") this.follow();
    else if (event.key === "+" || event.key === "-") this.zoom(event.key === "+" ? 1.25 : 0.8);
    else if (event.key === "0") this.zoom(0);
    else if (event.key === "Escape") this.select(null);
    else return;
    event.preventDefault();
  }

  /** Return the nearest node in a direction; the selected one if there is none. */
  towards([dx, dy]) {
    const from = this.selected;
    if (!from) return this.self;
    let best = from;
    let least = Infinity;
    for (const node of this.nodes) {
      const [x, y] = [node.x - from.x, node.y - from.y];
      const along = x * dx + y * dy;
      const cost = along + 2 * Math.abs(x * dy - y * dx);
      if (node !== from && along > 0 && cost < least) [best, least] = [node, cost];
    }
    return best;
  }
}

function showControls(element) {
  for (const control of element.querySelectorAll(".graph-bar, .zoom")) control.hidden = false;
}

function box(x, y, width, height) {
  return { left: x - width / 2, right: x + width / 2, top: y - height / 2, bottom: y + height / 2 };
}

function overlap(one, other) {
  return one.left < other.right && one.right > other.left && one.top < other.bottom && one.bottom > other.top;
}

function shorten(label, chars) {
  return label.length > chars ? `${label.slice(0, chars - 1).trimEnd()}…` : label;
}

function text(tag, content, className = "") {
  const made = document.createElement(tag);
  made.textContent = content;
  made.className = className;
  return made;
}
