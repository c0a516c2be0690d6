/** The part of coil-controller that says who the clients of Egresses are, in this process, with the controller's rights and lease. */
import { TaskGroup } from "../../lib/async/mod.ts";
import { KubeClient, LeaderElector } from "../../lib/kube/mod.ts";
import { HeapKeeper } from "../../lib/linux/mod.ts";
import type { ClientSlices } from "../../roles/coil_controller/clients/client_slices.ts";
import { connectClients } from "../../roles/coil_controller/clients_part.ts";
import { EgressCluster } from "../../roles/coil_controller/egress/cluster.ts";
import { openPods } from "../../roles/coil_controller/pods_part.ts";
import { type ControlPlane, eventually } from "../lab/mod.ts";
import { untilInMemory } from "./api_memory.ts";
import { COIL_API } from "./crds.ts";
import { GatedTransport } from "./gated_transport.ts";

/** Collections that its informers list at start. */
const READ = [
  "/api/v1/pods",
  `${COIL_API}/egresses`,
  `${COIL_API}/egressclientslices`,
];

/** How long its work may take before a test begins. */
const BEGIN_MS = 140_000;

/** How it is to be. */
export interface ClientsControllerOptions {
  /** Without a lease it is a second leader. Default true. */
  readonly hasLease?: boolean;
  /** How late all comes that it sends and receives. Default 0. */
  readonly lateMs?: number;
}

/** It works while somebody uses it, so that a test leaves nothing behind. */
export class ClientsController {
  readonly #plane: ControlPlane;
  readonly #kubeconfig: string;
  readonly #hasLease: boolean;
  readonly #lateMs: number;
  #users = 0;
  #running: Promise<Running> | undefined;

  private constructor(
    plane: ControlPlane,
    kubeconfig: string,
    { hasLease = true, lateMs = 0 }: ClientsControllerOptions,
  ) {
    this.#plane = plane;
    this.#kubeconfig = kubeconfig;
    this.#hasLease = hasLease;
    this.#lateMs = lateMs;
  }

  /** Makes one with the rights of deploy/base, which must be there. */
  static async on(
    plane: ControlPlane,
    options: ClientsControllerOptions = {},
  ): Promise<ClientsController> {
    const account = { namespace: "kube-system", name: "coil-controller" };
    const token = await plane.serviceAccountToken(account);
    return new ClientsController(
      plane,
      await plane.kubeconfigFor({ token }),
      options,
    );
  }

  /** Leads, and has the Egress' clients written, until the result is disposed of by all users. */
  async use(egress: string): Promise<AsyncDisposable> {
    this.#users++;
    // With deleted slices still in memory it would update them, which is refused.
    for (const path of READ) await untilInMemory(this.#plane, path);
    this.#running ??= this.#start();
    const { leading } = await this.#running;
    await leading().slices.reconcile(egress, AbortSignal.timeout(BEGIN_MS));
    let isUsed = true;
    return {
      [Symbol.asyncDispose]: async () => {
        if (!isUsed) return;
        isUsed = false;
        if (--this.#users === 0) await this.stop();
      },
    };
  }

  /** Ends as it does at SIGTERM: the lease is given back. */
  async stop(): Promise<void> {
    const running = await this.#running;
    this.#running = undefined;
    running?.stop.abort();
    await running?.ended;
  }

  /** Leads again after {@linkcode ClientsController.stop}. */
  async restart(): Promise<void> {
    await (this.#running ??= this.#start());
  }

  /**
   * Returns when it knows that the Egress is gone, and no longer writes its clients.
   * @throws {Error} when it does not run
   */
  async untilGone(egress: string): Promise<void> {
    const running = await this.#running;
    if (running === undefined) {
      throw new Error(
        `Cannot wait for the end of Egress "${egress}": the controller does not run`,
      );
    }
    const { leading } = running;
    await eventually(
      `the end of Egress ${egress} to be known`,
      () => leading().egresses.get(egress) === undefined,
    );
    // A write under way ends before.
    await leading().slices.reconcile(egress, AbortSignal.timeout(BEGIN_MS));
  }

  async #start(): Promise<Running> {
    const transport = await GatedTransport.open(this.#kubeconfig);
    transport.lateMs = this.#lateMs;
    const client = new KubeClient(transport);
    const stop = new AbortController();
    const ready = Promise.withResolvers<Leading>();
    const elector = new LeaderElector(client, {
      namespace: "kube-system",
      name: "coil-egress-leader",
      identity: crypto.randomUUID(),
    });
    let latest: Leading | undefined;
    const onReady = (leading: Leading) => ready.resolve(latest = leading);
    const work = (signal: AbortSignal) => lead(client, signal, onReady);
    const ended = (async () => {
      try {
        if (this.#hasLease) return await elector.run(stop.signal, work);
        await work(stop.signal);
      } catch (error) {
        if (!stop.signal.aborted) throw error;
      } finally {
        client.close();
      }
    })();
    ended.catch(ready.reject);
    const first = await ready.promise;
    return { stop, ended, leading: () => latest ?? first };
  }
}

async function lead(
  client: KubeClient,
  signal: AbortSignal,
  onReady: (leading: Leading) => void,
): Promise<void> {
  await using group = new TaskGroup({ signal });
  const pods = openPods(client, group, {
    heap: new HeapKeeper(),
    everyAddress: false,
    namespaceEgress: true,
  });
  const cluster = new EgressCluster(client, pods);
  using clients = connectClients({ client, cluster });
  cluster.start(group);
  await cluster.synced(group.signal);
  group.run("clients", (s) => clients.controller.run(s));
  onReady({ slices: clients.slices, egresses: cluster.egresses.store });
  await group.wait();
}

interface Leading {
  readonly slices: ClientSlices;
  /** Those that it knows. */
  readonly egresses: EgressCluster["egresses"]["store"];
}

interface Running {
  readonly stop: AbortController;
  readonly ended: Promise<void>;
  /** Of the last time that it began to lead: it may lose the lease and get it again. */
  readonly leading: () => Leading;
}
