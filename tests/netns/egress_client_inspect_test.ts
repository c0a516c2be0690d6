// What CHECK says of a client that a program in the pod has damaged, and that it
// is mended. What needs tunnels is in tests/vm.
import assert from "node:assert/strict";
import { inspectClient } from "../../lib/egress/mod.ts";
import {
  clientState,
  missingGateway,
  planOf,
  podLab,
} from "./egress_client_lab.ts";
import { netnsTest } from "./testing.ts";

const EGRESS = missingGateway(["0.0.0.0/0", "10.5.0.0/16", "::/0"]);
const PLAN = planOf([EGRESS]);

const DAMAGES: readonly (readonly [string, readonly string[]])[] = [
  ["ip rule del priority 1900", [
    'ip rule "1900: from all lookup 117" is missing',
  ]],
  ["ip -6 rule del priority 2000", [
    'ip -6 rule "2000: from all to fc00::/7 lookup main" is missing',
  ]],
  ["ip route del unreachable 10.5.0.0/16 table 117 metric 4096", [
    'ip route "unreachable 10.5.0.0/16 table 117 metric 4096" is missing',
  ]],
  ["ip -6 route flush table 118", [
    'ip -6 route "unreachable default table 118 metric 4096" is missing',
  ]],
  ["ip route add blackhole 192.0.2.0/24 table 118", [
    'ip route "blackhole 192.0.2.0/24 table 118" is unexpected',
  ]],
  [
    "ip rule add priority 1900 lookup 117 2>/dev/null || true; nft add table inet coil",
    [
      'nft table "inet coil" is unexpected',
    ],
  ],
  ["ip rule flush; ip rule add priority 32766 lookup main", [
    'ip rule "1800: from all to 169.254.0.0/16 lookup main" is missing',
    'ip rule "1900: from all lookup 117" is missing',
    'ip rule "2000: from all to 10.0.0.0/8 lookup main" is missing',
    'ip rule "2001: from all to 172.16.0.0/12 lookup main" is missing',
    'ip rule "2002: from all to 192.168.0.0/16 lookup main" is missing',
    'ip rule "2100: from all lookup 118" is missing',
  ]],
];
for (const [command, problems] of DAMAGES) {
  netnsTest(
    `inspectClient() after "${command}" says what is wrong, and applyClient() mends it`,
    async () => {
      await using lab = await podLab();
      const { netns, pod } = lab;
      await lab.apply([EGRESS]);
      assert.deepEqual(await inspectClient(PLAN, { netns }), []);
      const state = await clientState(pod);
      await pod.exec("sh", "-euc", command);
      assert.deepEqual(await inspectClient(PLAN, { netns }), problems);
      await lab.apply([EGRESS]);
      assert.deepEqual(await inspectClient(PLAN, { netns }), []);
      assert.equal(await clientState(pod), state);
    },
  );
}

netnsTest(
  "inspectClient() of a pod that is no client names all of it",
  async () => {
    await using lab = await podLab();
    const problems = await inspectClient(PLAN, { netns: lab.netns });
    assert.equal(problems.length, PLAN.rules.length + PLAN.routes.length);
    assert.ok(problems.every((problem) => problem.endsWith(" is missing")));
  },
);
