/** Control plane, nodes, daemons and pods of the fault driver, and what is done to them. */
import {
  ANNOTATION,
  EgressLab,
  type Gateway,
} from "../apiserver/coild_egress_lab.ts";
import type { CoildLab, ListedObject } from "../apiserver/coild_lab.ts";
import { eventually, type LabProcess, run, sleep } from "../lab/mod.ts";
import { Daemon } from "./daemon.ts";
import { Pod } from "./runtime.ts";

const NODES = 2;
/** Pods of each node and pool. */
const PODS = { dual: 24, single: 8 } as const;
type Pool = keyof typeof PODS;
export const POOLS = Object.keys(PODS) as readonly Pool[];
/** The first octets of each pool's IPv4 addresses. */
export const NETWORKS: Readonly<Record<Pool, string>> = {
  dual: "10.152.0",
  single: "10.153.0",
};

/** Addresses of a block, by its pool. */
export const BLOCK_SIZES: Readonly<Record<Pool, number>> = {
  dual: 8,
  single: 4,
};

/** Egresses that pods are clients of. */
export const EGRESS_NAMES = ["nat-a", "nat-b"] as const;

const LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";

/** A pod as the API server has it. */
export interface ListedPod {
  /** The Egress that it asks for. */
  readonly egress: string | undefined;
  /** Whether its status has addresses. */
  readonly hasStatus: boolean;
}

/** All that the driver works on. */
export class Site implements AsyncDisposable {
  readonly egress: EgressLab;
  readonly daemons: readonly Daemon[];
  pods: readonly Pod[] = [];
  #controller: LabProcess | undefined;
  #restarting: Promise<void> | undefined;
  #starting: Promise<void> | undefined;
  /** What is being done to the API server. */
  #outage: Promise<void> | undefined;

  private constructor(egress: EgressLab) {
    this.egress = egress;
    this.daemons = egress.lab.nodes.map((node) =>
      new Daemon(egress.lab, node, egress.plane.dir)
    );
  }

  static async start(name: string): Promise<Site> {
    await using undo = new AsyncDisposableStack();
    const egress = undo.use(await EgressLab.start(name, { nodes: NODES }));
    const { lab } = egress;
    // The real controller answers.
    await lab.granter.stop();
    await lab.createPool("dual", [{
      ipv4: `${NETWORKS.dual}.0/24`,
      ipv6: "fd02::152:0/120",
    }], Math.log2(BLOCK_SIZES.dual));
    await lab.createPool(
      "single",
      [{ ipv4: `${NETWORKS.single}.0/24` }],
      Math.log2(BLOCK_SIZES.single),
    );
    for (const pool of POOLS) {
      await lab.createNamespace(pool, { "coil.cybozu.com/pool": pool });
    }
    for (const egressName of EGRESS_NAMES) {
      await egress.createEgress(egressName, {
        destinations: ["192.0.2.0/24", "2001:db8::/32"],
      });
    }
    const site = new Site(egress);
    await site.startController();
    await Promise.all(site.daemons.map((daemon) => daemon.ready()));
    await Promise.all(site.daemons.map((daemon) => daemon.noteDescriptors()));
    site.pods = await site.#createPods();
    undo.move();
    return site;
  }

  get lab(): CoildLab {
    return this.egress.lab;
  }

  /** Whether the API server is being disturbed. */
  get isApiAway(): boolean {
    return this.#outage !== undefined;
  }

  /** Resolves when the API server is disturbed no more. */
  async apiBack(): Promise<void> {
    await this.#outage;
  }

  daemonOf(pod: Pod): Daemon {
    const daemon = this.daemons[pod.node];
    if (daemon === undefined) throw new RangeError(`no node ${pod.node}`);
    return daemon;
  }

  podsOf(daemon: Daemon): readonly Pod[] {
    const index = this.daemons.indexOf(daemon);
    return this.pods.filter(({ node }) => node === index);
  }

  /** Starts the controller, or waits until somebody has. */
  async startController(): Promise<void> {
    await this.#restarting;
    await (this.#starting ??= this.#startController().finally(() => {
      this.#starting = undefined;
    }));
  }

  async #startController(): Promise<void> {
    if (this.#controller?.isRunning === true) return;
    const flags = ["--enable-egress=false", "--gc-interval=5s"];
    // Its token comes from the API server, which may be away at any moment.
    this.#controller = await eventually(
      "the controller",
      () => this.lab.startController(flags),
    );
  }

  /** Kills the controller and starts it a while later. */
  async restartController(ms: number): Promise<void> {
    this.#restarting ??= (async () => {
      await this.#controller?.kill9();
      await sleep(ms);
      // It holds its leases for 15 s more: nobody else has the time.
      await eventually("the leases to be gone", async () => {
        await this.apiBack();
        await this.lab.plane.request("DELETE", LEASES);
        return true;
      });
    })().finally(() => this.#restarting = undefined);
    await this.startController();
  }

  /** The API server answers nobody for a while: connections stay, and hang. */
  pauseApi(ms: number): void {
    this.#disturb(async () => {
      const { apiServer } = this.lab.plane;
      apiServer?.signal("SIGSTOP");
      await sleep(ms);
      apiServer?.signal("SIGCONT");
    });
  }

  /** The API server dies and comes back. */
  killApi(ms: number): void {
    this.#disturb(async () => {
      await this.lab.plane.killApiServer();
      await sleep(ms);
      await this.lab.plane.startApiServer();
    });
  }

  #disturb(outage: () => Promise<void>): void {
    this.#outage ??= outage().finally(() => this.#outage = undefined);
  }

  /** Ends every fault: all are there and ready, and all pools give addresses. */
  async heal(): Promise<void> {
    await this.#outage;
    for (const pool of POOLS) {
      await eventually(`pool ${pool} to be open`, async () => {
        await this.changePool(pool);
        return true;
      });
    }
    await eventually("Coil's resources", async () => {
      await this.lab.list("addressblocks");
      return true;
    });
    await this.startController();
    await Promise.all(this.daemons.map((daemon) => daemon.ready()));
  }

  /** Gives a pod a new sandbox, as after the loss of the one it had. */
  async renewSandbox(pod: Pod): Promise<void> {
    await this.deleteNetns(pod);
    const { name, namespace } = pod;
    pod.sandbox = await this.lab.createSandbox(name, { namespace });
    pod.hasNetns = true;
    // The kernel gives a namespace the number of one that is gone: what that one had went with it.
    const stat = await Deno.stat(`/run/netns/${pod.sandbox.netns}`)
      .catch((error) => {
        // Another step may remove the namespace amid this one.
        if (pod.hasNetns) throw error;
      });
    if (stat === undefined) return;
    await Deno.remove(`${this.egress.plane.dir}/${stat.ino}.json`)
      .catch(() => {});
  }

  /** Removes a pod's network namespace. */
  async deleteNetns(pod: Pod): Promise<void> {
    if (!pod.hasNetns) return;
    pod.hasNetns = false;
    await run("ip", ["netns", "delete", pod.sandbox.netns]);
  }

  /** Sets an Egress' gateways; the number says which. */
  async setGateways(name: string, choice: number): Promise<void> {
    const all: Gateway[] = [1, 2, 3].map((n) => ({
      address: `10.9.0.${n}`,
      pod: `gw${n}`,
    }));
    await this.egress.setGateways(
      name,
      all.filter((_, i) => ((choice + 1) >> i) & 1),
    );
  }

  /** What the API server has of each pod, by the pod's name. */
  async readPods(): Promise<ReadonlyMap<string, ListedPod>> {
    const { items } = await this.lab.plane.request("GET", "/api/v1/pods") as {
      items: {
        metadata: { name: string; annotations?: Record<string, string> };
        status?: { podIP?: string };
      }[];
    };
    return new Map(items.map(({ metadata: { name, annotations }, status }) => {
      const hasStatus = status?.podIP !== undefined;
      return [name, { egress: annotations?.[ANNOTATION], hasStatus }];
    }));
  }

  /** Says as kubelet does which addresses a pod has. */
  async report(pod: Pod): Promise<void> {
    pod.hasStatus = true;
    await this.apiBack();
    await this.egress.setStatus(pod.sandbox, { ips: pod.addresses });
  }

  /** Takes a pod's addresses out of its status, before anybody else can get them. */
  async clearStatus(pod: Pod): Promise<void> {
    if (!pod.hasStatus) return;
    const path = `/api/v1/namespaces/${pod.namespace}/pods/${pod.name}/status`;
    const contentType = "application/merge-patch+json";
    const status = { podIP: null, podIPs: null };
    await eventually("the pod's status to be cleared", async () => {
      await this.apiBack();
      await this.lab.plane.request("PATCH", path, { status }, { contentType });
      return true;
    });
    pod.hasStatus = false;
  }

  /** Coil's objects of a kind. */
  async list(plural: string): Promise<ListedObject[]> {
    return await this.lab.list(plural);
  }

  /** Copies all logs to a directory that outlives the site, and returns it. */
  async keepLogs(): Promise<string> {
    const dir = await Deno.makeTempDir({ prefix: "coil-faults-" });
    await run("cp", ["-r", `${this.lab.plane.runDir}/logs`, dir]);
    return dir;
  }

  /** A merge patch of one of Coil's cluster-wide objects. */
  async patch(plural: string, name: string, patch: unknown): Promise<void> {
    await this.lab.plane.request(
      "PATCH",
      `/apis/coil.cybozu.com/v2/${plural}/${name}`,
      patch,
      { contentType: "application/merge-patch+json" },
    );
  }

  /** Has a pool give no address at all, or none of these, from now on. */
  async changePool(
    name: Pool,
    { paused = false, reserved = [] }: {
      readonly paused?: boolean;
      readonly reserved?: readonly string[];
    } = {},
  ): Promise<void> {
    await this.patch("addresspools", name, { spec: { paused, reserved } });
  }

  async deleteBlock(name: string): Promise<void> {
    await this.lab.plane.request(
      "DELETE",
      `/apis/coil.cybozu.com/v2/addressblocks/${name}`,
    );
  }

  async #createPods(): Promise<Pod[]> {
    const pods: Promise<Pod>[] = [];
    for (const [n, { node }] of this.daemons.entries()) {
      for (const [pool, count] of Object.entries(PODS) as [Pool, number][]) {
        for (let i = 0; i < count; i++) {
          const name = `${pool}-${n}-${i}`;
          pods.push(
            this.lab.createPod(name, { namespace: pool, node })
              .then((sandbox) => new Pod(sandbox, { node: n, pool })),
          );
        }
      }
    }
    return await Promise.all(pods);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#outage?.catch(() => {});
    await this.#restarting?.catch(() => {});
    await this.#starting?.catch(() => {});
    await Promise.all([
      this.#controller?.kill9(),
      ...this.daemons.map((daemon) => daemon.kill()),
    ]);
    await this.egress[Symbol.asyncDispose]();
  }
}
