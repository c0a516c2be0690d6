/**
 * Pods that come and go on the nodes of a {@linkcode PeerLab}.
 *
 * @module
 */
import { eventually, type LabNode } from "../lab/mod.ts";
import type { Sandbox } from "../lab/runtime.ts";
import type { PeerLab } from "./peer_lab.ts";

const PODS = 3;

/** A pod with its network. */
interface LivePod {
  readonly sandbox: Sandbox;
  readonly address: string;
}

/** Adds and deletes pods on one node, one call at a time, as a kubelet: a failed call is repeated. */
export class Churn {
  readonly #lab: PeerLab;
  readonly #node: LabNode;
  readonly #namespace: string;
  /** Addresses of all live pods of the lab, with the pod that has each. */
  readonly #holders: Map<string, string>;
  readonly #pods: LivePod[] = [];
  readonly #errors: string[] = [];
  #count = 0;
  #stopping = false;
  #running: Promise<void> = Promise.resolve();

  constructor(
    lab: PeerLab,
    options: {
      readonly node: LabNode;
      readonly namespace: string;
      readonly holders: Map<string, string>;
    },
  ) {
    this.#lab = lab;
    this.#node = options.node;
    this.#namespace = options.namespace;
    this.#holders = options.holders;
  }

  /** What failed calls said, those repeated with success included. */
  get errors(): readonly string[] {
    return this.#errors;
  }

  /** Pods that were started so far. */
  get count(): number {
    return this.#count;
  }

  /** Starts; {@linkcode Churn.stop} ends it. */
  start(): void {
    this.#stopping = false;
    this.#running = this.#loop();
    this.#running.catch(() => {}); // stop() throws it
  }

  /** Waits until so many more pods have started. */
  async progress(pods: number): Promise<void> {
    const target = this.#count + pods;
    await Promise.race([
      this.#running,
      eventually(
        `${pods} pods more on ${this.#node.name}`,
        () => this.#count >= target,
      ),
    ]);
  }

  /** Ends it; live pods stay. */
  async stop(): Promise<void> {
    this.#stopping = true;
    await this.#running;
  }

  /** Deletes all live pods. */
  async deleteAll(): Promise<void> {
    while (this.#pods.length > 0) await this.#delete();
  }

  async #loop(): Promise<void> {
    while (!this.#stopping) {
      if (this.#pods.length < PODS) await this.#add();
      else while (this.#pods.length > 0) await this.#delete();
    }
  }

  async #add(): Promise<void> {
    const name = `${this.#namespace}-${this.#node.name}-${++this.#count}`;
    const pod = { namespace: this.#namespace, name };
    const sandbox = await this.#lab.createPod(this.#node, pod);
    const text = await this.#call("ADD", sandbox);
    const { ips } = JSON.parse(text) as { ips: { address: string }[] };
    const address = ips[0]?.address ?? "";
    const holder = this.#holders.get(address);
    if (holder !== undefined) {
      throw new Error(`"${name}" has ${address} of "${holder}"`);
    }
    this.#holders.set(address, name);
    this.#pods.push({ sandbox, address });
  }

  async #delete(): Promise<void> {
    const pod = this.#pods.shift();
    if (pod === undefined) return;
    this.#holders.delete(pod.address);
    await this.#call("DEL", pod.sandbox);
    await this.#lab.removePod(pod.sandbox);
  }

  async #call(command: "ADD" | "DEL", sandbox: Sandbox): Promise<string> {
    return await eventually(
      `${command} of ${sandbox.pod}`,
      async () => {
        const { done, text } = await this.#lab.call(
          ...[this.#node, command, sandbox] as const,
        );
        if (done) return text === "" ? "done" : text;
        this.#errors.push(`${command} ${sandbox.pod}: ${text}`);
        throw new Error(text);
      },
      { intervalMs: 200 },
    );
  }
}
