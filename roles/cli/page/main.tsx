import { render } from "preact";
import { App } from "./app.tsx";
import { applyChanges, type Changes, stateOf } from "./state.ts";

let entries: ReadonlyMap<string, unknown> = new Map();
let isConnected = true;
let isDue = false;

/** Shows what is known now, once for all messages before the next picture. */
function update(): void {
  if (isDue) return;
  isDue = true;
  requestAnimationFrame(() => {
    isDue = false;
    const state = stateOf(entries);
    render(<App state={state} isConnected={isConnected} />, document.body);
    if (state.status !== undefined) markPainted();
  });
}

/** For the test that measures how long the first picture takes. */
function markPainted(): void {
  if (performance.getEntriesByName("painted").length > 0) return;
  requestAnimationFrame(() => setTimeout(() => performance.mark("painted")));
}

function changesOf(event: MessageEvent<string>): Changes {
  return JSON.parse(event.data);
}

const source = new EventSource("events");
source.addEventListener("state", (event) => {
  entries = applyChanges(new Map(), changesOf(event));
  update();
});
source.addEventListener("changes", (event) => {
  entries = applyChanges(entries, changesOf(event));
  update();
});
source.addEventListener("open", () => {
  isConnected = true;
  update();
});
source.addEventListener("error", () => {
  isConnected = false;
  update();
});
update();
