// ADD and DEL through the compiled plugin and through the peer, in turn.
import type { CoilCluster } from "../lab/coil.ts";
import { type LabNode, run } from "../lab/mod.ts";
import { type Sandbox, sandboxOf } from "../lab/runtime.ts";
import { type Figure, figure } from "./figures.ts";
import { callPeer } from "./peer.ts";

export interface PodBench {
  readonly cluster: CoilCluster;
  readonly node: LabNode;
  /** Kubernetes namespace whose pool has the families. */
  readonly namespace: string;
  readonly label: "ipv4" | "dual";
  readonly peer: Record<string, unknown>;
}

async function peerSandbox(name: string): Promise<Sandbox> {
  await run("ip", ["netns", "add", name]);
  return sandboxOf(name, { namespace: "peer", name });
}

/** One pod at a time, ours and the peer's alternating. */
export async function oneByOne(
  bench: PodBench,
  counts: { readonly ours: number; readonly peers: number },
): Promise<Figure[]> {
  const { cluster, node, label, peer } = bench;
  const times = {
    add: [] as number[],
    del: [] as number[],
    peerAdd: [] as number[],
    peerDel: [] as number[],
  };
  for (let i = 0; i < Math.max(counts.ours, counts.peers); i++) {
    if (i < counts.ours) {
      const pod = { namespace: bench.namespace, name: `one-${i}` };
      const sandbox = await cluster.createSandbox(node, pod);
      const { wallMs } = await cluster.addOnce(node, sandbox);
      times.add.push(wallMs);
      times.del.push(await cluster.del(node, sandbox));
      await cluster.removeSandbox(sandbox);
    }
    if (i < counts.peers) {
      const sandbox = await peerSandbox(
        `coil-${cluster.plane.name}-pod-peer-${i}`,
      );
      const call = { node, sandbox, config: peer };
      times.peerAdd.push(await callPeer({ ...call, command: "ADD" }));
      times.peerDel.push(await callPeer({ ...call, command: "DEL" }));
      await run("ip", ["netns", "delete", sandbox.netns]);
    }
  }
  return [
    figure(`add.${label}.coil`, "ms", times.add),
    figure(`add.${label}.ptp`, "ms", times.peerAdd),
    figure(`del.${label}.coil`, "ms", times.del),
    figure(`del.${label}.ptp`, "ms", times.peerDel),
  ];
}

/** How long something takes, in ms. */
export async function timed(work: () => Promise<unknown>): Promise<number> {
  const started = performance.now();
  await work();
  return performance.now() - started;
}

/**
 * `size` pods at once, then gone at once; each sample is a whole wave. Between
 * the waves, `between` sees the node with all its pods.
 */
export async function waves(
  bench: PodBench,
  options: {
    readonly size: number;
    readonly rounds: number;
    readonly before?: () => void;
    /** `addMs` is what the wave took. */
    readonly between: (addMs: number) => Promise<void>;
  },
): Promise<Figure[]> {
  const { cluster, node, peer } = bench;
  const { size, rounds } = options;
  const prefix = `coil-${cluster.plane.name}-pod-wave`;
  const times = {
    add: [] as number[],
    del: [] as number[],
    peerAdd: [] as number[],
    peerDel: [] as number[],
  };
  for (let round = 0; round < rounds; round++) {
    const ours: Sandbox[] = [];
    const peers: Sandbox[] = [];
    for (let i = 0; i < size; i++) {
      const pod = { namespace: bench.namespace, name: `wave-${round}-${i}` };
      ours.push(await cluster.createSandbox(node, pod));
      peers.push(await peerSandbox(`${prefix}-${i}`));
    }
    const all = (each: (sandbox: Sandbox) => Promise<unknown>, of: Sandbox[]) =>
      timed(() => Promise.all(of.map(each)));
    const peerCall = (command: "ADD" | "DEL") => (sandbox: Sandbox) =>
      callPeer({ node, sandbox, config: peer, command });
    options.before?.();
    const addMs = await all((s) => cluster.addOnce(node, s), ours);
    times.add.push(addMs);
    await options.between(addMs);
    times.del.push(await all((s) => cluster.del(node, s), ours));
    times.peerAdd.push(await all(peerCall("ADD"), peers));
    times.peerDel.push(await all(peerCall("DEL"), peers));
    for (const sandbox of ours) await cluster.removeSandbox(sandbox);
    for (const { netns } of peers) await run("ip", ["netns", "delete", netns]);
  }
  const name = `wave${size}`;
  return [
    figure(`${name}.add.coil`, "ms", times.add),
    figure(`${name}.add.ptp`, "ms", times.peerAdd),
    figure(`${name}.del.coil`, "ms", times.del),
    figure(`${name}.del.ptp`, "ms", times.peerDel),
  ];
}
