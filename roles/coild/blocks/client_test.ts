import assert from "node:assert/strict";
import { KubeClient } from "../../../lib/kube/mod.ts";
import { FakeTransport } from "../../../lib/kube/testing.ts";
import { BlockClient } from "./client.ts";

function block(name: string, labels: Record<string, string>): object {
  return {
    apiVersion: "coil.cybozu.com/v2",
    kind: "AddressBlock",
    metadata: {
      name,
      uid: `uid-of-${name}`,
      labels: Object.fromEntries(
        Object.entries(labels).map(([k, v]) => [`coil.cybozu.com/${k}`, v]),
      ),
    },
    index: 0,
    ipv4: "10.0.0.0/27",
  };
}

/** A client whose requests are answered by the names, one after the other. */
function clientOf(answers: string[], objects: Record<string, object>) {
  const transport = new FakeTransport(({ path }) => {
    const found = objects[path.split("/").at(-1)?.split("?")[0] ?? ""];
    return found === undefined
      ? { status: 404, body: { kind: "Status", code: 404, reason: "NotFound" } }
      : { body: found };
  });
  return new BlockClient({
    client: new KubeClient(transport),
    lookMs: 60_000,
    nodeName: "node-a",
    requests: {
      synced: () => Promise.resolve(),
      ask: () => Promise.resolve(answers.shift() ?? "none left"),
    },
  });
}

const { signal } = new AbortController();

Deno.test("request() does not adopt a block that a late answer names and another node has by now", async () => {
  const client = clientOf(["p-0", "p-1"], {
    "p-0": block("p-0", { pool: "p", node: "node-b" }),
    "p-1": block("p-1", { pool: "p", node: "node-a" }),
  });
  const { name } = await client.request("p", { signal });
  assert.equal(name, "p-1");
});

Deno.test("request() passes over a block that is gone, or of another pool", async () => {
  const client = clientOf(["p-0", "p-1", "p-2"], {
    "p-1": block("p-1", { pool: "q", node: "node-a" }),
    "p-2": block("p-2", { pool: "p", node: "node-a" }),
  });
  const { name } = await client.request("p", { signal });
  assert.equal(name, "p-2");
});
