// How long traffic stands still when a gateway is lost: one Egress whose
// clients choose their gateways, and one whose clients use its Service, at the
// same time, in the virtual machine of the tests.
import { jittered } from "../../../lib/async/mod.ts";
import { inNetns, run, sleep } from "../../lab/mod.ts";
import { eventually } from "../../lab/wait.ts";
import { PODS } from "../../../lib/kube/mod.ts";
import { type Client, EgressCluster } from "../../vm/e2e_cluster.ts";
import type { Gateway } from "../../vm/e2e_kubelet.ts";
import { OUTSIDE, OUTSIDE_NETWORKS, takeSources } from "../../vm/topology.ts";
import { askTcp, UdpFlow } from "../../vm/traffic.ts";
import type { Samples } from "./samples.ts";
import { WaitingConnection } from "./waiting_connection.ts";

const MODES = ["direct", "service"] as const;
type Mode = typeof MODES[number];
const SELECTION = { direct: "Direct", service: "Service" } as const;

/** What happens to a gateway. */
export const FAILURES = ["stop", "hung", "link", "kill"] as const;
type Failure = typeof FAILURES[number];

const SERVER = OUTSIDE.ipv4.near;
/** 100 datagrams in a second. */
const POLL_MS = 10;
/** 20 connections in a second. */
const CONNECT_MS = 50;
/** A connection counts as answered if it is within this time. */
const ANSWER_MS = 1_000;
/** Pollers through the gateway that fails. */
const POLLERS = 2;
/** After that nothing more is waited for. */
const WINDOW_MS = 20_000;
/** So long everything goes well before the failure, and after the last gap. */
const CALM_MS = 2_000;
const READY_MS = 120_000;

/** What keeps a gateway's kernel from everything. */
const HUNG = `table inet hung {
  chain incoming { type filter hook prerouting priority -400; drop; }
  chain outgoing { type filter hook output priority -400; drop; }
}`;

/** Measures; `report` gets what is known after each failure. */
export async function failover(options: {
  readonly rounds: number;
  readonly report: (samples: Samples) => Promise<void>;
}): Promise<void> {
  await using cluster = await EgressCluster.start();
  const clients = {
    direct: await makeMode(cluster, "direct"),
    service: await makeMode(cluster, "service"),
  };
  await takeSources();
  const figures: Record<string, { unit: "ms" | "packets"; samples: number[] }> =
    {};
  const note = (name: string, unit: "ms" | "packets", value: number) =>
    (figures[`failover.${name}`] ??= { unit, samples: [] }).samples.push(value);
  for (let round = 0; round < options.rounds; round++) {
    for (const failure of FAILURES) {
      const seen = await measure(cluster, { clients, failure });
      for (const [mode, { gaps, connections, waiting, lost }] of seen) {
        const name = `${failure}.${mode}`;
        for (const ms of gaps) note(`${name}.udp`, "ms", ms);
        note(`${name}.tcp.new`, "ms", connections);
        note(`${name}.tcp.open`, "ms", waiting);
        note(`${name}.other.lost`, "packets", lost);
      }
      note("wrong", "packets", (await takeSources()).wrong);
      await options.report(figures);
    }
  }
}

/** An Egress with two gateways on two nodes, and a client on the first. */
async function makeMode(cluster: EgressCluster, mode: Mode): Promise<Client> {
  await cluster.createEgress(mode, {
    destinations: [OUTSIDE_NETWORKS.ipv4.near],
    replicas: 2,
    fouSourcePortAuto: true,
    gatewaySelection: SELECTION[mode],
    // So that its connections use both gateways, too.
    sessionAffinity: "None",
  });
  return await cluster.createClient({ name: `${mode}-client`, egresses: mode });
}

/** What one client saw of a failure. */
interface Seen {
  /** The longest time without an answer, of each poller through the gateway that failed. */
  readonly gaps: readonly number[];
  /** From the failure until the last new connection began that had no answer in time. */
  readonly connections: number;
  /** From the failure until a program that waits on a connection was told; 0 if the connection still works, the longest time if it waits for ever. */
  readonly waiting: number;
  /** Datagrams without an answer, of a poller through the other gateway. */
  readonly lost: number;
}

async function measure(
  cluster: EgressCluster,
  { clients, failure }: {
    readonly clients: Readonly<Record<Mode, Client>>;
    readonly failure: Failure;
  },
): Promise<ReadonlyMap<Mode, Seen>> {
  const [, node] = cluster.nodes;
  const failing: Gateway[] = [];
  await using stack = new AsyncDisposableStack();
  const watches = new Map<Mode, Watch>();
  for (const mode of MODES) {
    const ready = await cluster.gatewaysReady(mode, 2);
    const doomed = ready.find(({ pod }) => pod.node.name === node.name);
    if (doomed === undefined) throw new Error(`no gateway on ${node.name}`);
    failing.push(doomed);
    watches.set(mode, stack.use(await Watch.open(clients[mode], doomed)));
  }
  await sleep(jittered(CALM_MS));
  for (const watch of watches.values()) watch.failing();
  const heal = await cause(failure, { cluster, node, failing });
  try {
    const isOver = () => watches.values().every((watch) => watch.isOver);
    await eventually("the end of all gaps", isOver, {
      timeoutMs: WINDOW_MS,
    }).catch(() => {}); // then that is the figure
    const seen = new Map<Mode, Seen>();
    for (const [mode, watch] of watches) seen.set(mode, await watch.seen());
    return seen;
  } finally {
    await heal();
  }
}

/** Returns what ends the failure. */
async function cause(
  failure: Failure,
  { cluster, node, failing }: {
    readonly cluster: EgressCluster;
    readonly node: EgressCluster["nodes"][number];
    readonly failing: readonly Gateway[];
  },
): Promise<() => Promise<void>> {
  const each = async (work: (gateway: Gateway) => unknown) => {
    await Promise.all(failing.map(async (gateway) => void await work(gateway)));
  };
  const netnsOf = ({ pod }: Gateway) => pod.sandbox.netns;
  switch (failure) {
    case "stop":
      await each(({ process }) => process.signal("SIGSTOP"));
      return () => each(({ process }) => process.signal("SIGCONT"));
    case "hung":
      await each((gateway) =>
        inNetns(netnsOf(gateway), "sh", ["-c", `nft -f - <<END\n${HUNG}\nEND`])
      );
      return () =>
        each((gateway) =>
          inNetns(netnsOf(gateway), "nft", ["delete", "table", "inet", "hung"])
        );
    case "link": {
      const link = (state: "down" | "up") =>
        run("ip", ["link", "set", `${node.netns}p`, state]);
      await link("down");
      return async () => void await link("up");
    }
    case "kill": {
      const cordon = cluster.kubelet.cordon();
      await each(async (gateway) => {
        await run("ip", ["-n", netnsOf(gateway), "link", "delete", "eth0"]);
        await gateway.process.kill9();
      });
      return async () => {
        await each(({ pod: { namespace, name } }) => {
          const target = { namespace, name, gracePeriodSeconds: 0 };
          return cluster.access.client.delete(PODS, target);
        });
        cordon[Symbol.dispose]();
      };
    }
  }
}

/** Traffic of one client, and what becomes of it. */
class Watch implements AsyncDisposable {
  readonly #pollers: readonly UdpFlow[];
  readonly #other: UdpFlow;
  readonly #waiting: WaitingConnection;
  readonly #connecting: Connecting;
  readonly #stack: AsyncDisposableStack;
  #failedMs = 0;
  #before: readonly [number, number] = [0, 0];

  private constructor(parts: {
    readonly pollers: readonly UdpFlow[];
    readonly other: UdpFlow;
    readonly waiting: WaitingConnection;
    readonly connecting: Connecting;
    readonly stack: AsyncDisposableStack;
  }) {
    this.#pollers = parts.pollers;
    this.#other = parts.other;
    this.#waiting = parts.waiting;
    this.#connecting = parts.connecting;
    this.#stack = parts.stack;
  }

  static async open(client: Client, doomed: Gateway): Promise<Watch> {
    await using stack = new AsyncDisposableStack();
    const { sockets } = client;
    const isDoomed = (source: string) => doomed.pod.addresses.includes(source);
    const poll = async (wanted: boolean): Promise<UdpFlow> =>
      await eventually("a poller by the gateway", async () => {
        const flow = new UdpFlow(sockets, {
          address: SERVER,
          intervalMs: POLL_MS,
        });
        const source = await firstSource(flow);
        if (source !== undefined && isDoomed(source) === wanted) return flow;
        await flow[Symbol.asyncDispose]();
        return false;
      }, { timeoutMs: READY_MS });
    const pollers: UdpFlow[] = [];
    while (pollers.length < POLLERS) pollers.push(stack.use(await poll(true)));
    const other = stack.use(await poll(false));
    const waiting = await eventually(
      "a connection by the gateway",
      async () => {
        const connection = await WaitingConnection.open(sockets, SERVER);
        if (isDoomed(connection.source)) return connection;
        await connection[Symbol.asyncDispose]();
        return false;
      },
      { timeoutMs: READY_MS },
    );
    stack.use(waiting);
    const connecting = stack.use(new Connecting(client));
    return new Watch({
      pollers,
      other,
      waiting,
      connecting,
      stack: stack.move(),
    });
  }

  /** Takes note that the failure begins. */
  failing(): void {
    this.#failedMs = performance.now();
    const { sent, answered } = this.#other.report;
    this.#before = [sent, answered];
  }

  /** Whether all is well again, and has been for a while. */
  get isOver(): boolean {
    const nowMs = performance.now();
    if (nowMs - this.#failedMs < CALM_MS) return false;
    return this.#connecting.lastLostMs < nowMs - CALM_MS &&
      this.#pollers.every((poller) => poller.silentMs < CALM_MS / 4);
  }

  async seen(): Promise<Seen> {
    const { sent, answered } = this.#other.report;
    const [sentBefore, answeredBefore] = this.#before;
    return {
      gaps: this.#pollers.map(({ report }) => report.longestGapMs),
      connections: this.#sinceFailure(this.#connecting.lastLostMs),
      waiting: await this.#waitingMs(),
      // One may be under way.
      lost: Math.max(0, sent - sentBefore - (answered - answeredBefore) - 1),
    };
  }

  async #waitingMs(): Promise<number> {
    const { endedMs } = this.#waiting;
    if (endedMs !== undefined) return this.#sinceFailure(endedMs);
    return await this.#waiting.works(ANSWER_MS) ? 0 : WINDOW_MS;
  }

  #sinceFailure(ms: number): number {
    return Math.max(0, Math.round(ms - this.#failedMs));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#stack.disposeAsync();
  }
}

async function firstSource(flow: UdpFlow): Promise<string | undefined> {
  const [source] = await eventually(
    "an answer",
    () => flow.report.sources.size > 0 && [...flow.report.sources],
    { timeoutMs: ANSWER_MS },
  ).catch(() => []);
  return source;
}

/** New connections, one after the other. */
class Connecting implements AsyncDisposable {
  readonly #client: Client;
  readonly #asked: Promise<void>[] = [];
  readonly #done: Promise<void>;
  #isStopped = false;
  /** When the last one began that had no answer in time. */
  lastLostMs = -Infinity;

  constructor(client: Client) {
    this.#client = client;
    this.#done = this.#run();
  }

  async #run(): Promise<void> {
    while (!this.#isStopped) {
      this.#asked.push(this.#ask());
      await sleep(CONNECT_MS);
    }
  }

  async #ask(): Promise<void> {
    const startMs = performance.now();
    const options = { timeoutMs: ANSWER_MS };
    await askTcp(this.#client.sockets, SERVER, options).catch(() => {
      this.lastLostMs = Math.max(this.lastLostMs, startMs);
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isStopped = true;
    await this.#done;
    await Promise.all(this.#asked);
  }
}
