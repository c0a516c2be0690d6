import type { AddressFacts } from "../../../lib/connectivity/mod.ts";
import type { Family } from "../../../lib/inet/mod.ts";
import { type Diagnosis, NAMES } from "./diagnosis.ts";
import type { Evidence } from "./evidence.ts";
import { addressOf, type TestPod } from "./plan.ts";
import type { Failure, ResultIndex } from "./results.ts";

/** Between two pods, in one family. */
export interface Path {
  readonly from: TestPod;
  readonly to: TestPod;
  readonly family: Family;
}

/** From the certain to the likely: what the kernels lack, where packets get lost, what filters them. */
export function ofPath(
  failure: Failure,
  path: Path,
  { results, evidence }: {
    readonly results: ResultIndex;
    readonly evidence: Evidence;
  },
): Diagnosis {
  const { from, to, family } = path;
  const lacking = ofKernel(to, family, evidence) ??
    ofKernel(from, family, evidence) ??
    ofWay(from, to, path, evidence) ?? ofWay(to, from, path, evidence);
  if (lacking !== undefined) return lacking;
  const name = NAMES[family];
  const { kind } = failure.probe.question;
  const other = kind === "tcp" ? "udp" : "tcp";
  const otherwise = results.small(failure.probe, other);
  if (otherwise !== undefined && otherwise.trouble === undefined) {
    return {
      cause: "policy",
      node: to.node,
      text:
        `${other.toUpperCase()} passes and ${kind.toUpperCase()} does not (${name}): a packet filter or a network policy, here or on Node ${from.node}`,
      see: "policies",
    };
  }
  return ofReach(path, evidence);
}

/** By what the nodes themselves reach. */
function ofReach({ from, to, family }: Path, evidence: Evidence): Diagnosis {
  const name = NAMES[family];
  const address = addressOf(to, family) ?? "";
  const [near, far] = [to, from].map(({ node }) =>
    evidence.reaches(node, address)
  );
  if (near === false) {
    return {
      cause: "policy",
      node: to.node,
      text:
        `the node does not reach its own pod by ${name}, although rule and route are there: a packet filter, or the pod's link`,
      see: "coild",
    };
  }
  if (near === true && far === false) {
    const way = factsOf(from.node, to, family, evidence)?.way;
    if (way?.isDefault === true) {
      return {
        cause: "route",
        node: from.node,
        text:
          `there is no ${name} route to the pods of Node ${to.node}: packets go to the default gateway, which does not deliver them`,
        see: "routes",
      };
    }
    return {
      cause: "policy",
      node: from.node,
      text:
        `Node ${to.node} reaches its pod by ${name}, this one does not: a packet filter or a router between them`,
      see: "routes",
    };
  }
  if (near === true && far === true) {
    return {
      cause: "policy",
      node: from.node,
      text:
        `both nodes reach the pod of Node ${to.node} by ${name}, pods do not: a network policy or a packet filter for forwarded packets, here or there`,
      see: "policies",
    };
  }
  return {
    cause: "unknown",
    node: from.node,
    text:
      `pods do not reach those of Node ${to.node} by ${name}, and the nodes could not be asked for the reason`,
    see: "coild",
  };
}

/** What a node's kernel lacks for its own pod. */
export function ofKernel(
  pod: TestPod,
  family: Family,
  evidence: Evidence,
): Diagnosis | undefined {
  const { node } = pod;
  const known = evidence.facts.get(node);
  const own = factsOf(node, pod, family, evidence);
  if (known === undefined || own === undefined) return undefined;
  const name = NAMES[family];
  if (own.podLink === undefined) {
    return {
      cause: "route",
      node,
      text: `its pod has no ${name} route: table 116 lacks the pod's address`,
      see: "coild",
    };
  }
  if (own.way?.link !== own.podLink) {
    return {
      cause: "rule",
      node,
      text:
        `packets to its pods do not take their ${name} routes: the rule that looks up table 116 is missing, or another one comes first`,
      see: "coild",
    };
  }
  if (!known.forwards.includes(family)) {
    return {
      cause: "rule",
      node,
      text: `the node does not forward ${name} packets: the sysctl is off`,
      see: "forwarding",
    };
  }
  return undefined;
}

/** Whether the node of one pod knows the way to the other one. */
function ofWay(
  { node }: TestPod,
  other: TestPod,
  { family }: Path,
  evidence: Evidence,
): Diagnosis | undefined {
  if (!evidence.facts.has(node) || node === other.node) return undefined;
  const way = factsOf(node, other, family, evidence)?.way;
  if (way !== undefined) return undefined;
  return {
    cause: "route",
    node,
    text: `there is no ${
      NAMES[family]
    } route to the pods of Node ${other.node}`,
    see: "routes",
  };
}

/** Large packets get lost, small ones do not. */
export function ofSize(
  { trouble }: Failure,
  { from, to, family }: Path,
  evidence: Evidence,
): Diagnosis {
  const size = "size" in trouble ? trouble.size : undefined;
  const name = NAMES[family];
  const packets = size === undefined
    ? `large ${name} packets`
    : `${name} packets of ${size} bytes`;
  const ways = [[from, to], [to, from]] as const;
  for (const [here, there] of ways) {
    const way = factsOf(here.node, there, family, evidence)?.way;
    const own = size ?? factsOf(from.node, from, family, evidence)?.way?.mtu;
    if (way === undefined || own === undefined || way.mtu >= own) continue;
    return {
      cause: "mtu",
      node: here.node,
      text:
        `link "${way.link}" towards Node ${there.node} has MTU ${way.mtu}: ${packets} do not fit, and pods of Node ${from.node} send them`,
      see: "links",
    };
  }
  const why = trouble.why === "too large"
    ? "a router says that they do not fit"
    : "they are lost without a word";
  return {
    cause: "mtu",
    node: from.node,
    text:
      `${packets} do not reach Node ${to.node}, small ones do: the MTU between the nodes is smaller than that of pods, and ${why}`,
    see: "links",
  };
}

/** What the kernel of a node knows of a pod's address. */
function factsOf(
  node: string,
  pod: TestPod,
  family: Family,
  { facts }: Evidence,
): AddressFacts | undefined {
  return facts.get(node)?.addresses[addressOf(pod, family) ?? ""];
}
