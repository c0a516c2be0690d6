import assert from "node:assert/strict";
import { transformPod } from "./transform.ts";

const KEY = "egress.coil.cybozu.com/nat";

Deno.test("transformPod() keeps the annotations of egress, and of those that are too long a few words", () => {
  const pod = (value: string) => ({
    metadata: {
      name: "client",
      annotations: { [KEY]: value, "example.com/other": "x" },
    },
  });
  const short = transformPod(pod("internet,dmz"));
  assert.deepEqual(short.metadata?.annotations, { [KEY]: "internet,dmz" });
  const long = transformPod(pod("internet,".repeat(25_000)));
  assert.ok(JSON.stringify(long).length < 500);
  // Still one that asks for egress, and cannot have it.
  assert.equal(long.metadata?.annotations?.[KEY], "(225000 characters)");
});
