// What the model takes for granted, counted at coild and coil-controller as they
// are, on the simulated API server of the schedules.
import assert from "node:assert/strict";
import { FINALIZER } from "../../lib/names/mod.ts";
import { configureLogging } from "../../lib/telemetry/mod.ts";
import { Random } from "../faults/random.ts";
import { type Life, Scheduler } from "../schedules/scheduler.ts";
import { SimApi, type SimRequest } from "../schedules/sim_api.ts";
import { SimController } from "../schedules/sim_controller.ts";
import { SimKernel } from "../schedules/sim_kernel.ts";
import { cniArgs, SimCoild, type SimWorld } from "../schedules/sim_node.ts";
import { NO_FAULTS, SimTransport } from "../schedules/sim_transport.ts";
import { PATTERNS } from "./patterns.ts";

configureLogging({ level: "panic", write: () => {} });

const MAX_STEPS = 20_000;
const POD = { containerId: "pod1", ifname: "eth0" };

/** One node, one pool. */
class Sample implements SimWorld, Disposable {
  readonly api: SimApi = new SimApi();
  readonly scheduler: Scheduler;
  readonly coild: SimCoild;
  readonly #controller: SimController;
  #requests: SimRequest[] = [];

  constructor(scheduler: Scheduler) {
    this.scheduler = scheduler;
    this.#create("addresspools", {
      metadata: { name: "a", finalizers: [FINALIZER] },
      spec: { blockSizeBits: 2, subnets: [{ ipv4: "10.0.0.0/28" }] },
    });
    this.#create("nodes", { metadata: { name: "node1" } });
    const life = (name: string) => ({ name, isOver: false });
    this.#controller = new SimController(this, life("controller"));
    this.coild = new SimCoild(this, {
      node: "node1",
      kernel: new SimKernel(),
      life: life("node1"),
    });
  }

  faults = () => NO_FAULTS;

  connect = (life: Life): SimTransport =>
    new SimTransport({
      ...this,
      life,
      onRequest: (request) => void this.#requests.push(request),
    });

  /** Requests about blocks while something is done and comes to its end; lists are made at intervals. */
  async count(
    act: () => Promise<unknown>,
    isOver: () => boolean,
  ): Promise<{ reads: number; writes: Record<string, number> }> {
    this.#requests = [];
    let isDone = false;
    const done = act().finally(() => isDone = true);
    await this.until(() => isDone && isOver());
    await done;
    const about = this.#requests.filter(({ plural }) => /block/.test(plural));
    // Looks are made at intervals, too, and of what is in the cache.
    const reads =
      about.filter(({ method, name, query }) =>
        method === "GET" && query.get("resourceVersion") !== "0" &&
        (name !== undefined || query.has("watch"))
      ).length;
    const writes: Record<string, number> = {};
    for (const { method, plural } of about) {
      if (method !== "GET") writes[plural] = (writes[plural] ?? 0) + 1;
    }
    return { reads, writes };
  }

  async until(isSo: () => boolean): Promise<void> {
    for (let step = 0; !isSo(); step++) {
      assert.ok(step < MAX_STEPS, "it comes to no end");
      await this.scheduler.step();
    }
  }

  #create(plural: string, body: unknown): void {
    this.api.handle({
      method: "POST",
      plural,
      name: undefined,
      subresource: undefined,
      query: new URLSearchParams(),
      contentType: "",
      body,
    });
  }

  [Symbol.dispose](): void {
    this.#controller.kill();
    this.coild.kill();
  }
}

Deno.test({
  name: "a block's cycle has as many requests as the model says",
  sanitizeOps: false,
  sanitizeResources: false,
  fn: async () => {
    const scheduler = new Scheduler(new Random(1));
    using _time = scheduler.install();
    using sample = new Sample(scheduler);
    const { api, coild } = sample;
    await sample.until(() => coild.readiness.isReady);
    const { signal } = new AbortController();
    const obtained = await sample.count(
      () => coild.service.add(cniArgs(POD, { pool: "a" }), { signal }),
      () => api.list("blockrequests").length === 0,
    );
    const givenBack = await sample.count(
      () => coild.service.del(cniArgs(POD), { signal }),
      () => api.list("addressblocks").length === 0,
    );
    const { reads, writes } = PATTERNS.now.cycle;
    assert.deepEqual(obtained, {
      reads: reads.obtain,
      writes: writes.obtain,
    });
    assert.deepEqual(givenBack, {
      reads: reads.giveBack,
      writes: writes.giveBack,
    });
  },
});
