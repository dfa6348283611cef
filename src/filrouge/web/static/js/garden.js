// The Garden: moves the progress bar at each step of a run, between two refreshes of the page.

/** Follow the run of this element until the page shows another. */
export function start(element) {
  const { garden, language } = element.dataset;
  const bar = element.querySelector("progress");
  const label = element.querySelector("[data-label]");
  const ended = new AbortController();
  let asking = false;
  let again = false;

  document.addEventListener("filrouge:message", ({ detail }) => {
    if (!element.isConnected || element.dataset.garden !== garden) ended.abort();
    else if (detail.type === "ws:memory_progress" && detail.garden_id === garden) show();
  }, { signal: ended.signal });

  /** Ask for the latest message with its label; a step during a request is shown by the next one. */
  async function show() {
    if (asking) {
      again = true;
      return;
    }
    asking = true;
    const after = Math.max(0, bar.value - 1);
    const answer = await fetch(`/api/memory/gardens/${encodeURIComponent(garden)}/progress?after=${after}&language=${language}`);
    if (answer.ok && !ended.signal.aborted) {
      const progress = await answer.json();
      bar.value = progress.garden.steps.done;
      label.textContent = progress.messages.at(-1)?.label ?? label.textContent;
    }
    asking = false;
    if (again) {
      again = false;
      show();
    }
  }
}
