import assert from "node:assert/strict";
import { KubeClient } from "../kube/mod.ts";
import { FakeTransport } from "../kube/testing.ts";
import type { LivePod } from "./live_pod.ts";
import { Patience } from "./patience.ts";
import { Progress } from "./progress.ts";
import { replacePods } from "./pods.ts";

/** Pods without a controller, so that an eviction is all there is to do. */
function pods(...nodes: readonly string[]): LivePod[] {
  return nodes.map((node, i) => ({
    namespace: "a",
    name: `p${i}`,
    uid: `u${i}`,
    node,
    addresses: [],
    controller: undefined,
    isStatic: false,
    isReady: true,
    isDeleting: false,
  }));
}

/** Before which nodes there was a pause. */
async function pauses(
  todo: readonly LivePod[],
  parallel: number,
): Promise<string[]> {
  const { signal } = new AbortController();
  const transport = new FakeTransport(({ method }) =>
    method === "POST" ? { status: 201, body: {} } : {
      status: 404,
      body: { kind: "Status", status: "Failure", reason: "NotFound" },
    }
  );
  using client = new KubeClient(transport);
  let text = "";
  const terminal = {
    isInteractive: true,
    out: () => {},
    err: (more: string) => void (text += more),
    ask: () => Promise.resolve(undefined),
  };
  await replacePods(todo, {
    client,
    signal,
    patience: new Patience({ timeoutMs: 0, signal }),
    evictionTimeoutMs: 0,
    podTimeoutMs: 0,
    pollMs: 1,
    intervalMs: 1,
    limits: { parallel, perNode: 1, perNamespace: parallel },
    progress: new Progress(terminal, { total: todo.length, done: 0 }),
  });
  const evicted = transport.requests.filter(({ method }) => method === "POST");
  assert.equal(evicted.length, todo.length);
  return [...text.matchAll(/pausing before node (\w+)/g)].map((m) =>
    m[1] ?? ""
  );
}

Deno.test("replacePods() pauses before the first pod of each further node, and only then", async () => {
  assert.deepEqual(await pauses(pods("n1", "n1", "n2", "n2"), 1), ["n2"]);
  // Two nodes take turns, each with one pod at a time.
  const turns = pods("n1", "n2", "n1", "n2", "n1", "n2", "n3");
  assert.deepEqual(await pauses(turns, 2), ["n2", "n3"]);
});
