import { abortable, untilAborted } from "../../lib/async/mod.ts";
import { ChainedNetwork } from "../../lib/podnet/mod.ts";
import { getLogger } from "../../lib/telemetry/mod.ts";
import { ChainedPods } from "./pods/chained_pods.ts";
import type { NodeDependencies, NodePart } from "./node_part.ts";
import { Readiness } from "./observe/readiness.ts";

const log = getLogger("setup");

/**
 * The node whose pods another plugin connects: no addresses, blocks or routes
 * are ours, and the kernel's rules and sysctls are left as they are.
 */
export function connectChained(dependencies: NodeDependencies): NodePart {
  const { locks, metrics, nodeName, pods, stack } = dependencies;
  const network = stack.use(ChainedNetwork.open());
  const readiness = new Readiness({
    api: "the API server has not answered yet",
  });
  return {
    attachments: new ChainedPods({ network, pods, metrics, locks }),
    readiness,
    loops: {},
    checkNetwork: () => true,
    async run(signal) {
      await abortable(pods.synced(), signal);
      readiness.met("api");
      log.info("Ready to serve pods of another plugin", { node: nodeName });
      await untilAborted(signal);
    },
    finish: () => Promise.resolve(),
  };
}
