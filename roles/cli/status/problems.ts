import {
  type AddressPool,
  type Condition,
  conditionOf,
  type Egress,
  formatAge,
  type VpcNode,
} from "../../../lib/api/mod.ts";
import { count } from "../../../lib/flags/mod.ts";
import { type Problem, requestProblem } from "../../../lib/ipam/audit/mod.ts";
import {
  compareText,
  COORDINATOR_LEASE,
  IPAM_LEASE,
  nameText,
  VPC_SWEEP_LEASE,
} from "../../../lib/names/mod.ts";
import {
  isLeftOut,
  type Leadership,
  type NodeState,
  type Part,
  type Snapshot,
} from "./snapshot.ts";

/** How much the clock of this machine may be ahead of a controller's. */
const CLOCK_SKEW_MS = 30_000;

const IS_COILD = /coild$/;
/** By this name, or by upstream's names of its halves. */
const IS_CONTROLLER = /coil-(?:(?:ipam|egress)-)?controller$/;
/** Parts of coil-controller that a change of its flags ends. */
const OPTIONAL_LEASES = [COORDINATOR_LEASE, VPC_SWEEP_LEASE];

/** Finds problems: first those that cause others. */
export function problemsOf(snapshot: Snapshot, now: Date): Problem[] {
  const { parts = [], leases, pools = [], requests = [] } = snapshot;
  const { egresses = [], nodes = [], vpcNodes = [] } = snapshot;
  return [
    ...missing(snapshot),
    ...parts.filter(({ isReady }) => !isReady).sort(byName).map(ofPart),
    ...short(snapshot),
    ...(leases === undefined ? [] : ofLeases(leases, parts, now)),
    ...nodes.flatMap((node) => ofNode(node, snapshot)),
    ...pools.flatMap(ofPool),
    ...requests.flatMap((request) => requestProblem(request, now)),
    ...egresses.flatMap(ofEgress),
    ...vpcNodes.flatMap(ofVpcNode),
  ];
}

function missing(snapshot: Snapshot): Problem[] {
  const { unseen, workloads, parts, pools, vpcNodes = [] } = snapshot;
  const found: Problem[] = [];
  if (unseen.some((u) => u.what === "addresspools" && u.why === "not served")) {
    found.push({
      object: "CustomResourceDefinition addresspools.coil.cybozu.com",
      message: "it does not exist: Coil is not installed",
      next: "kubectl apply -f crds/",
    });
  } else if (
    pools?.length === 0 && vpcNodes.length === 0 &&
    !isLeftOut(IPAM_LEASE, snapshot)
  ) {
    found.push({
      object: "AddressPool",
      message: "there is none: pods get no addresses",
      next: "kubectl explain addresspool.spec",
    });
  }
  if (workloads === undefined || parts === undefined) return found;
  const daemons = { "coil-controller": IS_CONTROLLER, "coild": IS_COILD };
  for (const [name, pattern] of Object.entries(daemons)) {
    const isThere = workloads.some((workload) => pattern.test(workload.name)) ||
      parts.some(({ component }) => pattern.test(component));
    if (isThere) continue;
    found.push({
      object: name,
      message: "no pod, Deployment or DaemonSet of it was found",
      next: "kubectl get pods -A -l app.kubernetes.io/name=coil",
    });
  }
  return found;
}

function ofPart(part: Part): Problem {
  const { namespace, name, component, node, reason, restarts } = part;
  const where = node === "" ? "" : ` on Node ${node}`;
  const often = restarts === 0 ? "" : `, ${count(restarts, "restart")}`;
  const log = `kubectl -n ${namespace} logs ${name} -c ${part.container}`;
  return {
    object: `Pod ${namespace}/${name}`,
    message: `${component}${where} is not ready: ${reason}${often}`,
    next: node === "" || reason.startsWith("ContainerCreating") ||
        reason.includes("Image")
      ? `kubectl -n ${namespace} describe pod ${name}`
      : restarts > 0
      ? `${log} --previous`
      : log,
  };
}

/** Workloads with fewer pods than wanted: those that are there and not ready are problems of their own. */
function short({ workloads = [], parts }: Snapshot): Problem[] {
  return workloads.flatMap(({ kind, namespace, name, wanted, ready }) => {
    const isExplained = parts?.some((part) =>
      !part.isReady && part.namespace === namespace &&
      part.name.startsWith(`${name}-`)
    ) ?? false;
    if (ready >= wanted || isExplained) {
      return [];
    }
    return [{
      object: `${kind} ${namespace}/${name}`,
      message: `${ready} of ${count(wanted, "pod")} are ready`,
      next: `kubectl -n ${namespace} describe ${kind.toLowerCase()} ${name}`,
    }];
  });
}

function ofLeases(
  leases: readonly Leadership[],
  parts: readonly Part[],
  now: Date,
): Problem[] {
  const hasController = parts.some((p) => IS_CONTROLLER.test(p.component));
  if (leases.length === 0 && hasController) {
    return [{
      object: "Lease",
      message: "no coil-controller has ever led",
      next: "kubectl -n kube-system logs deploy/coil-controller",
    }];
  }
  return leases.flatMap(({ namespace, name, holder, renewed, seconds }) => {
    const endsAt = Date.parse(renewed ?? "") + seconds * 1_000;
    if (holder === "" && OPTIONAL_LEASES.includes(name)) return [];
    if (holder !== "" && endsAt + CLOCK_SKEW_MS >= now.getTime()) return [];
    const since = formatAge(renewed, now);
    return [{
      object: `Lease ${namespace}/${name}`,
      message: holder === ""
        ? `no coil-controller leads: it was given up ${since} ago`
        : `no coil-controller leads: "${holder}" last renewed it ${since} ago`,
      next: "kubectl -n kube-system logs deploy/coil-controller",
    }];
  });
}

function ofNode(
  { name, networkUnavailable }: NodeState,
  { parts, workloads }: Snapshot,
): Problem[] {
  const object = `Node ${name}`;
  const next = `kubectl describe node ${name}`;
  if (networkUnavailable !== undefined) {
    const message = `its network is unavailable: ${networkUnavailable}`;
    return [{ object, message, next }];
  }
  const isCoild = ({ component }: Part) => IS_COILD.test(component);
  // Without any coild one line says so.
  if (!parts?.some(isCoild) || workloads === undefined) return [];
  if (parts.some((part) => isCoild(part) && part.node === name)) return [];
  const message = "no coild runs there: its pods get no network";
  return [{ object, message, next }];
}

function ofPool({ metadata, status }: AddressPool): Problem[] {
  const name = metadata.name ?? "";
  const describe = `kubectl describe addresspool ${name}`;
  return ofConditions(`AddressPool ${name}`, status?.conditions, {
    bad: [
      ["Ready", "False"],
      ["CapacityLow", "True"],
      ["Overlapping", "True", describe],
    ],
    next: `coil ipam show blocks --pool=${name}`,
    describe,
  });
}

function ofEgress({ metadata, status }: Egress): Problem[] {
  const { namespace = "", name = "" } = metadata;
  const describe = `kubectl -n ${namespace} describe egress ${name}`;
  return ofConditions(`Egress ${namespace}/${name}`, status?.conditions, {
    bad: [
      ["Ready", "False"],
      ["Degraded", "True"],
      ["CapacityLow", "True"],
      ["ClientsLimited", "True"],
      ["GatewaysLost", "True"],
      [
        "SourcesTranslated",
        "True",
        `coil egress show sources ${namespace}/${name}`,
      ],
    ],
    describe,
  });
}

function ofVpcNode({ metadata, status }: VpcNode): Problem[] {
  const name = metadata.name ?? "";
  const describe = `kubectl describe vpcnode ${name}`;
  // One that coild has just made says nothing yet.
  const { conditions = [] } = status ?? {};
  if (conditions.length === 0) return [];
  return ofConditions(`VPCNode ${name}`, conditions, {
    bad: [
      ["Ready", "False"],
      ["SubnetExhausted", "True"],
      ["MissingPermissions", "True"],
    ],
    describe,
  });
}

/** Conditions that add nothing when the object is not ready. */
const LESS_THAN_NOT_READY = new Set([
  ...["CapacityLow", "Degraded"],
  ...["MissingPermissions", "SubnetExhausted"],
]);

function ofConditions(
  object: string,
  conditions: readonly Condition[] | undefined,
  { bad, describe, next = describe }: {
    /** Each with what shows more of it, unless that is `next`. */
    readonly bad: readonly (readonly [
      type: string,
      status: Condition["status"],
      next?: string,
    ])[];
    readonly describe: string;
    readonly next?: string;
  },
): Problem[] {
  if (conditions === undefined || conditions.length === 0) {
    const message = "coil-controller has not looked at it";
    return [{ object, message, next: describe }];
  }
  const isReady = conditionOf(conditions, "Ready")?.status !== "False";
  return bad.flatMap(([type, status, own = next]) => {
    const found = conditionOf(conditions, type);
    if (found?.status !== status) return [];
    if (!isReady && LESS_THAN_NOT_READY.has(type)) return [];
    const message = `${type} is ${status}, ${found.reason}: ${found.message}`;
    return [{ object, message, next: own }];
  });
}

function byName(a: Part, b: Part): number {
  return compareText(nameText(a), nameText(b));
}
