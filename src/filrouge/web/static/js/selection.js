// Selects all items of a page, or none. Selecting one by one and the count need no script.

/** Show the buttons of a selection's form, and let Escape empty the selection. */
export function start(form) {
  // `form.id` would be the boxes themselves: their name is `id`.
  const boxes = `input[type="checkbox"][form="${form.getAttribute("id")}"]`;
  const check = (checked) => document.querySelectorAll(boxes).forEach((box) => { box.checked = checked; });
  for (const button of form.querySelectorAll("[data-select]")) {
    button.hidden = false;
    button.addEventListener("click", () => check(button.dataset.select === "all"));
  }
  form.addEventListener("keydown", (event) => event.key === "Escape" && check(false));
}
