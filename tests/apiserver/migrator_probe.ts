/** What watches whether pods can be reached: packets without a pause, each of which is counted. */
import { TaskGroup } from "../../lib/async/mod.ts";
import { sleep } from "../lab/mod.ts";
import type { CoildLab } from "./coild_lab.ts";
import type { LabKubelet, RunningPod } from "./migrator_kubelet.ts";

const PERIOD_MS = 200;
const PING_INTERVAL_S = "0.2";
/** For one more answer: a lost packet is a failure, a slow machine is not. */
const ANSWER_TIMEOUT_MS = 60_000;

/** What became of the packets of a phase. */
export interface Phase {
  readonly name: string;
  /** How many pods were asked in it. */
  readonly pods: number;
  readonly answered: number;
  readonly lost: number;
}

/** Asks one pod until it is stopped, by a `ping` that does not end: its packets have numbers, so that a gap is a loss. */
class Probe {
  readonly target: RunningPod;
  /** Undefined: outside the cluster. */
  readonly source: RunningPod | undefined;
  readonly #netns: string;
  readonly #ended: Promise<void>;
  #child: Deno.ChildProcess | undefined;
  #first = 0;
  #last = 0;
  #answered = 0;
  isStopped = false;

  constructor(
    target: RunningPod,
    { source, netns }: {
      readonly source: RunningPod | undefined;
      readonly netns: string;
    },
  ) {
    this.target = target;
    this.source = source;
    this.#netns = netns;
    this.#ended = this.#run();
  }

  get answered(): number {
    return this.#answered;
  }

  /** Counted from the first answer on: before it the routes to a new pod may not be everywhere. */
  get lost(): number {
    return this.#first === 0
      ? 0
      : this.#last - this.#first + 1 - this.#answered;
  }

  get name(): string {
    const from = this.source === undefined ? "outside" : nameOf(this.source);
    const { address, node, network } = this.target;
    return `${
      nameOf(this.target)
    } of ${network} with ${address} on ${node.name}, from ${from}`;
  }

  /** Whether it answers two more packets: the second was sent after this was called. */
  async answers(): Promise<boolean> {
    const wanted = this.#answered + 2;
    const deadline = performance.now() + ANSWER_TIMEOUT_MS;
    while (this.#answered < wanted) {
      if (this.isStopped) return true;
      const isOver = this.#child === undefined && this.#answered > 0;
      if (isOver || performance.now() > deadline) return false;
      await sleep(20);
    }
    return true;
  }

  async stop(): Promise<void> {
    this.isStopped = true;
    try {
      this.#child?.kill("SIGTERM");
    } catch (error) {
      if (!(error instanceof TypeError)) throw error; // it has ended
    }
    await this.#ended;
  }

  /** A `ping` that has no route at its start ends at once: as long as there was no answer, another one is begun. */
  async #run(): Promise<void> {
    while (!this.isStopped && this.#answered === 0) {
      const child = new Deno.Command("nsenter", {
        args: [
          ...[`--net=/run/netns/${this.#netns}`, "ping", "-n"],
          ...["-i", PING_INTERVAL_S, this.target.address],
        ],
        stdin: "null",
        stdout: "piped",
        stderr: "null",
      }).spawn();
      this.#child = child;
      await this.#follow(child.stdout);
      await child.status;
      this.#child = undefined;
      if (!this.isStopped) await sleep(PERIOD_MS);
    }
  }

  async #follow(
    output: ReadableStream<Uint8Array<ArrayBuffer>>,
  ): Promise<void> {
    let rest = "";
    const texts = output.pipeThrough(new TextDecoderStream());
    for await (const text of texts) {
      const lines = (rest + text).split("\n");
      rest = lines.pop() ?? "";
      for (const line of lines) this.#take(line);
    }
  }

  #take(line: string): void {
    const [, number] = / bytes from .* icmp_seq=(\d+) /.exec(line) ?? [];
    if (number === undefined || line.includes("DUP!")) return;
    if (this.#first === 0) this.#first = Number(number);
    this.#last = Math.max(this.#last, Number(number));
    this.#answered++;
  }
}

/**
 * Pings every pod from outside the cluster and from another pod, from when it has its network until the kubelet takes
 * it away: until its very end each must answer.
 */
export class ConnectivityProver implements AsyncDisposable {
  readonly #lab: CoildLab;
  readonly #kubelet: LabKubelet;
  readonly #stop = new AbortController();
  readonly #tasks = new TaskGroup();
  readonly #probes = new Set<Probe>();
  readonly #ending = new Set<string>();
  #before = { answered: 0, lost: 0 };
  #asked = new Set<string>();
  /** Pods that were not reached any more. */
  readonly failures: string[] = [];
  readonly phases: Phase[] = [];

  constructor(lab: CoildLab, kubelet: LabKubelet) {
    this.#lab = lab;
    this.#kubelet = kubelet;
    kubelet.beforeEnd = (pod) => this.#release(pod);
    this.#tasks.run("probes", async () => {
      while (!this.#stop.signal.aborted) {
        this.#begin();
        await sleep(PERIOD_MS);
      }
    });
  }

  /** Ends a phase: each pod that is there must answer after it. What was lost in it is counted. */
  async phase(name: string): Promise<Phase> {
    this.#begin();
    await Promise.all(this.#running.map((probe) => this.#prove(probe)));
    const now = { answered: 0, lost: 0 };
    for (const { answered, lost } of this.#probes) {
      now.answered += answered;
      now.lost += lost;
    }
    const phase = {
      name,
      pods: this.#asked.size,
      answered: now.answered - this.#before.answered,
      lost: now.lost - this.#before.lost,
    };
    this.#before = now;
    this.#asked = new Set(this.#running.map(({ target }) => target.uid));
    this.phases.push(phase);
    return phase;
  }

  /** What was lost since the beginning, by who asked whom. */
  get losses(): string[] {
    return [...this.#probes].filter(({ lost }) => lost > 0)
      .map(({ name, lost }) => `${lost} lost: ${name}`);
  }

  get #running(): Probe[] {
    return [...this.#probes].filter(({ isStopped }) => !isStopped);
  }

  /** Begins what is missing: each pod is asked from outside, and by another pod as long as there is one. */
  #begin(): void {
    const pods = this.#kubelet.running.filter(({ uid, deleting }) =>
      !deleting && !this.#ending.has(uid)
    );
    const running = this.#running;
    for (const [i, target] of pods.entries()) {
      this.#asked.add(target.uid);
      const own = running.filter((probe) => probe.target.uid === target.uid);
      if (own.every(({ source }) => source !== undefined)) {
        this.#probes.add(
          new Probe(target, {
            source: undefined,
            netns: this.#lab.plane.netns,
          }),
        );
      }
      const source = pods[(i + 1) % pods.length];
      if (source === undefined || source === target) continue;
      if (own.some((probe) => probe.source !== undefined)) continue;
      const { netns } = source.sandbox;
      this.#probes.add(new Probe(target, { source, netns }));
    }
  }

  /** A pod ends. Until now it was to be reached, and to reach others; its namespace must not be held any longer. */
  async #release({ uid }: RunningPod): Promise<void> {
    this.#ending.add(uid);
    const own = this.#running.filter(({ target, source }) =>
      target.uid === uid || source?.uid === uid
    );
    await Promise.all(own.map(async (probe) => {
      await this.#prove(probe);
      await probe.stop();
    }));
  }

  async #prove(probe: Probe): Promise<void> {
    if (await probe.answers()) return;
    this.failures.push(`no answer any more: ${probe.name}`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    await this.#tasks.wait();
    await Promise.all([...this.#probes].map((probe) => probe.stop()));
  }
}

function nameOf({ namespace, name }: RunningPod): string {
  return `${namespace}/${name}`;
}
