// The slider through time: it sets the date field beside it. Without this, the date field does the same.

const DAY = 86_400_000;

/** Start the slider of a form of filters. */
export function start(form) {
  const slider = form.querySelector('input[type="range"]');
  const field = form.querySelector('input[name="as_of"]');
  if (!slider) return;
  const first = Date.parse(slider.dataset.first);
  const last = Number(slider.max);
  slider.closest("label").hidden = false;
  slider.value = field.value ? Math.round((Date.parse(field.value) - first) / DAY) : last;
  const tell = () => {
    const day = new Date(first + Number(slider.value) * DAY).toISOString().slice(0, 10);
    field.value = Number(slider.value) === last ? "" : day;
    slider.setAttribute("aria-valuetext", day);
  };
  slider.oninput = tell;
  slider.onchange = () => {
    tell();
    form.requestSubmit();
  };
}
