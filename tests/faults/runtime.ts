/** What the container runtime was told, and what must hold of it. */
import type { Prefix } from "../../lib/inet/mod.ts";
import { Address } from "../../lib/inet/mod.ts";
import type { Sandbox } from "../apiserver/coild_lab.ts";

/**
 * - `detached`: the last DEL was answered; nothing may be left.
 * - `attached`: the last ADD was answered with these addresses.
 * - `unknown`: a call failed or was cut off; the runtime will call DEL.
 */
export type Phase = "detached" | "attached" | "unknown";

/** A pod that comes and goes. */
export class Pod {
  readonly name: string;
  readonly namespace: string;
  /** Index of its node. */
  readonly node: number;
  readonly pool: string;
  sandbox: Sandbox;
  phase: Phase = "detached";
  /** What its last call failed with; empty when it did not. */
  failure = "";
  addresses: readonly string[] = [];
  /** The pod removed its interface, or its namespace is gone. */
  isDamaged = false;
  hasNetns = true;
  /** Some call is under way. */
  isBusy = false;
  /** Its block was taken away by force: nothing is promised any more. */
  isRobbed = false;
  /** Its status has addresses. */
  hasStatus = false;
  /** The Egress that its annotation names. */
  egress: string | undefined;

  constructor(
    sandbox: Sandbox,
    { node, pool }: { readonly node: number; readonly pool: string },
  ) {
    this.name = sandbox.name;
    this.namespace = sandbox.namespace;
    this.sandbox = sandbox;
    this.node = node;
    this.pool = pool;
  }

  /** Whether kernel, API server and coild must agree that it has its addresses. */
  get isWhole(): boolean {
    return this.phase === "attached" && !this.isDamaged;
  }
}

/** A fault of the product. */
export class Violation extends Error {
  override readonly name = "Violation";
}

/** coild looks at each of its blocks within 1.5 s here, as `daemon.ts` starts it; all may be slow. */
const NOTICED_MS = 20_000;

/** Who has which address, by what the runtime was told. */
export class Ledger {
  readonly #holders = new Map<string, Pod>();
  /** All that were ever given an address. */
  readonly #pods = new Set<Pod>();
  /** Prefixes of blocks that were removed by force, and when. */
  #robbed: { readonly prefix: Prefix; readonly atMs: number }[] = [];

  /** Notes the answer of an ADD. @throws {Violation} when another pod has one of the addresses. */
  give(pod: Pod, addresses: readonly string[]): void {
    this.#pods.add(pod);
    pod.isRobbed ||= addresses.some((a) => this.#isRobbed(a));
    for (const address of addresses) {
      const other = this.#holders.get(address);
      if (other !== undefined && other !== pod && !mayShare(pod, other)) {
        throw new Violation(
          `${address} was given to ${pod.name} while ${other.name} has it`,
        );
      }
      this.#holders.set(address, pod);
    }
    pod.addresses = addresses;
  }

  /** Notes that a pod's addresses may go to others from here on. */
  release(pod: Pod): void {
    for (const address of pod.addresses) {
      if (this.#holders.get(address) === pod) this.#holders.delete(address);
    }
  }

  /**
   * Notes that a block was removed by force: its addresses are nobody's. A pod
   * that removed its interface is robbed too: until DEL coild keeps its address.
   */
  rob(prefixes: readonly Prefix[]): void {
    const atMs = performance.now();
    this.#robbed.push(...prefixes.map((prefix) => ({ prefix, atMs })));
    for (const pod of this.#pods) {
      pod.isRobbed ||= pod.addresses.some((a) => this.#isRobbed(a));
    }
  }

  /** Forgets what all have noticed by now: that of a while ago, since coild looks at its blocks one by one. */
  settle(): void {
    const sinceMs = performance.now() - NOTICED_MS;
    this.#robbed = this.#robbed.filter(({ atMs }) => atMs > sinceMs);
  }

  #isRobbed(text: string): boolean {
    const address = Address.parse(text);
    return this.#robbed.some(({ prefix }) => prefix.contains(address));
  }
}

/** A node sees its own pods, also when their block is gone; another node cannot. */
function mayShare(pod: Pod, other: Pod): boolean {
  return pod.node !== other.node && (pod.isRobbed || other.isRobbed);
}
