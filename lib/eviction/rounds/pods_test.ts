import assert from "node:assert/strict";
import { KubeClient } from "../../kube/mod.ts";
import { FakeTransport } from "../../kube/testing.ts";
import type { LivePod } from "../base/live_pod.ts";
import { Patience } from "../base/patience.ts";
import { Progress } from "./progress.ts";
import { replacePods } from "./pods.ts";
import { replaceAllPods } from "./rounds.ts";

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

/** What to replace pods with: an API server that allows each eviction at once. */
function world({ total, parallel }: {
  readonly total: number;
  readonly parallel: number;
}) {
  const { signal } = new AbortController();
  const transport = new FakeTransport(({ method }) =>
    method === "POST" ? { status: 201, body: {} } : {
      status: 404,
      body: { kind: "Status", status: "Failure", reason: "NotFound" },
    }
  );
  const client = new KubeClient(transport);
  let text = "";
  const terminal = {
    isInteractive: true,
    out: () => {},
    err: (more: string) => void (text += more),
    ask: () => Promise.resolve(undefined),
  };
  const options = {
    client,
    signal,
    patience: new Patience({ timeoutMs: 0, signal }),
    evictionTimeoutMs: 0,
    podTimeoutMs: 0,
    pollMs: 1,
    intervalMs: 1,
    limits: { parallel, perNode: 1, perNamespace: parallel },
    progress: new Progress(terminal, { total, done: 0 }),
  };
  return {
    options,
    text: () => text,
    evictions: () =>
      transport.requests.filter(({ method }) => method === "POST").length,
    [Symbol.dispose]: () => client[Symbol.dispose](),
  };
}

/** Before which nodes there was a pause. */
async function pauses(
  todo: readonly LivePod[],
  parallel: number,
): Promise<string[]> {
  using lab = world({ total: todo.length, parallel });
  await replacePods(todo, lab.options);
  assert.equal(lab.evictions(), todo.length);
  return [...lab.text().matchAll(/pausing before node (\w+)/g)].map((m) =>
    m[1] ?? ""
  );
}

Deno.test("replacePods() pauses before the first pod of each further node, and only then", async () => {
  assert.deepEqual(await pauses(pods("n1", "n1", "n2", "n2"), 1), ["n2"]);
  // Two nodes take turns, each with one pod at a time.
  const turns = pods("n1", "n2", "n1", "n2", "n1", "n2", "n3");
  assert.deepEqual(await pauses(turns, 2), ["n2", "n3"]);
});

Deno.test("replaceAllPods() also replaces pods that turn up in the meantime, until none is left", async () => {
  using lab = world({ total: 1, parallel: 1 });
  const later = [pods("n2", "n2"), pods("n3"), []];
  await replaceAllPods(pods("n1"), {
    ...lab.options,
    look: () => Promise.resolve(later.shift() ?? assert.fail("one look more")),
    comesBack: (all) => assert.fail(all),
  });
  assert.equal(lab.evictions(), 4);
  assert.deepEqual(later, []);
});

Deno.test("replaceAllPods() gives up when pods turn up five times, and names five of them", async () => {
  using lab = world({ total: 1, parallel: 1 });
  const rest = pods("n1", "n2", "n3", "n4", "n5", "n6");
  const left = replaceAllPods(pods("n1"), {
    ...lab.options,
    look: () => Promise.resolve(rest),
    comesBack: (all) => new Error(all),
  });
  await assert.rejects(left, {
    message: "a/p0 on n1, a/p1 on n2, a/p2 on n3, a/p3 on n4, a/p4 on n5",
  });
  assert.equal(lab.evictions(), 1 + 4 * rest.length);
});
