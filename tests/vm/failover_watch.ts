// Traffic of one client through a gateway that fails, and what becomes of it.
import assert from "node:assert/strict";
import { assertWithin, eventually, lagWhile, sleep } from "../lab/mod.ts";
import { awaitProbed } from "./coild_metrics.ts";
import type { Client, EgressCluster } from "./e2e_cluster.ts";
import type { Gateway } from "./e2e_kubelet.ts";
import { Download } from "./download.ts";
import { failGateways } from "./gateway_failures.ts";
import { OUTSIDE } from "./topology.ts";
import {
  askTcp,
  BEFORE_RETRY_MS,
  type NetnsSockets,
  UdpFlow,
} from "./traffic.ts";
import { WaitingConnection } from "./waiting_connection.ts";

/** 100 datagrams in a second. */
const POLL_MS = 10;
/** 20 connections in a second. */
const CONNECT_MS = 50;
/** A connection counts as answered if it is within this time. */
const ANSWER_MS = BEFORE_RETRY_MS;
/** Pollers through the gateway that fails. */
const POLLERS = 2;
/** So long has all to go well after the last gap. */
const CALM_MS = 2_000;
const READY_MS = 120_000;
/** A connection that works answers within this time. */
const WORKS_MS = 30_000;
/** From a failure until all uses the other gateway, on a machine that has time: ten times what it takes there. */
const MOVED_MS = 5_000;

/** What a client saw of a failure. */
export interface SeenFailure {
  /** The longest time without an answer, of each poller through the gateway that failed; pauses of the machine are among it. */
  readonly gaps: readonly number[];
  /** Of them the time without an answer until another gateway's, of each poller that had one. */
  readonly moved: readonly number[];
  /** From the failure until the last new connection began that had no answer in time. */
  readonly connections: number;
  /** From the failure until a program that waits on a connection was told; 0 if the connection still works, undefined if the program waits on. */
  readonly waiting: number | undefined;
  /** The longest time without a byte, of a download through the gateway. */
  readonly download?: number | undefined;
  /** Datagrams without an answer, of a poller through the other gateway. */
  readonly lost?: number | undefined;
}

/** What is watched. */
export interface WatchOptions {
  /** The gateway that is to fail; the client has to use it. */
  readonly doomed: Gateway;
  /** Whether a poller goes through the other gateway, which the client has to use, too. */
  readonly other?: boolean;
  readonly download?: boolean;
  /** Of the server; by default one of IPv4. */
  readonly address?: string;
}

/** Pollers, new connections, a connection that waits and a download, all of one client. */
export class FailoverWatch implements AsyncDisposable {
  readonly #pollers: readonly UdpFlow[];
  readonly #other: UdpFlow | undefined;
  readonly #download: Download | undefined;
  readonly #waiting: WaitingConnection;
  readonly #connecting: Connecting;
  readonly #stack: AsyncDisposableStack;
  #failedMs = 0;
  /** Datagrams by the other gateway that were sent before. */
  #sent = 0;

  private constructor(parts: {
    readonly pollers: readonly UdpFlow[];
    readonly other: UdpFlow | undefined;
    readonly download: Download | undefined;
    readonly waiting: WaitingConnection;
    readonly connecting: Connecting;
    readonly stack: AsyncDisposableStack;
  }) {
    this.#pollers = parts.pollers;
    this.#other = parts.other;
    this.#download = parts.download;
    this.#waiting = parts.waiting;
    this.#connecting = parts.connecting;
    this.#stack = parts.stack;
  }

  /** Begins all that; returns when it goes by the gateways that it is to go by. */
  static async open(
    { sockets }: Client,
    {
      doomed,
      other = false,
      download = false,
      address = OUTSIDE.ipv4.near,
    }: WatchOptions,
  ): Promise<FailoverWatch> {
    await using stack = new AsyncDisposableStack();
    const isDoomed = (source: string) => doomed.pod.addresses.includes(source);
    const poll = () => new UdpFlow(sockets, { address, intervalMs: POLL_MS });
    const pollers: UdpFlow[] = [];
    while (pollers.length < POLLERS) {
      pollers.push(stack.use(await until(poll, isDoomed)));
    }
    const others = other
      ? stack.use(await until(poll, (source) => !isDoomed(source)))
      : undefined;
    const waiting = stack.use(
      await until(() => WaitingConnection.open(sockets, address), isDoomed),
    );
    const loading = download
      ? stack.use(await until(() => new Download(sockets, address), isDoomed))
      : undefined;
    const connecting = stack.use(new Connecting(sockets, address));
    return new FailoverWatch({
      pollers,
      other: others,
      download: loading,
      waiting,
      connecting,
      stack: stack.move(),
    });
  }

  /** Takes note that the failure begins. */
  failing(): void {
    this.#failedMs = performance.now();
    this.#sent = this.#other?.report.sent ?? 0;
  }

  /** Whether the program that waits was told that its connection is over. */
  get hasEnded(): boolean {
    return this.#waiting.endedMs !== undefined;
  }

  /** Whether all is well again, and has been for a while. */
  get isOver(): boolean {
    const nowMs = performance.now();
    if (nowMs - this.#failedMs < CALM_MS) return false;
    return this.#connecting.lastLostMs < nowMs - CALM_MS &&
      [
        ...this.#pollers,
        ...this.#download === undefined ? [] : [this.#download],
      ]
        .every((flow) => flow.silentMs < CALM_MS / 4);
  }

  /** What was seen; a connection that has not ended is asked whether it works. */
  async seen(
    { worksMs = WORKS_MS }: { readonly worksMs?: number } = {},
  ): Promise<SeenFailure> {
    return {
      gaps: this.#pollers.map(({ report }) => report.longestGapMs),
      moved: this.#pollers.flatMap(({ report }) => report.movedMs),
      connections: this.#sinceFailure(this.#connecting.lastLostMs),
      waiting: await this.#waitingMs(worksMs),
      download: this.#download?.longestGapMs,
      lost: await this.#other?.countLost(this.#sent),
    };
  }

  async #waitingMs(worksMs: number): Promise<number | undefined> {
    const { endedMs } = this.#waiting;
    if (endedMs !== undefined) return this.#sinceFailure(endedMs);
    return await this.#waiting.works(worksMs) ? 0 : undefined;
  }

  #sinceFailure(ms: number): number {
    return Math.max(0, Math.round(ms - this.#failedMs));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#stack.disposeAsync();
  }
}

/** Causes a failure, and ends it when `moved` has returned. */
export type Failing = (moved: () => Promise<void>) => Promise<void>;

/**
 * Has a gateway fail under what is watched, until all goes on by the other one. In time the program that waited was
 * notified, and new connections and datagrams used the other gateway, of whose own datagrams not one was lost.
 */
export async function expectMoved(
  watches: readonly FailoverWatch[],
  { fail, limitMs = MOVED_MS }: {
    readonly fail: Failing;
    /** On a machine that has time. */
    readonly limitMs?: number;
  },
): Promise<void> {
  const all: SeenFailure[] = [];
  for (const watch of watches) watch.failing();
  const { lagMs } = await lagWhile(() =>
    fail(async () => {
      for (const watch of watches) all.push(await seenAtEnd(watch));
    })
  );
  assert.equal(all.length, watches.length, "it was not waited for");
  for (const seen of all) assertMoved(seen, { limitMs, lagMs });
}

async function seenAtEnd(watch: FailoverWatch): Promise<SeenFailure> {
  // Before that all may be well because nothing has happened yet.
  await eventually("the connection to end", () => watch.hasEnded);
  await eventually("all to go on", () => watch.isOver);
  return await watch.seen();
}

function assertMoved(
  seen: SeenFailure,
  limits: { readonly limitMs: number; readonly lagMs: number },
): void {
  const what = JSON.stringify(seen);
  const { gaps, moved, connections, waiting = 0, lost } = seen;
  assert.ok(waiting > 0, what);
  assert.ok(moved.length >= gaps.length, what);
  assert.equal(lost, 0, what);
  for (const tookMs of [waiting, connections, ...moved]) {
    assertWithin(tookMs, { what, ...limits });
  }
}

/** Waits until all goes on, and has gone on by the same gateway: the connection works, no datagrams changed it. */
export async function expectUntouched(
  watches: readonly FailoverWatch[],
): Promise<void> {
  for (const watch of watches) {
    await eventually("all to go on", () => watch.isOver);
    const seen = await watch.seen();
    const { waiting, moved } = seen;
    assert.deepEqual([waiting, moved], [0, []], JSON.stringify(seen));
  }
}

/** Has a gateway's kernel hang under what is watched, and waits until all that goes on by the other one. */
export async function hang(
  cluster: EgressCluster,
  { doomed, watches }: {
    readonly doomed: Gateway;
    readonly watches: readonly FailoverWatch[];
  },
): Promise<void> {
  await awaitProbed(cluster);
  const fail: Failing = async (moved) => {
    const heal = await failGateways("hung", { cluster, gateways: [doomed] });
    try {
      await moved();
    } finally {
      await heal();
    }
  };
  await expectMoved(watches, { fail });
}

/** Has a gateway's kernel hang under the traffic of a client. */
export async function expectFailover(
  cluster: EgressCluster,
  { client, doomed }: { readonly client: Client; readonly doomed: Gateway },
): Promise<void> {
  const options = { doomed, other: true };
  await using watch = await FailoverWatch.open(client, options);
  await hang(cluster, { doomed, watches: [watch] });
}

/** Traffic that knows which sources the outside saw. */
interface Sourced extends AsyncDisposable {
  readonly sources: ReadonlySet<string>;
}

/** Makes traffic until some has the wanted source. */
async function until<T extends Sourced>(
  make: () => T | Promise<T>,
  isWanted: (source: string) => boolean,
): Promise<T> {
  return await eventually("traffic by the wanted gateway", async () => {
    const flow = await make();
    const source = await eventually(
      "an answer",
      () => [...flow.sources][0],
      { timeoutMs: ANSWER_MS },
    ).catch(() => undefined);
    if (source !== undefined && isWanted(source)) return flow;
    await flow[Symbol.asyncDispose]();
    return false;
  }, { timeoutMs: READY_MS });
}

/** New connections, one after the other. */
class Connecting implements AsyncDisposable {
  readonly #sockets: NetnsSockets;
  readonly #address: string;
  readonly #asked: Promise<void>[] = [];
  readonly #done: Promise<void>;
  #isStopped = false;
  /** When the last one began that had no answer in time. */
  lastLostMs = -Infinity;

  constructor(sockets: NetnsSockets, address: string) {
    this.#sockets = sockets;
    this.#address = address;
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
    await askTcp(this.#sockets, this.#address, options).catch(() => {
      this.lastLostMs = Math.max(this.lastLostMs, startMs);
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isStopped = true;
    await this.#done;
    await Promise.all(this.#asked);
  }
}
