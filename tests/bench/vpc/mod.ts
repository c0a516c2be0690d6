// A node with addresses of its VPC beside one with pools and beside upstream's
// plugin, in the same run; how it starts again with three ENIs and 50 pods, and how
// it grows. EC2, the metadata service and the VPC are those of tests/lab/cloud,
// whose record has each request.
import { type Log, removeLabOnSignals } from "../../lab/mod.ts";
import { ensurePeerVpcCni } from "../../lab/peer_vpc_cni.ts";
import type { Figure } from "../figures.ts";
import { ipamFigures } from "../ipam.ts";
import { forwardFigures } from "./forward.ts";
import { burstFigures, coldFigures } from "./grow.ts";
import { startVpcBench } from "./site.ts";
import { warmFigures } from "./warm.ts";

const NAME = "bench-vpc";

/** `vpc.*`, and `ipam.735.*`: a node of the largest type with single addresses. */
export async function vpcFigures(
  { executable, quick, log }: {
    readonly executable: string;
    readonly quick: boolean;
    readonly log: Log;
  },
): Promise<Figure[]> {
  removeLabOnSignals(NAME, log);
  const upstream = await ensurePeerVpcCni({ log });
  const figures: Figure[] = [];
  {
    await using bench = await startVpcBench({ name: NAME, executable, log });
    const rounds = quick ? 20 : 100;
    figures.push(...await warmFigures(bench, { upstream, rounds }));
    log("50 pods on three ENIs, and coild starts again");
    figures.push(...await coldFigures(bench));
    log("nine pods at once");
    figures.push(...await burstFigures(bench));
  }
  log("packets of a node with 735 pods");
  figures.push(...await forwardFigures({ quick }));
  log("735 blocks");
  return [...figures, ...await ipamFigures([[735, 32]])];
}
