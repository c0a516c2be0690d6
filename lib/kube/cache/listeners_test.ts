import assert from "node:assert/strict";
import type { KubeObject } from "../api/objects.ts";
import { Listeners } from "./listeners.ts";
import type { StoreChange } from "./store.ts";

const CHANGE: StoreChange<KubeObject> = { type: "added", object: {}, key: "a" };

Deno.test("Listeners calls a function as often as it was added, until each is disposed of", () => {
  const listeners = new Listeners<KubeObject>("pods");
  let calls = 0;
  const listener = () => void calls++;
  const first = listeners.add(listener);
  listeners.add(listener);
  listeners.emit(CHANGE);
  assert.equal(calls, 2);
  first[Symbol.dispose]();
  listeners.emit(CHANGE);
  assert.equal(calls, 3);
});

Deno.test("Listeners does not call one for the change during which it was added", () => {
  const listeners = new Listeners<KubeObject>("pods");
  let late = 0;
  using _adding = listeners.add(() => {
    if (late === 0) listeners.add(() => void late++);
  });
  listeners.emit(CHANGE);
  assert.equal(late, 0);
  listeners.emit(CHANGE);
  assert.equal(late, 1);
});
