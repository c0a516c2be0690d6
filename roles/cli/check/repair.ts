import { count } from "../../../lib/flags/mod.ts";
import type { Finding, NodeFinding } from "../../../lib/ipam/audit/mod.ts";

/** What an audit of the cluster or of a node finds. */
type AuditFinding = Finding | NodeFinding;

/** A repair that was made, or would be in a dry run. */
export interface Repair {
  /** Kind and name of the object, as in a problem. */
  readonly object: string;
  readonly code: AuditFinding["code"];
  /** What was done, and why that was safe. */
  readonly message: string;
}

/** Result of a repair: each finding is repaired, remains a problem, or is gone. */
export interface Mended<F extends AuditFinding = AuditFinding> {
  readonly repairs: readonly Repair[];
  readonly problems: readonly F[];
}

/** The finding with the reason why it is not repaired, and with what an admin can do. */
export function unrepaired<F extends AuditFinding>(
  finding: F,
  why: string = WHY[finding.code],
): F {
  return {
    ...finding,
    message: `${finding.message}; not repaired: ${why}`,
    next: nextOf(finding) ?? finding.next,
  };
}

const PODS_CHOICE =
  "a running pod has it; delete the pod, its replacement gets another address";

/** Why a finding of this kind is never repaired, or not without more proof. */
const WHY: Readonly<Record<AuditFinding["code"], string>> = {
  "duplicate-address":
    "either pod may be the rightful one; delete one, its replacement gets another address",
  "address-outside-of-blocks": PODS_CHOICE,
  "address-of-another-node": PODS_CHOICE,
  "block-unreadable":
    "which addresses of which node it has is not known; undo the edit",
  "block-without-pool": "its node may use it",
  "block-without-node": "it may be in use",
  "pools-overlap": "either pool may be the rightful one",
  "request-unanswered": "coil-controller may still answer it",
  "unknown-pool": "correct the annotation, or create the AddressPool",
  "unknown-egress": "correct the annotation, or create the Egress",
  "address-leaked":
    "its interface is there, so a sandbox may use it; remove the sandbox on the node, if the runtime still has it",
  "address-on-two-interfaces": "either container may be the rightful one",
  "address-without-interface": "it may be in use",
  "address-quarantined":
    "a container uses it; delete its pod, the replacement gets another address",
  "release-stuck": "the kernel may still have it; coild goes on trying",
  "interface-not-recorded": "the interface may be in use",
  "pod-without-interface":
    "only a new sandbox gets an interface; delete the pod",
};

/** The command that helps; undefined: the one that shows more. */
function nextOf({ code, object, ...rest }: AuditFinding): string | undefined {
  const holder = "holder" in rest ? rest.holder : "";
  switch (code) {
    case "duplicate-address":
    case "address-outside-of-blocks":
    case "address-of-another-node":
      return deletePod(object.slice("Pod ".length));
    case "pod-without-interface":
      return deletePod(holder);
    case "address-leaked": {
      const [containerId = ""] = holder.split(":");
      return `crictl stopp ${containerId} && crictl rmp ${containerId}`;
    }
    case "release-stuck":
      return "kubectl -n kube-system logs ds/coild";
    default:
      return undefined;
  }
}

function deletePod(key: string): string {
  const [namespace = "", name = ""] = key.split("/");
  return `kubectl -n ${namespace} delete pod ${name}`;
}

/** The repairs as text, before what remains. */
export function formatRepairs(repairs: readonly Repair[]): string {
  if (repairs.length === 0) return "";
  const lines = repairs.map(({ object, message }) =>
    `  ${object}: ${message}\n`
  );
  return `${count(repairs.length, "repair")}:\n${lines.join("")}\n`;
}
