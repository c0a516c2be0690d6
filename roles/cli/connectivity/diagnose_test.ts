import assert from "node:assert/strict";
import * as fc from "fast-check";
import type { Evidence } from "./evidence.ts";
import type { Probe } from "./plan.ts";
import { findingsOf } from "./report.ts";
import { failuresOf, type Trouble } from "./results.ts";
import { evidenceOf, podOf, resultsOf, SILENCE, TARGETS } from "./testing.ts";
import { planProbes } from "./plan.ts";

const COILD = { namespace: "kube-system", container: "coild" };
const STEPS = {
  coilds: new Map(["node1", "node2"].map((node) => [
    node,
    { ...COILD, name: `coild-${node}` },
  ])),
  routers: new Map([["node1", {
    namespace: "kube-system",
    name: "coil-router-node1",
    container: "coil-router",
  }]]),
  egress: "nat/out",
};

function found(
  trouble: (probe: Probe) => Trouble | undefined,
  evidence: Evidence,
) {
  const results = resultsOf(trouble);
  return findingsOf({ results, evidence }, STEPS)
    .map(({ cause, object, message, next }) => ({
      cause,
      object,
      message,
      next,
    }));
}

/** Of all that goes from node1 to node2, or back. */
function between({ from, to }: Probe): boolean {
  return to !== undefined && from !== to;
}

function from1(probe: Probe): boolean {
  return between(probe) && probe.from.node === "node1";
}

interface Case {
  readonly fails: (probe: Probe) => boolean;
  readonly trouble?: Trouble;
  readonly evidence: Evidence;
  readonly findings: readonly (readonly [string, string, RegExp, string])[];
}

const COILD2 = "kubectl -n kube-system logs coild-node2 -c coild";

const CASES: Readonly<Record<string, Case>> = {
  "the rule is missing on one node": {
    fails: (probe) => between(probe) && probe.family === "ipv4",
    evidence: evidenceOf({
      "node2 10.0.2.2": { way: { link: "eth0", mtu: 1500, isDefault: true } },
    }),
    findings: [[
      "rule",
      "Node node2",
      /^rule: packets to its pods do not take their IPv4 routes: the rule that looks up table 116 is missing.* \(4 probes, first Node node1 to 10\.0\.2\.2:8080 \(Node node2\) by TCP, no answer\)$/,
      COILD2,
    ]],
  },
  "answers of the API server are lost with all others": {
    fails: (probe) =>
      probe.family === "ipv4" &&
      (between(probe) || probe.from.node === "node2"),
    evidence: evidenceOf({
      "node2 10.0.2.2": { way: { link: "eth0", mtu: 1500, isDefault: true } },
    }),
    findings: [["rule", "Node node2", /\(4 probes/, COILD2]],
  },
  "the API server is not reached from the other node": {
    fails: (probe) =>
      probe.family === "ipv4" &&
      (between(probe) || probe.from.node === "node1"),
    evidence: evidenceOf({
      "node2 10.0.2.2": { way: { link: "eth0", mtu: 1500, isDefault: true } },
    }),
    findings: [
      [
        "proxy",
        "Node node1",
        /the API server at 10\.96\.0\.1/,
        "kubectl -n default get endpointslices -l kubernetes.io/service-name=kubernetes",
      ],
      ["rule", "Node node2", /\(4 probes/, COILD2],
    ],
  },
  "the route of a pod is missing": {
    fails: (probe) => between(probe) && probe.family === "ipv6",
    evidence: evidenceOf({ "node2 fd00::2:2": { podLink: undefined } }),
    findings: [[
      "route",
      "Node node2",
      /its pod has no IPv6 route: table 116/,
      COILD2,
    ]],
  },
  "nodes do not forward": {
    fails: (probe) => between(probe) && probe.family === "ipv4",
    evidence: evidenceOf({}, { forwards: ["ipv6"] }),
    findings: ["node1", "node2"].map((node) =>
      [
        "rule",
        `Node ${node}`,
        /does not forward IPv4/,
        `kubectl debug node/${node} -it --image=busybox -- sysctl net.ipv4.ip_forward net.ipv6.conf.all.forwarding`,
      ] as const
    ),
  },
  "a node has no route to the other's pods": {
    fails: (probe) => between(probe) && probe.family === "ipv4",
    evidence: evidenceOf({ "node1 10.0.2.2": { way: undefined } }),
    findings: [[
      "route",
      "Node node1",
      /there is no IPv4 route to the pods of Node node2 \(4 probes/,
      "kubectl -n kube-system logs coil-router-node1 -c coil-router",
    ]],
  },
  "packets go to a gateway that does not know the pods": {
    fails: (probe) => from1(probe) && probe.family === "ipv4",
    evidence: evidenceOf(
      {
        "node1 10.0.2.2": {
          way: {
            link: "eth0",
            mtu: 1500,
            gateway: "192.168.0.254",
            isDefault: true,
          },
        },
      },
      { reached: (node) => node === "node2" },
    ),
    findings: [[
      "route",
      "Node node1",
      /no IPv4 route to the pods of Node node2: packets go to the default gateway/,
      "kubectl -n kube-system logs coil-router-node1 -c coil-router",
    ]],
  },
  "packets get lost between nodes that have routes": {
    fails: (probe) => between(probe) && probe.from.node === "node2",
    evidence: evidenceOf({}, { reached: (node) => node === "node1" }),
    findings: [
      [
        "policy",
        "Node node2",
        /Node node1 reaches its pod by IPv4, this one does not: a packet filter or a router/,
        "coil ipam show blocks",
      ],
      ["policy", "Node node2", /by IPv6/, "coil ipam show blocks"],
    ],
  },
  "pods alone do not reach each other": {
    fails: (probe) => from1(probe) && probe.family === "ipv4",
    evidence: evidenceOf({}, { reached: () => true }),
    findings: [[
      "policy",
      "Node node1",
      /both nodes reach the pod of Node node2 by IPv4, pods do not: a network policy/,
      "kubectl get networkpolicies -A",
    ]],
  },
  "a node does not reach its own pod": {
    fails: (probe) => from1(probe) && probe.family === "ipv4",
    evidence: evidenceOf({}, { reached: () => false }),
    findings: [[
      "policy",
      "Node node2",
      /does not reach its own pod by IPv4, although/,
      COILD2,
    ]],
  },
  "UDP is filtered": {
    fails: (probe) => from1(probe) && probe.question.kind === "udp",
    evidence: evidenceOf({}, { reached: () => true }),
    findings: [
      [
        "policy",
        "Node node2",
        /TCP passes and UDP does not \(IPv4\)/,
        "kubectl get networkpolicies -A",
      ],
      [
        "policy",
        "Node node2",
        /TCP passes and UDP does not \(IPv6\)/,
        "kubectl get networkpolicies -A",
      ],
    ],
  },
  "a link is too small": {
    fails: (probe) => probe.check === "large" && probe.family === "ipv4",
    trouble: { why: "too large", detail: "", size: 1500 },
    evidence: evidenceOf({
      "node2 10.0.1.2": { way: { link: "eth0", mtu: 1400, isDefault: false } },
    }),
    findings: [
      [
        "mtu",
        "Node node2",
        /link "eth0" towards Node node1 has MTU 1400: IPv4 packets of 1500 bytes do not fit, and pods of Node node1 send them/,
        "kubectl -n kube-system exec coild-node2 -c coild -- coil sysdump --local",
      ],
      [
        "mtu",
        "Node node2",
        /and pods of Node node2 send them/,
        "kubectl -n kube-system exec coild-node2 -c coild -- coil sysdump --local",
      ],
    ],
  },
  "a network between the nodes is too small": {
    fails: (probe) =>
      probe.check === "large" && probe.question.kind === "tcp" &&
      probe.family === "ipv4" && from1(probe),
    evidence: evidenceOf(),
    findings: [[
      "mtu",
      "Node node1",
      /large IPv4 packets do not reach Node node2, small ones do: .* lost without a word/,
      "kubectl -n kube-system exec coild-node1 -c coild -- coil sysdump --local",
    ]],
  },
  "sources are translated": {
    fails: (probe) =>
      probe.check === "pod" && from1(probe) && probe.family === "ipv4",
    trouble: { why: "other source", seen: "192.168.0.1" },
    evidence: evidenceOf(),
    findings: [[
      "translation",
      "Node node1",
      /the source of IPv4 packets to pods is translated.*seen as 192\.168\.0\.1/,
      "kubectl get networkpolicies -A",
    ]],
  },
  "an address is given twice": {
    fails: (probe) =>
      probe.check === "pod" && from1(probe) && probe.family === "ipv4",
    trouble: { why: "other server", seen: "web-1" },
    evidence: evidenceOf(),
    findings: [[
      "address",
      "Node node2",
      /another server answers at the IPv4 address of its pod.*"web-1" answered/,
      "coil ipam check --nodes",
    ]],
  },
  "Services alone fail": {
    fails: (probe) => probe.check === "service" && probe.from.node === "node1",
    trouble: { why: "refused", detail: "" },
    evidence: evidenceOf(),
    findings: [
      [
        "proxy",
        "Node node1",
        /not by the IPv4 address of a Service \(refused\): check the node's Service proxy/,
        "kubectl -n kube-system get pods -o wide --field-selector=spec.nodeName=node1",
      ],
      [
        "proxy",
        "Node node1",
        /not by the IPv6 address of a Service/,
        "kubectl -n kube-system get pods -o wide --field-selector=spec.nodeName=node1",
      ],
    ],
  },
  "the API server alone is not reached": {
    fails: (probe) => probe.check === "api-server",
    evidence: evidenceOf(),
    findings: ["node1", "node2"].map((node) =>
      [
        "proxy",
        `Node ${node}`,
        /API server at 10\.96\.0\.1 \(no answer\)/,
        "kubectl -n default get endpointslices -l kubernetes.io/service-name=kubernetes",
      ] as const
    ),
  },
  "all fails, and no node could be asked": {
    fails: (probe) => probe.family === "ipv4" && probe.check !== "api-server",
    evidence: { facts: new Map(), reaches: () => undefined },
    findings: ["node1", "node2"].map((node) =>
      [
        "unknown",
        `Node ${node}`,
        /could not be asked for the reason/,
        `kubectl -n kube-system logs coild-${node} -c coild`,
      ] as const
    ),
  },
};

for (
  const [name, { fails, trouble = SILENCE, evidence, findings }] of Object
    .entries(CASES)
) {
  Deno.test(`diagnosis: ${name}`, () => {
    const all = found((probe) => fails(probe) ? trouble : undefined, evidence);
    assert.deepEqual(
      all.map(({ cause, object, next }) => [cause, object, next]),
      findings.map(([cause, object, , next]) => [cause, object, next]),
    );
    findings.forEach(([, , message], i) =>
      assert.match(all[i]?.message ?? "", message)
    );
  });
}

Deno.test("diagnosis: the target of an Egress sees another address, or is not reached", () => {
  const egress = {
    url: "http://203.0.113.7/",
    sources: ["10.0.9.9", "fd00::99"],
  };
  const pods = [podOf(1, { kind: "egress" }), podOf(2, { kind: "egress" })];
  const [first, second] = planProbes(pods, { ...TARGETS, egress });
  assert.ok(first !== undefined && second !== undefined);
  const results = [
    {
      probe: first,
      trouble: { why: "other source", seen: "192.168.0.1" } as const,
    },
    { probe: second, trouble: SILENCE },
  ];
  const findings = findingsOf({ results, evidence: evidenceOf() }, STEPS);
  assert.match(
    findings[0]?.message ?? "",
    /sees 192\.168\.0\.1, which is not a gateway's address \(10\.0\.9\.9, fd00::99\)/,
  );
  assert.match(
    findings[1]?.message ?? "",
    /clients of the Egress do not reach http:\/\/203\.0\.113\.7\/: no answer/,
  );
  assert.deepEqual(
    findings.map(({ next }) => next),
    Array(2).fill("coil egress show gateways nat/out"),
  );
});

Deno.test("diagnosis: each failure has a finding, and there is none without", () => {
  const count = resultsOf(() => undefined).length;
  fc.assert(fc.property(
    fc.array(fc.constantFrom(undefined, SILENCE), {
      minLength: count,
      maxLength: count,
    }),
    fc.boolean(),
    (troubles, isKnown) => {
      let i = 0;
      const results = resultsOf(() => troubles[i++]);
      const evidence = isKnown
        ? evidenceOf()
        : { facts: new Map(), reaches: () => undefined };
      const findings = findingsOf({ results, evidence }, STEPS);
      assert.equal(findings.length > 0, failuresOf(results).length > 0);
    },
  ));
});
