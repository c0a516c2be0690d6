// Listens to the kernel as coild does to keep the node's network, and does
// nothing else: what this process uses is what the notifications cost coild.
import { listen } from "../../lib/netlink/mod.ts";
import {
  COILD_PROTOCOL,
  EXPORT_TABLE,
  POD_RULE_PRIORITY,
  POD_TABLE,
} from "../../lib/names/mod.ts";
import { PodNetwork } from "../../lib/podnet/mod.ts";

const stop = new AbortController();
Deno.addSignalListener("SIGTERM", () => stop.abort());
using network = PodNetwork.open({
  tableId: POD_TABLE,
  rulePriority: POD_RULE_PRIORITY,
  protocolId: COILD_PROTOCOL,
  gatewayMode: "link-local",
});
const { upkeep } = network;
let wanted = 0;
try {
  await listen({
    // coild knows its own by their port; here all are another's.
    watch: () => upkeep.watch({ exportTableId: EXPORT_TABLE, ownPortIds: [] }),
    // deno-lint-ignore no-console -- who started this waits for it
    onStart: () => console.log("listening"),
    onHeard: (notifications) => {
      for (const each of notifications) wanted += upkeep.partsOf(each).length;
    },
    onFailure: (error) => {
      throw error;
    },
    signal: stop.signal,
  });
} catch (error) {
  if (!stop.signal.aborted) throw error;
}
