// Views that somebody keeps: addresses with their filters, by name. They stay in this browser.

const STORE = "filrouge:views";
const DASHBOARD = /^\/dashboard(?:[/?]|$)/;

/** The kept views, in the order in which they were kept. */
function views() {
  try {
    const kept = JSON.parse(localStorage.getItem(STORE) ?? "[]");
    return kept.filter(({ name, address }) => typeof name === "string" && DASHBOARD.test(address));
  } catch {
    return []; // something else wrote there, or the browser keeps nothing
  }
}

function keep(all) {
  localStorage.setItem(STORE, JSON.stringify(all));
}

/** Show the kept views in the palette, and the form that keeps this page if its address says more than its path. */
export function showViews(palette) {
  const list = palette.querySelector("[data-views]");
  const entry = palette.querySelector("template").content.firstElementChild;
  const all = views();
  list.replaceChildren(...all.map((view) => {
    const shown = entry.cloneNode(true);
    shown.querySelector("a").href = view.address;
    shown.querySelector("a span").textContent = view.name;
    shown.querySelector("button").addEventListener("click", () => {
      keep(views().filter(({ name }) => name !== view.name));
      showViews(palette);
    });
    return shown;
  }));
  list.previousElementSibling.hidden = !all.length;
  const form = palette.querySelector("[data-keep]");
  form.hidden = !location.search;
  form.elements.name.value = nameOfPage();
}

/** The heading of the page and what its filters are set to. */
function nameOfPage() {
  const set = [...document.querySelectorAll("main form[method=get] [name]")]
    .filter((field) => new URLSearchParams(location.search).get(field.name) === field.value && field.value)
    .filter((field) => !/radio|checkbox/.test(field.type) || field.checked)
    .map((field) => field.selectedOptions?.[0].text ?? (field.type === "radio" ? field.closest("label").textContent.trim() : field.value));
  return [document.querySelector("h1").textContent.trim(), ...new Set(set)].join(" · ").slice(0, 80);
}

document.addEventListener("submit", (event) => {
  if (!event.target.matches("[data-keep]")) return;
  event.preventDefault();
  const name = event.target.elements.name.value.trim();
  if (name) keep([...views().filter((view) => view.name !== name), { name, address: location.pathname + location.search }]);
  showViews(event.target.closest("dialog"));
  event.target.hidden = true;
}, true);
