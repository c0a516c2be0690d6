/** coild on a node of the fault driver's, killed and started again. */
import {
  type Coild,
  type CoildLab,
  fromSources,
} from "../apiserver/coild_lab.ts";
import { PLANE_DIR_ENV } from "../apiserver/recorded_plane.ts";
import type { LabNode } from "../lab/mod.ts";
import { atRest } from "../lab/wait.ts";
import { descriptorsOf } from "./descriptors.ts";

/** Of coild with a data plane that writes files: this kernel may have no Foo over UDP. */
const ENTRY =
  new URL("../apiserver/coild_recording_main.ts", import.meta.url).pathname;

/** Everything soon: addresses and blocks come back at once, and are compared all the time. */
const COILD_ARGS = [
  "--cooldown=0s",
  "--block-return-delay=100ms",
  "--block-request-timeout=3s",
  "--addressblock-gc-interval=1s",
  "--egress-event-delay=1s",
];

/** A daemon of a node, which is killed and started again. */
export class Daemon {
  readonly node: LabNode;
  readonly #lab: CoildLab;
  readonly #env: Readonly<Record<string, string>>;
  #coild: Coild | undefined;
  #starting: Promise<void> | undefined;
  #isAway = false;
  /** Descriptors that it had once it was ready and had opened all, before any call. */
  descriptors: readonly string[] = [];

  constructor(lab: CoildLab, node: LabNode, planeDir: string) {
    this.#lab = lab;
    this.node = node;
    this.#env = { [PLANE_DIR_ENV]: planeDir };
  }

  /** The daemon, whether or not it is ready. */
  get coild(): Coild {
    if (this.#coild === undefined) throw new Error("Cannot call: not started");
    return this.#coild;
  }

  /** Starts it; returns at once when it is being started. */
  start(): Promise<void> {
    return this.#starting ??= this.#start().finally(() => {
      this.#starting = undefined;
    });
  }

  async #start(): Promise<void> {
    if (this.#coild?.process.isRunning === true) return;
    this.#coild = await this.#lab.spawnCoild(this.node, COILD_ARGS, {
      command: fromSources(ENTRY),
      env: this.#env,
    });
  }

  /** Starts it if needed and waits until it serves ADD. */
  async ready(): Promise<Coild> {
    await this.start();
    await this.coild.ready();
    return this.coild;
  }

  /** Whether somebody has taken it down who will start it again. */
  get isAway(): boolean {
    return this.#isAway;
  }

  async away(fn: () => Promise<void>): Promise<void> {
    this.#isAway = true;
    try {
      await fn();
    } finally {
      this.#isAway = false;
    }
  }

  async kill(): Promise<void> {
    await this.#coild?.process.kill9();
  }

  async stop(): Promise<void> {
    await this.#coild?.process.stop({ graceMs: 25_000 });
  }

  /** Notes what it has open, when that has not changed for a while. */
  async noteDescriptors(): Promise<void> {
    const text = await atRest(
      "its descriptors",
      async () => (await this.readDescriptors()).sort().join("\n"),
    );
    this.descriptors = text.split("\n");
  }

  /** What it has open. */
  readDescriptors(): Promise<string[]> {
    return descriptorsOf(this.coild.process.pid);
  }
}
