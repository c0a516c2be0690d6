// What a block costs the API server, and how long many nodes wait for one:
// beside Coil v2's controller (Go), on the same API server in the same run.
import { ADDRESS_BLOCKS } from "../../lib/api/mod.ts";
import { deleteFinalized, KubeClient } from "../../lib/kube/mod.ts";
import { FINALIZER } from "../../lib/names/mod.ts";
import { PeerLab, type Side } from "../apiserver/peer_lab.ts";
import { removeLabOnSignals } from "../lab/mod.ts";
import { type Figure, figure } from "./figures.ts";
import { many } from "./many.ts";
import {
  pidsOf,
  processorSecondsOf,
  processorSecondsSince,
} from "./process_memory.ts";
import { createNodes, requestBlocks } from "./scale/objects.ts";
import { ServerCounts } from "./scale/server_counts.ts";

const NAME = "bench-requests";

/** `count` nodes ask the one controller for a block at once, then as many others the other one. */
export async function requestFigures(
  { count, log }: {
    readonly count: number;
    readonly log: (text: string) => void;
  },
): Promise<Figure[]> {
  removeLabOnSignals(NAME, log);
  await using lab = await PeerLab.start(NAME, { nodes: 0 });
  await lab.plane.apply({
    apiVersion: "coil.cybozu.com/v2",
    kind: "AddressPool",
    metadata: { name: "big" },
    spec: { blockSizeBits: 5, subnets: [{ ipv4: "10.0.0.0/8" }] },
  });
  const nodes = await createNodes(lab.plane, 2 * (count + 1));
  const measure = async (side: Side, suffix: string) => {
    log(
      `${count} nodes ask ${side === "ours" ? "our" : "Go Coil's"} controller`,
    );
    await lab.runController(side);
    // It waits for the other one's lease, which nobody gave up.
    await requestBlocks(lab.plane, nodes.splice(0, 1));
    const { writes: before } = await ServerCounts.read(lab.plane);
    const pids = pidsOf(lab);
    const busyBefore = processorSecondsOf(pids);
    const startMs = performance.now();
    const asking = nodes.splice(0, count);
    const times = await requestBlocks(lab.plane, asking);
    const wholeS = (performance.now() - startMs) / 1000;
    const busyS = processorSecondsSince(pids, busyBefore);
    const { writes } = await ServerCounts.read(lab.plane);
    const each = (writes.all - before.all) / count;
    return [
      figure(`blockrequest.all${suffix}`, "s", [wholeS]),
      figure(`blockrequest.each${suffix}`, "ms", times),
      figure(`blockrequest.writes${suffix}`, "requests", [each], {
        target: side === "ours" ? "≤ 3; fewer than 2 cannot be" : "",
      }),
      ...Object.entries(busyS).map(([program, seconds]) =>
        figure(`blockrequest.processor.${program}${suffix}`, "s", [seconds])
      ),
    ];
  };
  const peers = await measure("peer", ".go");
  // Ours would write the addresses of their nodes to them, ten in a second.
  await deleteBlocks(lab);
  await lab.applyCompat();
  return [...await measure("ours", ""), ...peers];
}

async function deleteBlocks({ plane: { kubeconfig } }: PeerLab): Promise<void> {
  using client = await KubeClient.load({ kubeconfig });
  const { items } = await client.listAll(ADDRESS_BLOCKS);
  await many(items.length, 32, async (i) => {
    const object = items[i];
    if (object === undefined) return;
    await deleteFinalized(client, ADDRESS_BLOCKS, {
      object,
      finalizer: FINALIZER,
    });
  });
}
