import assert from "node:assert/strict";
import { NotReadyError } from "../base/errors.ts";
import { Readiness } from "./readiness.ts";

Deno.test("Readiness names every condition still waited for", () => {
  const readiness = new Readiness({ node: "no Node yet", ipam: "no blocks" });
  assert.equal(readiness.reason, "no Node yet; no blocks");
  assert.throws(() => readiness.assertReady(), (error) => {
    assert.ok(error instanceof NotReadyError);
    assert.match(error.message, /no Node yet; no blocks/);
    return true;
  });
  readiness.waiting("node", "the API server is away");
  readiness.met("ipam");
  assert.equal(readiness.check(), "the API server is away");
});

Deno.test("Readiness is ready when all conditions are met, and can be lost again", () => {
  const readiness = new Readiness({ node: "no Node yet" });
  readiness.met("node");
  assert.equal(readiness.isReady, true);
  assert.equal(readiness.check(), true);
  readiness.assertReady();
  readiness.waiting("node", "gone");
  assert.equal(readiness.isReady, false);
});
