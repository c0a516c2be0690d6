/** Several coil-controllers that all believe they lead write the slices of one Egress, and a gateway reads them. */
import type { Egress, EgressClientSlice } from "../../lib/api/mod.ts";
import { EGRESSES } from "../../lib/api/mod.ts";
import { TaskGroup } from "../../lib/async/mod.ts";
import { Informer, KubeClient, type V1Pod } from "../../lib/kube/mod.ts";
import { clientPods } from "../../roles/coil_controller/clients/client_pods.ts";
import { sliceInformer } from "../../roles/coil_controller/clients/client_slices.ts";
import { connectClients } from "../../roles/coil_controller/clients_part.ts";
import { planMetadata } from "../../roles/coil_controller/base/metadata.ts";
import {
  type ClientPodChange,
  SliceClients,
} from "../../roles/coil_egress/clients/slice_clients.ts";
import type { Life, Scheduler } from "./scheduler.ts";
import { SimApi, type SimRequest, type Stored } from "./sim_api.ts";
import { type Faults, NO_FAULTS, SimTransport } from "./sim_transport.ts";

const SLICES = "egressclientslices";
const WRITERS = 2;
/** Few enough that some are put together. */
const FIRST_SLICES = 5;
const FIRST_PODS = 8;
/** How often what happens is new, and no answer to what was. */
const ACTION_CHANCE = 0.1;
const FAULTS: Faults = {
  ...NO_FAULTS,
  lost: 0.02,
  unanswered: 0.02,
  cut: 0.03,
};
/** How long all may take to come to rest, by simulated time. */
const REST_MS = 900_000;
/** No more time passes in one step. */
const TICK_MS = 60_000;
/** Far more than passes: a gateway keeps what a slice had that was deleted by hand. */
const LOST_MS = 10_000 * TICK_MS;

/** All of it. */
export class SlicesWorld implements Disposable {
  readonly #api = new SimApi();
  readonly #scheduler: Scheduler;
  readonly #lives: Life[] = [];
  readonly #stop = new AbortController();
  readonly #gateway: SliceClients;
  /** What the gateway served last, by UID. */
  readonly #served = new Map<string, readonly string[]>();
  #faults = FAULTS;
  #told = 0;
  #pods = 0;
  /** Addresses that the gateway has lost although their pods have them. */
  readonly losses: string[] = [];
  /** Slices written so far. */
  writes = 0;

  constructor(scheduler: Scheduler) {
    this.#scheduler = scheduler;
    this.#gateway = new SliceClients({
      lostMs: LOST_MS,
      onChange: (change) => this.#check(change),
    });
    const metadata = { name: "nat", namespace: "internet" };
    const egress = this.#request("POST", "egresses", { metadata }) as Egress;
    for (let n = 0; n < FIRST_PODS; n++) this.#addPod();
    for (const pod of this.#podsNow()) this.#setAddress(pod);
    this.#addSlices(egress);
    this.#tellGateway();
    for (let n = 1; n <= WRITERS; n++) this.#startWriter(`writer${n}`);
    setInterval(() => {}, TICK_MS);
  }

  /** So many steps with faults, then without until all is as it should be. */
  async run(steps: number): Promise<void> {
    for (let n = 0; n < steps; n++) {
      if (this.#scheduler.random.chance(ACTION_CHANCE)) this.#act();
      await this.#step();
    }
    this.#faults = NO_FAULTS;
    for (const life of this.#lives) life.isPaused = false;
    const endMs = this.#scheduler.nowMs + REST_MS;
    while (this.#difference() !== undefined) {
      await this.#step();
      if (this.#scheduler.nowMs < endMs) continue;
      throw new Error(`Cannot come to rest: ${this.#difference()}`);
    }
  }

  async #step(): Promise<void> {
    await this.#scheduler.step();
    this.#tellGateway();
  }

  #act(): void {
    const { random } = this.#scheduler;
    const pod = random.tryPick(this.#podsNow());
    const action = random.weighted({
      addPod: 30,
      setAddress: 30,
      deletePod: 30,
      deleteSlice: 5,
      pause: 15,
    });
    if (action === "addPod" || pod === undefined) return this.#addPod();
    if (action === "setAddress") this.#setAddress(pod);
    if (action === "deletePod") this.#request("DELETE", "pods", pod);
    if (action === "pause") {
      const paused = this.#lives.find(({ isPaused }) => isPaused);
      if (paused === undefined) random.pick(this.#lives).isPaused = true;
      else paused.isPaused = false;
    }
    const slice = random.tryPick(this.#api.list(SLICES));
    if (action !== "deleteSlice" || slice === undefined) return;
    this.#scheduler.note(`${slice.metadata.name} is deleted by hand`);
    this.#request("DELETE", SLICES, slice);
  }

  #startWriter(name: string): void {
    const life: Life = { name, isOver: false };
    this.#lives.push(life);
    const client = new KubeClient(
      new SimTransport({
        api: this.#api,
        scheduler: this.#scheduler,
        life,
        faults: () => this.#faults,
      }),
    );
    const cluster = {
      egresses: new Informer(client, EGRESSES),
      clients: clientPods(client),
      slices: sliceInformer(client),
    };
    const lead = async () => {
      await using group = new TaskGroup({ signal: this.#stop.signal });
      for (const informer of Object.values(cluster)) {
        group.run("informer", (signal) => informer.run(signal));
      }
      await Promise.all(Object.values(cluster).map(({ synced }) => synced));
      using part = connectClients({ client, cluster });
      group.run("clients", (signal) => part.controller.run(signal));
      await group.wait();
    };
    lead().catch((error: unknown) => {
      if (!life.isOver) throw error;
    });
  }

  /** As a leader has left them that died: some clients are in two, some in none. */
  #addSlices(egress: Egress): void {
    const { random } = this.#scheduler;
    for (let number = 0; number < FIRST_SLICES; number++) {
      const clients = this.#podsNow().filter(() => random.chance(0.3))
        .map(({ metadata, spec, status }) => ({
          namespace: "team",
          name: metadata?.name,
          uid: metadata?.uid,
          nodeName: spec?.nodeName,
          addresses: status?.podIPs?.map(({ ip }) => ip),
        }));
      const name = `nat-${number}`;
      const metadata = { ...planMetadata(egress), namespace: "internet", name };
      this.#request("POST", SLICES, { metadata, clients });
    }
  }

  #addPod(): void {
    const metadata = {
      name: `pod-${++this.#pods}`,
      namespace: "team",
      annotations: { "egress.coil.cybozu.com/internet": "nat" },
    };
    this.#request("POST", "pods", { metadata, spec: { nodeName: "node1" } });
  }

  #setAddress(pod: V1Pod): void {
    if (pod.status?.podIPs !== undefined) return;
    const ip = `10.1.0.${pod.metadata?.name?.slice("pod-".length)}`;
    this.#request("PUT", "pods", { ...pod, status: { podIPs: [{ ip }] } });
  }

  #podsNow(): V1Pod[] {
    return this.#api.list("pods") as V1Pod[];
  }

  /** The gateway's watch brings all writes, in their order. */
  #tellGateway(): void {
    for (const { type, plural, object } of this.#api.events.slice(this.#told)) {
      if (plural !== SLICES) continue;
      this.writes++;
      const { name } = object.metadata;
      if (type === "DELETED") this.#gateway.delete(name);
      else this.#gateway.set(name, object as unknown as EgressClientSlice);
    }
    this.#told = this.#api.events.length;
  }

  /** A pod that is there keeps the addresses that were served and that it has. */
  #check({ uid, pod }: ClientPodChange): void {
    const before = this.#served.get(uid) ?? [];
    const after = pod?.addresses.map(String) ?? [];
    this.#served.set(uid, after);
    const live = this.#podsNow().find(({ metadata }) => metadata?.uid === uid);
    const has = addressesOf(live);
    for (const address of before) {
      if (!has.includes(address) || after.includes(address)) continue;
      this.losses.push(`${live?.metadata?.name} lost ${address}`);
    }
  }

  /** What slices or gateway have to become yet. */
  #difference(): string | undefined {
    const slices = this.#api.list(SLICES) as unknown as EgressClientSlice[];
    const written = slices.flatMap(({ clients = [] }) => clients)
      .map(({ uid, addresses = [] }) => `${uid} ${addresses}`).sort().join();
    const wanted = this.#podsNow()
      .map((pod) => `${pod.metadata?.uid} ${addressesOf(pod)}`).sort().join();
    if (written !== wanted) return `slices have ${written}, not ${wanted}`;
    const unserved = this.#podsNow().find((pod) =>
      addressesOf(pod).join() !==
        this.#served.get(pod.metadata?.uid ?? "")?.join()
    );
    return unserved && `${unserved.metadata?.name} is not served`;
  }

  #request(method: string, plural: string, body: unknown): unknown {
    const { metadata } = body as Stored;
    const request: SimRequest = {
      method,
      plural,
      name: method === "POST" ? undefined : metadata.name,
      subresource: method === "PUT" ? "status" : undefined,
      query: new URLSearchParams(),
      contentType: "",
      body: method === "DELETE" ? undefined : body,
    };
    return this.#api.handle(request).body;
  }

  [Symbol.dispose](): void {
    for (const life of this.#lives) life.isOver = true;
    this.#stop.abort(new Error("over"));
    this.#gateway[Symbol.dispose]();
  }
}

function addressesOf(pod: V1Pod | undefined): string[] {
  return (pod?.status?.podIPs ?? []).map(({ ip = "" }) => ip);
}
