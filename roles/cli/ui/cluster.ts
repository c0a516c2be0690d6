import {
  ADDRESS_BLOCKS,
  ADDRESS_POOLS,
  BLOCK_REQUESTS,
  EGRESS_CLIENT_SLICES,
  EGRESS_SELECTOR,
  EGRESSES,
  VPC_NODES,
} from "../../../lib/api/mod.ts";
import {
  abortable,
  CoalescedRunner,
  jittered,
  sleep,
  type TaskGroup,
} from "../../../lib/async/mod.ts";
import {
  DAEMON_SETS,
  DEPLOYMENTS,
  keepFields,
  KubeApiError,
  type KubeClient,
  type KubeObject,
  KubeUnreachableError,
  LEASES,
  LIVE_PODS,
  NODES,
  PODS,
  type ResourceType,
  type V1Node,
  type V1Pod,
} from "../../../lib/kube/mod.ts";
import type { Unseen } from "../base/looker.ts";
import { LINUX } from "../base/selections.ts";
import {
  addressesOf,
  transformBlock,
  transformPod,
} from "../ipam/cluster_reader.ts";
import { vpcPoolRows } from "../ipam/vpc_rows.ts";
import {
  both,
  DAEMONS,
  leadershipOf,
  LEASE_SELECTIONS,
  nodeOf,
  partOf,
  type Snapshot,
  workloadOfDaemonSet,
  workloadOfDeployment,
} from "../status/snapshot.ts";
import type { Entries, Feed } from "./feed.ts";
import { Follower, type FollowOptions } from "./follower.ts";
import {
  type ContactView,
  egressEntries,
  poolEntries,
  statusEntries,
} from "./view.ts";

/** How long changes are gathered at least. */
const GATHER_MS = 500;

/** Making the entries takes a fifth of a processor at most. */
const PAUSES = 4;

/** How often to look at what only time changes, e.g. a lease that was not renewed. */
const LOOK_MS = 10_000;

/** How often to ask whether the API server still answers, and how long it may take. */
const ASK_MS = 3_000;
const ANSWER_MS = 5_000;

/** Some of the entries, made again when what they are made of has changed. */
interface Part {
  readonly name: string;
  readonly sources: Pick<Follower<KubeObject>, "ready">[];
  readonly runner: CoalescedRunner;
}

/** Follows a cluster and publishes what the page shows of it. */
export class Cluster {
  readonly #client: KubeClient;
  readonly #feed: Feed;
  readonly #tasks: TaskGroup;
  readonly #followers: Pick<Follower<KubeObject>, "run" | "unseen">[] = [];

  private constructor(client: KubeClient, feed: Feed, tasks: TaskGroup) {
    this.#client = client;
    this.#feed = feed;
    this.#tasks = tasks;
  }

  /**
   * Begins to follow a cluster; the tasks end it.
   *
   * @throws {KubeUnreachableError} when the API server does not answer now
   */
  static async start(
    client: KubeClient,
    { feed, tasks }: { readonly feed: Feed; readonly tasks: TaskGroup },
  ): Promise<void> {
    const cluster = new Cluster(client, feed, tasks);
    await cluster.#ask(tasks.signal);
    cluster.#followAll();
    tasks.run("contact", (signal) => cluster.#watchContact(signal));
  }

  #followAll(): void {
    const status = this.#part("status", () =>
      statusEntries(snapshot(), {
        cluster: this.#client.host,
        now: new Date(),
      }));
    const map = this.#part("map", () =>
      poolEntries({
        pools: pools.objects ?? [],
        blocks: blocks.objects ?? [],
        pods: (pods.objects ?? []).flatMap((pod) => addressesOf(pod) ?? []),
      }, vpcPoolRows(vpcNodes.objects ?? [])));
    const topology = this.#part("topology", () =>
      egressEntries({
        egresses: egresses.objects ?? [],
        slices: slices.objects ?? [],
        gateways: gateways.objects ?? [],
      }));
    const pools = this.#follow(ADDRESS_POOLS, [status, map]);
    const vpcNodes = this.#follow(VPC_NODES, [status, map], {
      isOptional: true,
    });
    const egresses = this.#follow(EGRESSES, [status, topology]);
    const deployments = this.#follow(DEPLOYMENTS, [status], DAEMONS);
    const daemonSets = this.#follow(DAEMON_SETS, [status], DAEMONS);
    const parts = this.#follow(PODS, [status], {
      ...DAEMONS,
      transform: transformPart,
    });
    const [ipamLease, egressLease] = LEASE_SELECTIONS.map((selection) =>
      this.#follow(LEASES, [status], selection)
    );
    const requests = this.#follow(BLOCK_REQUESTS, [status]);
    const nodes = this.#follow(NODES, [status], {
      ...LINUX,
      transform: transformNode,
    });
    const blocks = this.#follow(ADDRESS_BLOCKS, [map], {
      transform: transformBlock,
    });
    const pods = this.#follow(PODS, [map], {
      fieldSelector: LIVE_PODS,
      transform: transformPod,
    });
    const slices = this.#follow(EGRESS_CLIENT_SLICES, [topology]);
    const gateways = this.#follow(PODS, [topology], {
      fieldSelector: LIVE_PODS,
      labelSelector: EGRESS_SELECTOR,
      transform: transformPart,
    });
    const snapshot = (): Snapshot => ({
      workloads: both(
        deployments.objects?.map(workloadOfDeployment),
        daemonSets.objects?.map(workloadOfDaemonSet),
      ),
      parts: parts.objects?.map(partOf),
      leases: both(ipamLease?.objects, egressLease?.objects)?.map(leadershipOf),
      pools: pools.objects,
      requests: requests.objects,
      egresses: egresses.objects,
      nodes: nodes.objects?.map(nodeOf),
      vpcNodes: vpcNodes.objects,
      unseen: this.#unseen(),
    });
    for (const part of [status, map, topology]) this.#publishOnChange(part);
    this.#tasks.run("time", (signal) => this.#lookAgain(status, signal));
  }

  #follow<T extends KubeObject>(
    type: ResourceType<T>,
    parts: readonly Part[],
    options: FollowOptions<T> = {},
  ): Follower<T> {
    const follower = new Follower(this.#client, type, {
      ...options,
      onChange: () => parts.forEach(({ runner }) => runner.trigger()),
    });
    for (const { sources } of parts) sources.push(follower);
    this.#followers.push(follower);
    this.#tasks.run(type.plural, (signal) => follower.run(signal));
    return follower;
  }

  /** What cannot be read, each kind once. */
  #unseen(): Unseen[] {
    const all = this.#followers.flatMap(({ unseen }) => unseen);
    return [...new Map(all.map((one) => [one.what, one])).values()];
  }

  #part(name: string, make: () => Entries): Part {
    const runner = new CoalescedRunner(async (signal) => {
      const startMs = performance.now();
      this.#feed.publish(name, make());
      await sleep(PAUSES * (performance.now() - startMs), { signal });
    }, { minIntervalMs: GATHER_MS });
    return { name, runner, sources: [] };
  }

  /** Half of what a part is made of would look like problems: it is published when all of it is there. */
  #publishOnChange({ name, runner, sources }: Part): void {
    this.#tasks.run(name, async (signal) => {
      for (const { ready } of sources) await abortable(ready, signal);
      runner.trigger();
      await runner.run(signal);
    });
  }

  async #lookAgain({ runner }: Part, signal: AbortSignal): Promise<void> {
    for (;;) {
      await sleep(jittered(LOOK_MS), { signal });
      runner.trigger();
    }
  }

  /** Says since when the API server does not answer: what is shown is as old. */
  async #watchContact(signal: AbortSignal): Promise<void> {
    let contact: ContactView = {};
    for (;;) {
      contact = await this.#isAway(signal)
        ? { lostSince: contact.lostSince ?? new Date().toISOString() }
        : {};
      this.#feed.publish(
        "contact",
        new Map([["contact", JSON.stringify(contact)]]),
      );
      await sleep(jittered(ASK_MS), { signal });
    }
  }

  async #isAway(signal: AbortSignal): Promise<boolean> {
    try {
      await this.#ask(signal);
      return false;
    } catch (error) {
      if (!(error instanceof KubeUnreachableError)) throw error;
      return true;
    }
  }

  /** Any answer will do, a refusal, too. @throws {KubeUnreachableError} when there is none */
  async #ask(signal: AbortSignal): Promise<void> {
    try {
      await this.#client.list(ADDRESS_POOLS, {
        limit: 1,
        timeoutMs: ANSWER_MS,
        signal,
      });
    } catch (error) {
      if (!(error instanceof KubeApiError)) throw error;
      if (error.isUnauthorized) throw error;
      if (error.status < 500) return;
      throw new KubeUnreachableError(error.message, { cause: error });
    }
  }
}

const METADATA = [
  ...["name", "namespace", "uid", "resourceVersion", "labels"] as const,
  ...["creationTimestamp", "deletionTimestamp"] as const,
] as const;

/** What is needed of a pod of Coil's. */
function transformPart({ metadata, spec, status }: V1Pod): V1Pod {
  return {
    metadata: keepFields(metadata, ...METADATA),
    spec: {
      ...keepFields(spec, "nodeName"),
      containers: (spec?.containers ?? []).map((container) => ({
        name: container.name,
        ...keepFields(container, "image"),
      })),
    },
    ...status === undefined ? {} : { status },
  };
}

/** What is needed of a node. */
function transformNode({ metadata, status }: V1Node): V1Node {
  return {
    metadata: keepFields(metadata, "name", "uid", "resourceVersion"),
    status: keepFields(status, "conditions"),
  };
}
