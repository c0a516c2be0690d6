/**
 * Pods of a {@linkcode PeerLab} that stay while its programs change, and what
 * must be true of them.
 *
 * @module
 */
import assert from "node:assert/strict";
import { eventually, inNetns, type LabNode } from "../lab/mod.ts";
import type { Sandbox } from "../lab/runtime.ts";
import type { PeerLab, Side } from "./peer_lab.ts";

/** A pod with its network. */
export interface PinnedPod {
  readonly sandbox: Sandbox;
  /** What its ADD returned. */
  readonly result: unknown;
  readonly addresses: readonly string[];
}

interface Blocks {
  readonly items: readonly {
    readonly metadata: { readonly labels: Readonly<Record<string, string>> };
    readonly ipv4?: string | null;
    readonly ipv6?: string | null;
  }[];
}

/** Pods on one node. The pools' blocks have one address each. */
export class PinnedPods {
  readonly #lab: PeerLab;
  readonly #node: LabNode;

  constructor(lab: PeerLab, node: LabNode) {
    this.#lab = lab;
    this.#node = node;
  }

  /** Creates a pod and connects it through a side's plugin. */
  async add(
    pod: { readonly namespace: string; readonly name: string },
    plugin: Side,
  ): Promise<PinnedPod> {
    const sandbox = await this.#lab.createPod(this.#node, pod);
    // A new controller waits for the lease of the one before it.
    const text = await eventually(`ADD of ${pod.name}`, async () => {
      const { done, text } = await this.#lab.call(
        ...[this.#node, "ADD", sandbox, { plugin }] as const,
      );
      assert.ok(done, text);
      return text;
    });
    const result = JSON.parse(text) as { ips: { address: string }[] };
    const addresses = result.ips.map(({ address }) =>
      address.replace(/\/(32|128)$/, "")
    );
    return { sandbox, result, addresses };
  }

  /** DEL through a side's plugin: nothing of the pod is left, and its addresses become free. */
  async delete(pod: PinnedPod, plugin: Side): Promise<void> {
    const { sandbox, addresses } = pod;
    const { done, text } = await this.#lab.call(
      ...[this.#node, "DEL", sandbox, { plugin }] as const,
    );
    assert.ok(done, text);
    assert.equal(text, "");
    assert.match(await this.checkError(pod, plugin), /"code": ?\d+/);
    // Our coild cuts a pod off, and deletes its veth a moment after the answer.
    await eventually(`${addresses} to be out of ${sandbox.netns}`, async () => {
      assert.deepEqual(await addressesInside(sandbox), []);
      return true;
    });
    await eventually(`${addresses} to be free`, async () => {
      assert.deepEqual(await this.#blocksOf(addresses), []);
      return true;
    });
    await this.#lab.removePod(sandbox);
  }

  /** The pod is as it was made: its addresses, their blocks, CHECK by the plugins, and traffic with the node. */
  async expectKept(pod: PinnedPod, plugins: readonly Side[]): Promise<void> {
    const { sandbox, addresses } = pod;
    assert.deepEqual(await addressesInside(sandbox), addresses.toSorted());
    const holders = await this.#blocksOf(addresses);
    assert.deepEqual(holders, addresses.map(() => this.#node.name));
    for (const plugin of plugins) {
      assert.equal(await this.checkError(pod, plugin), "", `by ${plugin}`);
    }
    for (const address of addresses) {
      await ping(this.#node.netns, address);
    }
  }

  /** What CHECK says through a side's plugin; "" when all is well. */
  async checkError(
    { sandbox, result: prevResult }: PinnedPod,
    plugin: Side,
  ): Promise<string> {
    const { done, text } = await this.#lab.call(
      ...[this.#node, "CHECK", sandbox, { plugin, prevResult }] as const,
    );
    assert.equal(done, text === "");
    return text;
  }

  /** Nodes that hold the blocks of these addresses. */
  async #blocksOf(addresses: readonly string[]): Promise<string[]> {
    const uri = "/apis/coil.cybozu.com/v2/addressblocks";
    // While new definitions are applied the API server refuses for a second.
    const { items } = await eventually(
      "the blocks",
      async () => await this.#lab.plane.request("GET", uri) as Blocks,
    );
    return addresses.flatMap((address) =>
      items.filter(({ ipv4, ipv6 }) =>
        [`${address}/32`, `${address}/128`].some((cidr) =>
          cidr === ipv4 || cidr === ipv6
        )
      ).map(({ metadata }) => metadata.labels["coil.cybozu.com/node"] ?? "?")
    );
  }
}

/** Each pod reaches each other one that has an address of the same family. */
export async function expectJoined(pods: readonly PinnedPod[]): Promise<void> {
  for (const from of pods) {
    for (const to of pods) {
      if (from === to) continue;
      for (const address of to.addresses) {
        const isSame = (own: string) =>
          own.includes(":") === address.includes(":");
        if (!from.addresses.some(isSame)) continue;
        await ping(from.sandbox.netns, address);
      }
    }
  }
}

async function ping(netns: string, address: string): Promise<void> {
  await inNetns(netns, "ping", ["-nqc1", "-w20", address]);
}

/** Addresses of the pod's interface as its namespace has them. */
async function addressesInside({ netns }: Sandbox): Promise<string[]> {
  const text = await inNetns(netns, "ip", ["-j", "address"]);
  const links = JSON.parse(text) as {
    addr_info: { scope: string; local: string }[];
  }[];
  return links.flatMap(({ addr_info }) => addr_info)
    .filter(({ scope }) => scope === "global")
    .map(({ local }) => local)
    .toSorted();
}
