/** A cluster in one process: nodes with coild, a controller, runtimes that call, and what must hold at any time. */
import assert from "node:assert/strict";
import { FINALIZER } from "../../lib/names/mod.ts";
import type { Life, Scheduler } from "./scheduler.ts";
import {
  checkRules,
  findOrphan,
  leftovers,
  type SimNode,
  type SimPod,
} from "./rules.ts";
import { SimApi } from "./sim_api.ts";
import { SimController } from "./sim_controller.ts";
import { SimKernel } from "./sim_kernel.ts";
import { cniArgs, SimCoild, type SimWorld } from "./sim_node.ts";
import { type Faults, NO_FAULTS, SimTransport } from "./sim_transport.ts";

const FAULTS: Faults = {
  lost: 0.02,
  unanswered: 0.02,
  cut: 0.02,
  kernel: 0.02,
};
const NODES = ["node1", "node2"];
const POOLS = {
  a: {
    blockSizeBits: 1,
    subnets: [{ ipv4: "10.0.0.0/28", ipv6: "fd00::/124" }],
  },
  b: { blockSizeBits: 2, subnets: [{ ipv4: "10.1.0.0/28" }] },
};
type PoolName = keyof typeof POOLS;
const POOL_NAMES = Object.keys(POOLS) as PoolName[];
/** Addresses of each pool. */
const POOL_SIZE = 16;

/** What an admin changes of a pool: addresses by their number. */
interface PoolChange {
  readonly paused: boolean;
  readonly reserved: readonly number[];
}
const OPEN: PoolChange = { paused: false, reserved: [] };
/** Without faults a change of a pool is noticed within this, by simulated time. */
const NOTICED_MS = 30_000;

const PODS = 9;
/** How often what happens is new, and no answer to what was. */
const ACTION_CHANCE = 0.12;
/** How long all may take to come to rest, by simulated time. */
const REST_MS = 900_000;

/** The IPv4 address of a pool that has this number. */
function addressOf(pool: PoolName, n: number): string {
  return `${{ a: "10.0.0", b: "10.1.0" }[pool]}.${n}`;
}

/** All of it. */
export class World implements SimWorld {
  readonly api: SimApi = new SimApi();
  readonly scheduler: Scheduler;
  readonly nodes: SimNode[];
  readonly pods: SimPod[] = [];
  #controller: SimController;
  #faults = FAULTS;
  #lives = 0;
  #failure: unknown;
  /** ADDs that were answered; a run without any is of no use. */
  added = 0;
  /** Those among them that a pool answered while part of it was reserved. */
  addedToChanged = 0;

  constructor(scheduler: Scheduler) {
    this.scheduler = scheduler;
    for (const [name, spec] of Object.entries(POOLS)) {
      const metadata = { name, finalizers: [FINALIZER] };
      this.#create("addresspools", { metadata, spec });
    }
    for (const name of NODES) this.#create("nodes", { metadata: { name } });
    this.api.onRemoved = (plural, object) => {
      if (plural !== "addressblocks") return;
      const message = findOrphan(this, object);
      if (message === undefined) return;
      this.#failure ??= new assert.AssertionError({ message });
    };
    this.#controller = new SimController(this, this.#life("controller"));
    this.nodes = NODES.map((name) => {
      const kernel = new SimKernel();
      const coild = this.#startCoild(name, kernel);
      return { name, kernel, coild, isCollecting: false };
    });
    for (const [pool] of Object.entries(POOLS)) {
      for (let n = 0; n < PODS; n++) {
        const node = this.nodes[n % NODES.length];
        if (node === undefined) continue;
        this.pods.push({
          containerId: `${pool}${n}`,
          ifname: "eth0",
          node,
          pool,
          phase: "detached",
          addresses: [],
          isBusy: false,
          hangUp: undefined,
        });
      }
    }
  }

  faults = (): Faults => this.#faults;

  connect = (life: Life): SimTransport => new SimTransport({ ...this, life });

  /** Makes so many steps of a stretch, comes to rest, and has all pods deleted. */
  async run(steps: number): Promise<void> {
    this.#faults = FAULTS;
    for (let n = 0; n < steps; n++) {
      if (this.scheduler.random.chance(ACTION_CHANCE)) this.#act();
      await this.#step();
    }
    await this.#rest();
  }

  async #step(): Promise<void> {
    await this.scheduler.step();
    if (this.#failure !== undefined) throw this.#failure;
    checkRules(this);
  }

  #act(): void {
    const { random } = this.scheduler;
    const pod = random.pick(this.pods);
    const node = random.pick(this.nodes);
    const action = random.weighted({
      add: 60,
      del: 40,
      hangUp: 8,
      gc: 5,
      deleteBlock: 1,
      repair: 2,
      flushRoutes: 1,
      changePool: 1,
      drain: 1,
      killCoild: 1,
      killController: 1,
    });
    if (action === "add") void this.#add(pod);
    if (action === "del") void this.#del(pod);
    if (action === "hangUp") this.#hangUp(pod);
    if (action === "gc") void this.#gc(node);
    if (action === "killCoild") this.#restart(node);
    if (action === "deleteBlock") this.#deleteBlock();
    if (action === "repair") void this.#repair(node);
    if (action === "flushRoutes") {
      this.scheduler.note(`routes of ${node.name} are flushed`);
      node.kernel.flush();
    }
    if (action === "changePool") {
      this.#change(this.#pickPool(), this.#pickSpec());
    }
    if (action === "drain") this.#drain(this.#pickPool());
    if (action === "killController") {
      this.#controller.kill();
      this.#controller = new SimController(this, this.#life("controller"));
    }
  }

  async #add(pod: SimPod): Promise<void> {
    if (pod.isBusy) return;
    const before = pod.addresses;
    const { coild, isCollecting } = pod.node;
    // The specification has GC and the beginning of an ADD exclude each other.
    if (isCollecting) return;
    const result = await this.#call(
      pod,
      { what: "ADD", coild },
      (signal) =>
        coild.service.add(cniArgs(pod, { pool: pod.pool }), { signal }),
    );
    if (result === undefined) return;
    this.added++;
    pod.phase = "attached";
    pod.addresses =
      result.ips?.map(({ address }) => address.split("/")[0] ?? "") ?? [];
    if (before.length === 0 || before.join() === pod.addresses.join()) return;
    this.#failure = new assert.AssertionError({
      message: `${pod.containerId} had ${before} and has ${pod.addresses}`,
    });
  }

  async #del(pod: SimPod): Promise<void> {
    if (pod.isBusy) return;
    const { coild } = pod.node;
    pod.addresses = [];
    const done = await this.#call(
      pod,
      { what: "DEL", coild },
      async (signal) => {
        await coild.service.del(cniArgs(pod), { signal });
        return true;
      },
    );
    if (done) pod.phase = "detached";
  }

  /** The runtime's patience is over; it will have the pod deleted, also while calls still go on. */
  #hangUp(pod: SimPod): void {
    if (pod.hangUp === undefined) return;
    pod.hangUp();
    void this.#delSoon(pod);
  }

  async #delSoon(pod: SimPod): Promise<void> {
    for (let n = 0; pod.isBusy && n < 100; n++) await Promise.resolve();
    await this.#del(pod);
  }

  /** Names all that the runtime has, and forgets one of them. */
  async #gc(node: SimNode): Promise<void> {
    if (node.isCollecting) return;
    const own = this.pods.filter((pod) => pod.node === node);
    const dropped = this.scheduler.random.pick(own);
    if (!dropped.isBusy && dropped.phase === "attached") {
      dropped.phase = "unknown";
      dropped.addresses = [];
    }
    const valid = own.filter(({ phase, isBusy }) =>
      phase === "attached" || isBusy
    );
    const args = cniArgs({ containerId: "", ifname: "" }, { valid });
    const { signal } = new AbortController();
    const { service, life } = node.coild;
    this.scheduler.note(`GC of ${node.name}`);
    node.isCollecting = true;
    await Promise.race([
      service.gc(args, { signal }).catch(() => {}),
      this.#untilOver(life),
    ]);
    node.isCollecting = false;
  }

  /** Calls of one pod follow each other; a daemon that dies answers none. */
  async #call<T>(
    pod: SimPod,
    { what, coild: { life } }: {
      readonly what: string;
      readonly coild: SimCoild;
    },
    fn: (signal: AbortSignal) => Promise<T>,
  ): Promise<T | undefined> {
    pod.isBusy = true;
    const name = `${life.name}: ${what} of ${pod.containerId}`;
    this.scheduler.note(name);
    const stop = new AbortController();
    const { promise: hungUp, resolve } = Promise.withResolvers<undefined>();
    pod.hangUp = () => {
      stop.abort(new Error("the runtime hung up"));
      resolve(undefined);
    };
    const answer = await Promise.race([
      fn(stop.signal).catch(() => undefined),
      this.#untilOver(life),
      hungUp,
    ]);
    pod.isBusy = false;
    pod.hangUp = undefined;
    this.scheduler.note(`${name} ended: ${JSON.stringify(answer)}`);
    if (!life.isOver && answer !== undefined) return answer as T;
    pod.phase = "unknown";
    pod.addresses = [];
    return undefined;
  }

  readonly #ends = new Map<unknown, () => void>();
  readonly #overs = new Map<unknown, Promise<void>>();

  #untilOver(life: unknown): Promise<void> {
    const known = this.#overs.get(life);
    if (known !== undefined) return known;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#overs.set(life, promise);
    this.#ends.set(life, resolve);
    return promise;
  }

  #restart(node: SimNode): void {
    const { life } = node.coild;
    node.coild.kill();
    this.#ends.get(life)?.();
    this.#ends.delete(life);
    this.#overs.delete(life);
    node.coild = this.#startCoild(node.name, node.kernel);
  }

  #startCoild(node: string, kernel: SimKernel): SimCoild {
    return new SimCoild(this, { node, kernel, life: this.#life(node) });
  }

  #life(name: string) {
    return { name: `${name}/${++this.#lives}`, isOver: false };
  }

  /** An admin has all addresses freed that are proved unused. */
  async #repair({ coild }: SimNode): Promise<void> {
    const { name } = coild.life;
    this.scheduler.note(`${name}: repair`);
    const freed = await coild.repair().catch(() => undefined);
    this.scheduler.note(`${name}: repair ended: ${freed}`);
  }

  #pickPool(): PoolName {
    return this.scheduler.random.pick(POOL_NAMES);
  }

  /** What an admin may make of a pool; mostly as it was. */
  #pickSpec(): PoolChange {
    const { random } = this.scheduler;
    if (random.chance(0.7)) return OPEN;
    return random.chance(0.5)
      ? { paused: true, reserved: [] }
      : { paused: false, reserved: [random.below(POOL_SIZE)] };
  }

  /** As `coil ipam drain --range --evict` does: nothing of a part of the pool is given any more, and pods that have it are replaced. */
  #drain(pool: PoolName): void {
    const { random } = this.scheduler;
    const first = random.below(POOL_SIZE - 4);
    const reserved = [0, 1, 2, 3].map((n) => first + n);
    this.#change(pool, { paused: false, reserved });
    const texts = reserved.map((n) => addressOf(pool, n));
    for (const pod of this.pods) {
      if (pod.addresses.some((a) => texts.includes(a))) void this.#del(pod);
    }
  }

  #change(name: PoolName, { paused, reserved }: PoolChange): void {
    const addresses = reserved.map((n) => addressOf(name, n));
    this.scheduler.note(`${name}: paused ${paused}, reserved ${addresses}`);
    this.api.handle({
      method: "PATCH",
      plural: "addresspools",
      name,
      subresource: undefined,
      query: new URLSearchParams(),
      contentType: "application/merge-patch+json",
      body: { spec: { paused, reserved: addresses } },
    });
  }

  /** As an admin does: the finalizer keeps it. */
  #deleteBlock(): void {
    const block = this.scheduler.random.tryPick(this.api.list("addressblocks"));
    if (block === undefined) return;
    this.api.handle({
      method: "DELETE",
      plural: "addressblocks",
      name: block.metadata.name,
      subresource: undefined,
      query: new URLSearchParams(),
      contentType: "",
      body: undefined,
    });
  }

  #create(plural: string, object: unknown): void {
    this.api.handle({
      method: "POST",
      plural,
      name: undefined,
      subresource: undefined,
      query: new URLSearchParams(),
      contentType: "",
      body: object,
    });
  }

  /** Without faults all calls end, all can be deleted, and nothing is left. */
  async #rest(): Promise<void> {
    this.#faults = NO_FAULTS;
    for (const pool of POOL_NAMES) this.#change(pool, OPEN);
    const isIdle = () => this.pods.every(({ isBusy }) => !isBusy);
    await this.#until("calls to end", isIdle);
    await this.#until(
      "readiness",
      () => this.nodes.every(({ coild }) => coild.readiness.isReady),
    );
    await this.#until(
      "routes to be back",
      () =>
        this.nodes.every(({ kernel }) =>
          kernel.pods.every(({ isFlushed }) => !isFlushed)
        ),
    );
    if (this.scheduler.random.chance(0.4)) {
      await this.#addToChangedPools(isIdle);
    }
    for (const pod of this.pods) void this.#del(pod);
    await this.#until("DELs to end", isIdle);
    const left = this.pods.filter(({ phase }) => phase !== "detached");
    assert.deepEqual(left, [], "DEL fails although all is well");
    await this.#until("all to be gone", () => leftovers(this).length === 0);
  }

  /** A pool that has changed a while ago gives nothing that it must not give; what it gave before stays. */
  async #addToChangedPools(isIdle: () => boolean): Promise<void> {
    const half = Array.from({ length: POOL_SIZE / 2 }, (_, n) => n * 2);
    const paused = this.#pickPool();
    const other = paused === "a" ? "b" : "a";
    this.#change(paused, { paused: true, reserved: [] });
    this.#change(other, { paused: false, reserved: half });
    const noticedMs = this.scheduler.nowMs + NOTICED_MS;
    await this.#until("the change", () => this.scheduler.nowMs > noticedMs);
    const added = this.pods.filter(({ phase }) => phase === "detached");
    for (const pod of added) void this.#add(pod);
    await this.#until("ADDs to end", isIdle);
    const reserved = half.map((n) => addressOf(other, n));
    for (const { containerId, pool, addresses: [address] } of added) {
      if (address === undefined) continue;
      assert.notEqual(
        pool,
        paused,
        `${containerId} got ${address} of a paused pool`,
      );
      assert.ok(
        !reserved.includes(address),
        `${containerId} got ${address}, which is reserved`,
      );
      this.addedToChanged++;
    }
    for (const name of POOL_NAMES) this.#change(name, OPEN);
  }

  async #until(what: string, isSo: () => boolean): Promise<void> {
    const endMs = this.scheduler.nowMs + REST_MS;
    while (!isSo()) {
      await this.#step();
      if (this.scheduler.nowMs < endMs) continue;
      assert.fail(`Cannot see ${what}: ${leftovers(this).join(", ")}`);
    }
  }

  [Symbol.dispose](): void {
    this.#controller.kill();
    for (const { coild } of this.nodes) coild.kill();
  }
}
