import assert from "node:assert/strict";
import { trimPod } from "./trim.ts";

const KEY = "egress.coil.cybozu.com/nat";

Deno.test("trimPod() keeps the annotations of egress, and of those that are too long a few words", () => {
  const pod = (value: string) => ({
    metadata: {
      name: "client",
      annotations: { [KEY]: value, "example.com/other": "x" },
    },
  });
  const short = trimPod(pod("internet,dmz"));
  assert.deepEqual(short.metadata?.annotations, { [KEY]: "internet,dmz" });
  const long = trimPod(pod("internet,".repeat(25_000)));
  assert.ok(JSON.stringify(long).length < 500);
  // Still one that asks for egress, and cannot have it.
  assert.equal(long.metadata?.annotations?.[KEY], "(225000 characters)");
});
