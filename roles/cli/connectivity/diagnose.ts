import { type Diagnosis, NAMES } from "./diagnosis.ts";
import { ofKernel, ofPath, ofSize } from "./diagnose_path.ts";
import type { Evidence } from "./evidence.ts";
import { type Failure, type ResultIndex, troubleText } from "./results.ts";

/** Input for the diagnosis of a failure. */
export interface Judging {
  readonly results: ResultIndex;
  readonly evidence: Evidence;
}

/** Says what is likely wrong; undefined for what another failure explains. */
export function diagnose(
  failure: Failure,
  judging: Judging,
): Diagnosis | undefined {
  const { probe, trouble } = failure;
  const { check, from, to, family } = probe;
  if (check === "egress") return ofEgress(failure);
  if (to === undefined || family === undefined) {
    return isExplained(failure, judging) ? undefined : ofTarget(failure);
  }
  if (trouble.why === "other source") {
    return {
      cause: "translation",
      node: from.node,
      text: `the source of ${
        NAMES[family]
      } packets to pods is translated, so NetworkPolicies do not see the pod's address`,
      see: "policies",
    };
  }
  if (trouble.why === "other server") {
    return {
      cause: "address",
      node: to.node,
      text: `another server answers at the ${
        NAMES[family]
      } address of its pod: two pods may have the address`,
      see: "addresses",
    };
  }
  const path = { from, to, family };
  if (check === "pod") return ofPath(failure, path, judging);
  const small = judging.results.small(probe, probe.question.kind);
  return small?.trouble === undefined
    ? ofSize(failure, path, judging.evidence)
    : undefined;
}

/**
 * While a node's pods and others do not reach each other, that is the problem,
 * and not the target behind which pods are. The API server is none: its answers
 * are lost only where the node does not find its own pod.
 */
function isExplained(
  { probe: { check, from, family } }: Failure,
  { results, evidence }: Judging,
): boolean {
  if (family === undefined) return false;
  return results.isPodLost(from.node, family) &&
    (check !== "api-server" || ofKernel(from, family, evidence) !== undefined);
}

/** What a node does for its pods, on the way to something that is no pod. */
function ofTarget(
  { probe: { check, from, family, question }, trouble }: Failure,
): Diagnosis {
  const address = "address" in question ? question.address : "";
  const name = family === undefined ? "" : `${NAMES[family]} `;
  const why = troubleText(trouble);
  const diagnosis = (see: Diagnosis["see"], text: string): Diagnosis => (
    { cause: "proxy", node: from.node, text, see }
  );
  if (check === "service") {
    return diagnosis(
      "proxy",
      `pods reach all others directly, but not by the ${name}address of a Service (${why}): check the node's Service proxy`,
    );
  }
  if (check === "host-port") {
    return diagnosis(
      "host-port",
      `pods do not reach a port of the host, at ${address} (${why}): check the plugin portmap and packet filters on that node`,
    );
  }
  return diagnosis(
    "api-server",
    `pods do not reach the API server at ${address} (${why}): check the node's Service proxy, network policies, and the API server's route to pods`,
  );
}

function ofEgress({ probe, trouble }: Failure): Diagnosis {
  const { from: { node }, sources = [] } = probe;
  const target = probe.question.kind === "get" ? probe.question.url : "";
  const text = trouble.why === "other source"
    ? `${target} sees ${
      trouble.seen || "no address"
    }, which is not a gateway's address (${
      sources.join(", ")
    }): the target is not a destination of the Egress, or the node of the gateway or a device behind it translates again`
    : `clients of the Egress do not reach ${target}: ${troubleText(trouble)}`;
  return { cause: "egress", node, text, see: "egress" };
}
