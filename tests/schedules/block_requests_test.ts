// coild's requests for blocks against a simulated API server, in the orders that many seeds pick.
import assert from "node:assert/strict";
import { completedStatus } from "../../lib/api/mod.ts";
import { TaskGroup } from "../../lib/async/mod.ts";
import { KubeClient } from "../../lib/kube/mod.ts";
import { configureLogging } from "../../lib/telemetry/mod.ts";
import { BlockRequests } from "../../roles/coild/blocks/requests.ts";
import { NodeSource } from "../../roles/coild/cluster/node_source.ts";
import { Random } from "../faults/random.ts";
import { Scheduler } from "./scheduler.ts";
import { SimApi, type SimRequest } from "./sim_api.ts";
import { NO_FAULTS, SimTransport } from "./sim_transport.ts";

const SEEDS = 100;
/** More than it takes to delete an answer that nobody waited for. */
const REST_STEPS = 500;

configureLogging({ level: "panic", write: () => {} });

function request(method: string, plural: string, body: unknown): SimRequest {
  return {
    method,
    plural,
    name: method === "POST"
      ? undefined
      : (body as { metadata: { name: string } }).metadata.name,
    subresource: method === "PUT" ? "status" : undefined,
    query: new URLSearchParams(),
    contentType: "",
    body,
  };
}

/** Answers each request as soon as it is there. */
async function answerAll(api: SimApi, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    for (const found of api.list("blockrequests")) {
      if (found.status !== undefined) continue;
      const status = completedStatus("a-0", new Date(0));
      api.handle(request("PUT", "blockrequests", { ...found, status }));
    }
    await api.changed();
  }
}

async function runSeed(seed: number): Promise<number> {
  const scheduler = new Scheduler(new Random(seed));
  using _time = scheduler.install();
  const api = new SimApi();
  api.handle(request("POST", "nodes", { metadata: { name: "node1" } }));
  let faults = NO_FAULTS;
  const life = { name: "coild", isOver: false };
  const client = new KubeClient(
    new SimTransport({ api, scheduler, life, faults: () => faults }),
  );
  const node = new NodeSource(client, "node1");
  const requests = new BlockRequests({ client, node });
  const group = new TaskGroup();
  group.run("node", (signal) => node.run(signal));
  group.runAll(requests.loops);
  group.run("controller", (signal) => answerAll(api, signal));
  let isSynced = false;
  void requests.synced({ signal: group.signal }).then(() => isSynced = true);
  while (!isSynced) await scheduler.step();
  // The request is made, and nobody is told so.
  faults = { ...NO_FAULTS, unanswered: 1 };
  let isOver = false;
  void requests.ask("a", { signal: AbortSignal.any([]) })
    .catch(() => {}).then(() => isOver = true);
  while (!isOver) await scheduler.step();
  faults = NO_FAULTS;
  const left = () => api.list("blockrequests").length;
  for (let n = 0; n < REST_STEPS && left() > 0; n++) await scheduler.step();
  life.isOver = true;
  group.abort(new Error("over"));
  return left();
}

Deno.test({
  name:
    "BlockRequests: an answer that came while the wait for it failed is deleted, in any order of events",
  sanitizeOps: false,
  sanitizeResources: false,
  fn: async () => {
    const left: number[] = [];
    for (let seed = 1; seed <= SEEDS; seed++) {
      if (await runSeed(seed) > 0) left.push(seed);
    }
    assert.deepEqual(left, [], "seeds after which the request is left");
  },
});
