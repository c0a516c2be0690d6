import assert from "node:assert/strict";
import type { Coild, Sandbox } from "./coild_lab.ts";
import { OUTSIDE, OUTSIDE6, PEER, PEER6 } from "../lab/cloud/site.ts";
import type { VpcLab } from "./coild_vpc_lab.ts";

const HOSTS = [PEER, PEER6, OUTSIDE, OUTSIDE6];

function isIpv6(address: string): boolean {
  return address.includes(":");
}

/** A pod with the addresses that it got. */
export interface AddedPod {
  readonly pod: Sandbox;
  readonly addresses: readonly string[];
}

/** The pods of a node whose pods have addresses of its VPC. */
export class VpcPods {
  readonly #vpc: VpcLab;
  /** Replaced when another process serves the node. */
  coild: Coild;
  readonly #all: AddedPod[] = [];
  #made = 0;

  constructor(vpc: VpcLab, coild: Coild) {
    this.#vpc = vpc;
    this.coild = coild;
  }

  /** Those that are there, oldest first. */
  get all(): readonly AddedPod[] {
    return this.#all;
  }

  /** Adds pods, all at once. */
  async add(count: number): Promise<AddedPod[]> {
    const { node } = this.coild;
    const names = Array.from(
      { length: count },
      () => `${node.name}-pod${this.#made++}`,
    );
    const added = await Promise.all(names.map(async (name) => {
      const pod = await this.#vpc.lab.createPod(name, { node });
      return { pod, addresses: await this.#vpc.add(this.coild, pod) };
    }));
    this.#all.push(...added);
    return added;
  }

  /** Deletes all but those that are to stay. */
  async keep(isKept: (pod: AddedPod) => boolean): Promise<void> {
    const going = this.#all.filter((pod) => !isKept(pod));
    await Promise.all(
      going.map(({ pod }) => this.#vpc.remove(this.coild, pod)),
    );
    this.#all.splice(0, Infinity, ...this.#all.filter(isKept));
  }

  /** Fails unless each pod reaches the peer in the VPC, the host in the Internet, the next pod and others, without a drop. */
  async assertReachable(others: readonly string[] = []): Promise<void> {
    const checks = this.#all.flatMap(({ pod, addresses }, i) => {
      const next = this.#all[(i + 1) % this.#all.length]?.addresses ?? [];
      return [...HOSTS, ...next, ...others]
        .filter((to) => addresses.some((from) => isIpv6(from) === isIpv6(to)))
        .map(async (to) =>
          assert.ok(await this.#vpc.pings(pod, to), `${pod.name} to ${to}`)
        );
    });
    await Promise.all(checks);
    await this.#vpc.site.assertNoDrops();
  }
}
