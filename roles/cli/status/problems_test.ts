import assert from "node:assert/strict";
import {
  type AddressPool,
  type BlockRequest,
  type Egress,
  newVpcNode,
  type VpcNode,
} from "../../../lib/api/mod.ts";
import { GROUP_VERSION } from "../../../lib/names/mod.ts";
import { problemsOf } from "./problems.ts";
import { formatReport, reportOf } from "./report.ts";
import type { Leadership, Part, Snapshot, Workload } from "./snapshot.ts";

const NOW = new Date("2026-01-01T12:00:00Z");

function secondsAgo(seconds: number): string {
  return new Date(NOW.getTime() - seconds * 1_000).toISOString();
}

function part(component: string, node: string, more: Partial<Part> = {}): Part {
  return {
    namespace: "kube-system",
    name: `${component}-${node}`,
    component,
    node,
    version: "1.2.0",
    isReady: true,
    reason: "",
    restarts: 0,
    container: component,
    ...more,
  };
}

function workload(name: string, wanted: number, ready = wanted): Workload {
  const kind = name === "coild" ? "DaemonSet" : "Deployment";
  return { kind, namespace: "kube-system", name, wanted, ready };
}

const LEASE: Leadership = {
  namespace: "kube-system",
  name: "coil-ipam-leader",
  holder: "coil-controller-n1",
  renewed: secondsAgo(3),
  seconds: 15,
};

function condition(type: string, status: "True" | "False", reason: string) {
  const message = `why ${type} is so`;
  return { type, status, reason, message, lastTransitionTime: secondsAgo(9) };
}

type Conditions = ReturnType<typeof condition>[];

function pool(name: string, conditions: Conditions): AddressPool {
  return {
    apiVersion: GROUP_VERSION,
    kind: "AddressPool",
    metadata: { name },
    spec: { subnets: [{ ipv4: "10.0.0.0/24" }] },
    status: { conditions },
  };
}

function egress(name: string, conditions: Conditions): Egress {
  return {
    apiVersion: GROUP_VERSION,
    kind: "Egress",
    metadata: { namespace: "internet", name },
    spec: { destinations: ["0.0.0.0/0"] },
    status: { conditions },
  };
}

function vpcNode(conditions?: Conditions): VpcNode {
  const node = newVpcNode({ name: "n1", uid: "u" });
  return conditions === undefined ? node : { ...node, status: { conditions } };
}

function request(
  seconds: number,
  status: NonNullable<BlockRequest["status"]> = {},
): BlockRequest {
  return {
    apiVersion: GROUP_VERSION,
    kind: "BlockRequest",
    metadata: { name: "req-1", creationTimestamp: secondsAgo(seconds) },
    spec: { nodeName: "n1", poolName: "default" },
    status,
  };
}

const WELL: Snapshot = {
  workloads: [workload("coild", 2), workload("coil-controller", 1)],
  parts: [
    part("coild", "n1"),
    part("coild", "n2"),
    part("coil-controller", "n1"),
  ],
  leases: [LEASE],
  pools: [pool("default", [condition("Ready", "True", "BlocksAvailable")])],
  requests: [request(5)],
  egresses: [egress("nat", [condition("Ready", "True", "GatewayAvailable")])],
  nodes: ["n1", "n2"].map((name) => ({ name, networkUnavailable: undefined })),
  unseen: [],
};

/** What is found when this is otherwise. */
function found(otherwise: Partial<Snapshot>): string[] {
  return problemsOf({ ...WELL, ...otherwise }, NOW)
    .map(({ object, message, next }) => `${object}: ${message} > ${next}`);
}

/** The same of another part of coil-controller. */
function leaseOf(half: string, more: Partial<Leadership> = {}): Leadership {
  return { ...LEASE, name: `coil-${half}-leader`, ...more };
}

const CASES: readonly (readonly [string, Partial<Snapshot>, ...string[]])[] = [
  [
    "no pool, where nodes have addresses of their VPC",
    { pools: [], vpcNodes: [vpcNode(), vpcNode([])] },
  ],
  [
    "no pool, in an installation without address management",
    { pools: [], leases: [leaseOf("egress")] },
  ],
  [
    "the controller's halves by upstream's names",
    {
      workloads: ["coild", "coil-ipam-controller", "coil-egress-controller"]
        .map((name) => workload(name, 2)),
      parts: [part("coild", "n1"), part("coild", "n2")],
      leases: [LEASE, leaseOf("egress")],
    },
  ],
  [
    "a part of the controller that was switched off",
    { leases: [LEASE, leaseOf("coordinator", { holder: "" })] },
  ],
  [
    "a leader of ENIs that is gone",
    { leases: [LEASE, leaseOf("vpc-sweep", { renewed: secondsAgo(300) })] },
    'Lease kube-system/coil-vpc-sweep-leader: no coil-controller leads: "coil-controller-n1" last renewed it 5m ago > kubectl -n kube-system logs deploy/coil-controller',
  ],
  [
    "a node whose pods get no addresses of the VPC",
    {
      vpcNodes: [vpcNode([
        condition("Ready", "False", "CallsFail"),
        condition("MissingPermissions", "True", "Unauthorized"),
      ])],
    },
    "VPCNode n1: Ready is False, CallsFail: why Ready is so > kubectl describe vpcnode n1",
  ],
  [
    "a node whose subnet is empty, and that has free addresses",
    {
      vpcNodes: [vpcNode([
        condition("Ready", "True", "AddressesAvailable"),
        condition("SubnetExhausted", "True", "NoAddress"),
        condition("Throttled", "True", "RequestLimitExceeded"),
      ])],
    },
    "VPCNode n1: SubnetExhausted is True, NoAddress: why SubnetExhausted is so > kubectl describe vpcnode n1",
  ],
  ["all is well", {}],
  ["nothing could be read", {
    workloads: undefined,
    parts: undefined,
    leases: undefined,
    pools: undefined,
    requests: undefined,
    egresses: undefined,
    nodes: undefined,
  }],
  [
    "a coild that crashes",
    {
      workloads: [workload("coild", 2, 1), workload("coil-controller", 1)],
      parts: [
        part("coild", "n1"),
        part("coild", "n2", {
          isReady: false,
          reason: "CrashLoopBackOff",
          restarts: 12,
        }),
        part("coil-controller", "n1"),
      ],
    },
    "Pod kube-system/coild-n2: coild on Node n2 is not ready: CrashLoopBackOff, 12 restarts > kubectl -n kube-system logs coild-n2 -c coild --previous",
  ],
  [
    "a controller that finds no node",
    {
      parts: [
        ...WELL.parts ?? [],
        part("coil-controller", "", {
          name: "coil-controller-x",
          isReady: false,
          reason: "Unschedulable",
        }),
      ],
    },
    "Pod kube-system/coil-controller-x: coil-controller is not ready: Unschedulable > kubectl -n kube-system describe pod coil-controller-x",
  ],
  [
    "a DaemonSet that makes no pods",
    { workloads: [workload("coild", 3, 2), workload("coil-controller", 1)] },
    "DaemonSet kube-system/coild: 2 of 3 pods are ready > kubectl -n kube-system describe daemonset coild",
  ],
  [
    "no coild anywhere",
    {
      workloads: [workload("coil-controller", 1)],
      parts: [part("coil-controller", "n1")],
    },
    "coild: no pod, Deployment or DaemonSet of it was found > kubectl get pods -A -l app.kubernetes.io/name=coil",
  ],
  [
    "a node without coild",
    {
      nodes: [...WELL.nodes ?? [], {
        name: "n3",
        networkUnavailable: undefined,
      }],
    },
    "Node n3: no coild runs there: its pods get no network > kubectl describe node n3",
  ],
  [
    "a node whose network is said to be unavailable",
    { nodes: [{ name: "n1", networkUnavailable: "no route" }] },
    "Node n1: its network is unavailable: no route > kubectl describe node n1",
  ],
  [
    "no definitions",
    {
      pools: undefined,
      unseen: [{ what: "addresspools", why: "not served" }],
    },
    "CustomResourceDefinition addresspools.coil.cybozu.com: it does not exist: Coil is not installed > kubectl apply -f crds/",
  ],
  [
    "no pools",
    { pools: [] },
    "AddressPool: there is none: pods get no addresses > kubectl explain addresspool.spec",
  ],
  [
    "a leader that is gone",
    { leases: [{ ...LEASE, renewed: secondsAgo(300) }] },
    'Lease kube-system/coil-ipam-leader: no coil-controller leads: "coil-controller-n1" last renewed it 5m ago > kubectl -n kube-system logs deploy/coil-controller',
  ],
  [
    "a leader whose clock is behind",
    { leases: [{ ...LEASE, renewed: secondsAgo(40) }] },
  ],
  [
    "a leader that has ended",
    { leases: [{ ...LEASE, holder: "" }] },
    "Lease kube-system/coil-ipam-leader: no coil-controller leads: it was given up 3s ago > kubectl -n kube-system logs deploy/coil-controller",
  ],
  [
    "a controller that never led",
    { leases: [] },
    "Lease: no coil-controller has ever led > kubectl -n kube-system logs deploy/coil-controller",
  ],
  [
    "a pool without a block left says so once",
    {
      pools: [pool("default", [
        condition("Ready", "False", "Exhausted"),
        condition("CapacityLow", "True", "FewBlocksFree"),
        condition("Overlapping", "True", "SharedAddresses"),
      ])],
    },
    "AddressPool default: Ready is False, Exhausted: why Ready is so > coil ipam show blocks --pool=default",
    "AddressPool default: Overlapping is True, SharedAddresses: why Overlapping is so > kubectl describe addresspool default",
  ],
  [
    "a pool that is almost used up",
    {
      pools: [
        pool("default", [condition("CapacityLow", "True", "FewBlocksFree")]),
      ],
    },
    "AddressPool default: CapacityLow is True, FewBlocksFree: why CapacityLow is so > coil ipam show blocks --pool=default",
  ],
  [
    "an Egress without a status",
    { egresses: [egress("nat", [])] },
    "Egress internet/nat: coil-controller has not looked at it > kubectl -n internet describe egress nat",
  ],
  [
    "an Egress with a gateway that nodes have lost",
    {
      egresses: [egress("nat", [
        condition("Ready", "True", "GatewayAvailable"),
        condition("GatewaysLost", "True", "NoAnswer"),
      ])],
    },
    "Egress internet/nat: GatewaysLost is True, NoAnswer: why GatewaysLost is so > kubectl -n internet describe egress nat",
  ],
  [
    "an Egress with a gateway whose node masquerades",
    {
      egresses: [egress("nat", [
        condition("Ready", "True", "GatewayAvailable"),
        condition("SourcesTranslated", "True", "NodeMasquerades"),
      ])],
    },
    "Egress internet/nat: SourcesTranslated is True, NodeMasquerades: why SourcesTranslated is so > coil egress show sources internet/nat",
  ],
  [
    "an Egress with too few gateways and a greedy client",
    {
      egresses: [egress("nat", [
        condition("Ready", "True", "GatewayAvailable"),
        condition("Degraded", "True", "PodsUnavailable"),
        condition("ClientsLimited", "True", "MaxFlowsPerClient"),
      ])],
    },
    "Egress internet/nat: Degraded is True, PodsUnavailable: why Degraded is so > kubectl -n internet describe egress nat",
    "Egress internet/nat: ClientsLimited is True, MaxFlowsPerClient: why ClientsLimited is so > kubectl -n internet describe egress nat",
  ],
  [
    "a request without an answer",
    { requests: [request(90)] },
    "BlockRequest req-1: Node n1 asks for a block of AddressPool default, without an answer for 90s > kubectl -n kube-system logs deploy/coil-controller",
  ],
  [
    "a request that was refused",
    {
      requests: [request(1, {
        conditions: [{
          type: "Failed",
          status: "True",
          reason: "out of blocks",
          message: "it has no free block",
        }],
      })],
    },
    "BlockRequest req-1: Node n1 asks for a block of AddressPool default: it has no free block > coil ipam show blocks --pool=default",
  ],
];

for (const [name, otherwise, ...problems] of CASES) {
  Deno.test(`coil status finds: ${name}`, () => {
    assert.deepEqual(found(otherwise), problems);
  });
}

Deno.test("coil status shows ten problems of a kind, and counts all", () => {
  const names = Array.from({ length: 12 }, (_, i) => `p${i + 10}`);
  const pools = names.map((name) =>
    pool(name, [condition("Ready", "False", "Exhausted")])
  );
  const snapshot = { ...WELL, pools };
  const report = reportOf(snapshot, problemsOf(snapshot, NOW));
  const text = formatReport(report, NOW);
  assert.match(text, /^12 problems:$/m);
  assert.match(text, /^ {2}AddressPool p19: /m);
  assert.doesNotMatch(text, /p20/);
  assert.match(text, /^ {2}… and 2 more of kind AddressPool: -o json$/m);
});

Deno.test("coil status shows which versions run while they differ", () => {
  const parts = [
    part("coild", "n1"),
    part("coild", "n2", { version: "1.3.0" }),
    part("coil-controller", "n1"),
  ];
  const text = formatReport(reportOf({ ...WELL, parts }, []), NOW);
  assert.match(
    text,
    /^kube-system\/coild +2\/2 +1\.2\.0 \(1\), 1\.3\.0 \(1\)$/m,
  );
  assert.match(text, /^kube-system\/coil-controller +1\/1 +1\.2\.0$/m);
  assert.match(text, /^AddressPools: 1, Egresses: 1, Nodes: 2$/m);
  assert.match(text, /\nNo problems found\n$/);
});

Deno.test("coil status shows no section that it has nothing for", () => {
  const pods = { what: "pods", why: "forbidden" } as const;
  assert.equal(
    formatReport(reportOf({ unseen: [pods] }, []), NOW),
    "Not looked at: pods (forbidden)\n\nNo problems found in the rest\n",
  );
});
