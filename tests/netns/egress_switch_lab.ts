/**
 * A node with many clients that choose their gateways: EgressReconciler and
 * EgressSetup over PodNetwork and the kernel, where clients have their table of
 * nftables and no tunnel, which the machine's kernel may lack.
 *
 * @module
 */
import process from "node:process";
import { KeyedMutex, TaskGroup } from "../../lib/async/mod.ts";
import type { Egress } from "../../lib/api/mod.ts";
import {
  type EgressFacts,
  gatewayMark,
  listChoices,
} from "../../lib/egress/mod.ts";
import { clientTable } from "../../lib/egress/plan/table.ts";
import { Address } from "../../lib/inet/mod.ts";
import type { ClientInterface } from "../../lib/egress/plan/originating.ts";
import type { V1EndpointSlice, V1Pod } from "../../lib/kube/mod.ts";
import { inNetns, Netns } from "../../lib/linux/mod.ts";
import { PodNetwork } from "../../lib/podnet/mod.ts";
import { EGRESS_NFT_TABLE } from "../../lib/names/mod.ts";
import { createRegistry } from "../../lib/telemetry/mod.ts";
import { NetfilterSocket, nft, type NftTable } from "../../lib/netlink/mod.ts";
import { AttachmentBook } from "../../roles/coild/calls/attachment_book.ts";
import type { Attachment } from "../../roles/coild/calls/attachment.ts";
import type { PodSource } from "../../roles/coild/cluster/pod_source.ts";
import { EgressReconciler } from "../../roles/coild/egress/reconciler.ts";
import type { EgressSource } from "../../roles/coild/gateways/source.ts";
import type { EgressReports } from "../../roles/coild/clients/reports.ts";
import { EgressSetup } from "../../roles/coild/egress/setup.ts";
import {
  type EgressPlane,
  KERNEL_PLANE,
} from "../../roles/coild/egress/plane.ts";
import { CoildMetrics } from "../../roles/coild/observe/metrics.ts";
import { run, sleep } from "../lab/mod.ts";
import { eventually } from "../lab/wait.ts";
import { tempNetns } from "./testing.ts";

/** The gateways of the one Egress. */
export const GATEWAYS: readonly [Address, Address] = [
  Address.parse("10.65.0.1"),
  Address.parse("10.65.0.2"),
];
const NAME = "nat";
const NAMESPACE = "internet";
const SERVICE = "10.96.0.9";
/** The tunnel to that Service. */
const TUNNEL = "fou4_0a600009";
/** The server's port of connections through the first gateway. */
const PORT = 7001;
const TIMEOUT_MS = 120_000;
/** The kernel forgets the neighbours that each ADD gives it when they are 5 s old, where it has many (neigh_forced_gc() in net/core/neighbour.c); 1,024 are too many, of all namespaces. */
const NEIGHBOURS = { pods: 200, ms: 5_500 };

const EGRESS_NAME = `${NAMESPACE}/${NAME}`;

/** Gateways of a client, by their marks. */
export interface GatewayMarks {
  readonly ready: readonly number[];
  readonly chosen: ReadonlySet<number>;
  readonly lost: ReadonlySet<number>;
}

/** What something took. */
export interface Taken {
  readonly ms: number;
  /** Of processors, by the whole process. */
  readonly processorMs: number;
}

/** What a switch took. */
export interface SwitchTimes {
  /** Until no client has new connections by the lost gateway, and until their connections through it are ended. */
  readonly switched: Taken;
  readonly ended: Taken;
}

const metadata = { namespace: NAMESPACE, name: NAME };
const EGRESS: Egress = {
  apiVersion: "coil.cybozu.com/v2",
  kind: "Egress",
  metadata,
  spec: { destinations: ["0.0.0.0/0"], gatewaySelection: "Direct" },
};
const SLICE: V1EndpointSlice = {
  metadata,
  addressType: "IPv4",
  endpoints: GATEWAYS.map((each) => ({
    addresses: [each.toString()],
    conditions: { ready: true },
  })),
};
const FACTS: EgressFacts = {
  egress: EGRESS,
  service: { metadata, spec: { clusterIPs: [SERVICE] } },
  slices: [SLICE],
};

/** What marks connections as a client's tunnel does. */
const MARKS: NftTable = {
  family: "inet",
  name: "marks",
  counters: [],
  sets: [],
  chains: [{
    name: "out",
    type: "filter",
    hook: "output",
    priority: 0,
    policy: "accept",
    rules: [
      nft.rule([
        nft.oifname("lo"),
        nft.ctDirection("original"),
        nft.setCtMark(gatewayMark(GATEWAYS[0])),
      ]),
    ],
  }],
};

/** A pod's interface, as far as its table has it in originating-only mode. */
const ETH0: ClientInterface = {
  index: 3,
  name: "eth0",
  addresses: [Address.parse("192.0.2.1")],
  routes: {},
};

interface SwitchLabOptions {
  readonly clients: number;
  /** TCP connections of each client through the first gateway. */
  readonly connections: number;
  readonly originatingOnly?: boolean;
}

/** So many clients on a node, each with a namespace of its own. */
export class SwitchLab implements AsyncDisposable {
  readonly #prefix = `ct-s-${crypto.randomUUID().slice(0, 6)}-`;
  readonly #stack = new AsyncDisposableStack();
  readonly #health = {
    avoided: new Set<string>(),
    lost: new Set<string>(),
    recall() {},
  };
  readonly #pods: readonly V1Pod[];
  readonly #book = new AttachmentBook();
  readonly #setup: EgressSetup;
  #looks = 0;
  #chosen = 0;
  #ended = 0;
  /** Connections that the kernel has ended. */
  aborted = 0;
  /** How many clients had no new connections by the lost gateway when the first connection was ended. */
  chosenBeforeEnds = 0;
  readonly #reconciler: EgressReconciler;

  /** Those that originating-only mode is about. */
  readonly #interfaces: readonly ClientInterface[];

  private constructor(
    { clients, originatingOnly = false }: SwitchLabOptions,
  ) {
    this.#interfaces = originatingOnly ? [ETH0] : [];
    this.#pods = Array.from({ length: clients }, (_, i) => ({
      metadata: {
        namespace: "team",
        name: `p${i}`,
        uid: `u${i}`,
        annotations: { [`egress.coil.cybozu.com/${NAMESPACE}`]: NAME },
      },
      status: { podIPs: [{ ip: addressOf(i).toString() }] },
    }));
    const plane: EgressPlane = {
      ...KERNEL_PLANE,
      prepare: async () => {},
      apply: async (plan, { netns }) => {
        await using nftables = NetfilterSocket.open({ netns });
        await nftables.replaceTable(
          clientTable(plan, { interfaces: this.#interfaces }),
        );
        return { awaitsAddress: false };
      },
      choose: async (plan, options) => {
        await KERNEL_PLANE.choose(plan, options);
        this.#chosen++;
      },
      endConnections: async (gateways, options) => {
        if (this.#ended === 0) this.chosenBeforeEnds = this.#chosen;
        const done = await KERNEL_PLANE.endConnections(gateways, options);
        this.#ended++;
        this.aborted += done.aborted ?? 0;
        return done;
      },
    };
    const find: EgressSource["find"] = async (refs) =>
      new Map(refs.map((ref) => [`${ref.namespace}/${ref.name}`, FACTS]));
    this.#setup = new EgressSetup({
      source: { find, read: find, isFollowed: () => true },
      plane,
      announcer: { announce: async () => {} },
      reports: {
        report: () => void this.#looks++,
        forget() {},
        refused() {},
      } as unknown as EgressReports,
      port: 5555,
      originatingOnly,
      health: this.#health,
      isTaken: () => false,
      place: { for: async () => ({ node: "n1", zone: undefined }) },
      onEnded: () => {},
      onSwitched: () => {},
    });
    const pods = new Map(
      this.#pods.map((pod) => [`team/${pod.metadata?.name}`, pod]),
    );
    const subscribe = () => ({ [Symbol.dispose]() {} });
    this.#reconciler = new EgressReconciler({
      pods: {
        synced: () => Promise.resolve(),
        subscribe,
        list: () => this.#pods,
        get: (key: string) => pods.get(key),
        withSameAddress: () => [],
        clientsOf: () => this.#pods,
        annotationsOf: ({ metadata }: V1Pod) => metadata?.annotations ?? {},
        subscribeNamespaces: subscribe,
      } as unknown as PodSource,
      source: { subscribe } as never,
      setup: this.#setup,
      attachments: { find: async () => new Map() },
      book: this.#book,
      events: { record() {} },
      locks: new KeyedMutex(),
      metrics: new CoildMetrics(createRegistry()),
    });
  }

  /** Makes the clients, each with so many TCP connections through the first gateway. */
  static async open(options: SwitchLabOptions): Promise<SwitchLab> {
    const lab = new SwitchLab(options);
    try {
      await lab.#make(options.connections);
      return lab;
    } catch (error) {
      await lab[Symbol.asyncDispose]();
      throw error;
    }
  }

  async #make(connections: number): Promise<void> {
    const { signal } = new AbortController();
    const names = this.#pods.map((_, i) => `${this.#prefix}${i}`);
    this.#stack.defer(() => batch(names.map((n) => `netns del ${n}`)));
    await batch(names.map((n) => `netns add ${n}`));
    // `-n` is no word of a batch.
    const raised = names.map((n) => `ip -n ${n} link set lo up`);
    await run("sh", ["-c", raised.join("\n")]);
    const host = this.#stack.use(await tempNetns("host"));
    const hostNetns = this.#stack.use(Netns.open(host.path));
    const network = this.#stack.use(PodNetwork.open({ hostNetns }));
    for (const [i, pod] of this.#pods.entries()) {
      const path = this.#paths[i] ?? "";
      const key = { containerId: `c${i}`, ifname: "eth0" };
      const addresses = { ipv4: addressOf(i) };
      const link = { ...key, pool: "default", netnsPath: path, addresses };
      if (i % NEIGHBOURS.pods === NEIGHBOURS.pods - 1) {
        await sleep(NEIGHBOURS.ms);
      }
      await network.setup(link);
      const attachment: Attachment = {
        key,
        pod: { namespace: "team", name: `p${i}` },
        uid: `u${i}`,
        addresses,
        openNetns: () => network.openNetns(key),
      };
      const { annotations = {} } = pod.metadata ?? {};
      const selection = await this.#setup.wanted(
        { ...attachment.pod, annotations },
        { signal },
      );
      if (selection === undefined) throw new TypeError("no client");
      using netns = Netns.open(path);
      await this.#setup.setUp(attachment, selection, { netns, signal });
      this.#looks = 0;
      this.#book.add(attachment);
      if (connections > 0) await this.#connect(netns, connections);
    }
    const group = this.#stack.use(new TaskGroup());
    group.run("reconciler", (signal) => this.#reconciler.run(signal));
    await eventually(
      "a look at each pod",
      () => this.#looks >= this.#pods.length,
    );
  }

  async #connect(netns: Netns, count: number): Promise<void> {
    {
      await using nftables = NetfilterSocket.open({ netns });
      await nftables.replaceTable(MARKS);
    }
    const hostname = "127.0.0.1";
    const listener = this.#stack.use(
      inNetns(netns, () => Deno.listen({ hostname, port: PORT })),
    );
    for (let i = 0; i < count; i++) {
      const accepting = listener.accept();
      const { connecting } = inNetns(netns, () => ({
        connecting: Deno.connect({
          hostname,
          port: PORT,
          autoSelectFamily: false,
        }),
      }));
      this.#stack.use(await connecting);
      this.#stack.use(await accepting);
    }
  }

  /** Loses the first gateway. */
  async lose(): Promise<SwitchTimes> {
    [this.#chosen, this.#ended] = [0, 0];
    const lost = GATEWAYS[0].toString();
    this.#health.avoided.add(lost);
    this.#health.lost.add(lost);
    const startMs = performance.now();
    const used = processorMs();
    this.#reconciler.enqueueClients(`${NAMESPACE}/${NAME}`);
    const all = this.#pods.length;
    const options = { timeoutMs: TIMEOUT_MS, intervalMs: 2 };
    await eventually("all to switch", () => this.#chosen >= all, options);
    const taken = (): Taken => ({
      ms: performance.now() - startMs,
      processorMs: processorMs() - used,
    });
    const switched = taken();
    await eventually("all to be ended", () => this.#ended >= all, options);
    return { switched, ended: taken() };
  }

  /** Of each client the marks of the gateways that new connections go to, that connections stay with, and that are lost. */
  async marks(): Promise<GatewayMarks[]> {
    return await Promise.all(this.#paths.map(async (path) => {
      using netns = Netns.open(path);
      using nftables = NetfilterSocket.open({ netns });
      const set = await nftables.listSet(EGRESS_NFT_TABLE, `ready_${TUNNEL}`);
      const tunnel = {
        name: TUNNEL,
        gateway: EGRESS_NAME,
        family: "ipv4",
      } as const;
      const { chosen, lost } = await listChoices([tunnel], { netns });
      return {
        ready: set.flat().map(Number).toSorted(),
        chosen: new Set(chosen.get(EGRESS_NAME)?.map(gatewayMark)),
        lost,
      };
    }));
  }

  /** The table of the first client, as `nft` shows it. */
  async table(): Promise<string> {
    const [path] = this.#paths;
    const list = ["nft", "list", "table", "inet", EGRESS_NFT_TABLE];
    return await run("nsenter", [`--net=${path}`, ...list]);
  }

  get #paths(): readonly string[] {
    return this.#pods.map((_, i) => `/run/netns/${this.#prefix}${i}`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#stack[Symbol.asyncDispose]();
  }
}

function addressOf(i: number): Address {
  return Address.parse("10.64.0.1").offset(BigInt(i));
}

async function batch(lines: readonly string[]): Promise<void> {
  await run("ip", ["-batch", "-"], { stdin: lines.join("\n") });
}

function processorMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1_000;
}
