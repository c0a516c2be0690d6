import { nodeFindings } from "../../../lib/ipam/audit/mod.ts";
import assert from "node:assert/strict";
import type {
  NodeAddresses,
  ReleaseRequest,
  ReleaseResult,
  TableEntry,
} from "../../../lib/cnirpc/inspection/mod.ts";
import { formatRepairs } from "./repair.ts";
import { repairNode } from "./repair_node.ts";

function entryOf(n: number, more: Partial<TableEntry> = {}): TableEntry {
  return {
    containerId: `c${n}`,
    ifname: "eth0",
    pool: "default",
    state: "used",
    ageSeconds: 600,
    isBusy: false,
    generation: n,
    addresses: [`10.2.0.${n}`],
    ...more,
  };
}

/** Three containers without interface, and one with it, of none of which is a pod. */
const ANSWER: NodeAddresses = {
  node: "n1",
  table: [entryOf(1), entryOf(2), entryOf(3), entryOf(4)],
  kernel: [{
    containerId: "c4",
    ifname: "eth0",
    state: "up",
    addresses: ["10.2.0.4"],
  }],
  pods: [],
  blocks: { "default-0": ["10.2.0.0/27"] },
};

const FINDINGS = nodeFindings(ANSWER, { minAgeSeconds: 300 });

/** What coild answers of container N. */
const OUTCOMES: Readonly<
  Record<number, Pick<ReleaseResult, "outcome" | "why">>
> = {
  1: { outcome: "freed", why: "" },
  2: { outcome: "kept", why: "its interface is there" },
  3: { outcome: "gone", why: "" },
};

Deno.test("repairNode() asks for what lost its interface, as it was seen, and keeps the rest", async () => {
  const asked: ReleaseRequest[] = [];
  const { repairs, problems } = await repairNode(FINDINGS, {
    answer: ANSWER,
    dryRun: true,
    release: (request) => {
      asked.push(request);
      return Promise.resolve(request.entries.map((entry) => ({
        ...entry,
        addresses: [`10.2.0.${entry.generation}`],
        ...OUTCOMES[entry.generation] ?? { outcome: "kept", why: "asked" },
      })));
    },
  });
  const entries = [1, 2, 3].map((n) => ({
    containerId: `c${n}`,
    ifname: "eth0",
    generation: n,
  }));
  assert.deepEqual(asked, [{ entries, dryRun: true }]);
  assert.equal(
    formatRepairs(repairs),
    `1 repair:
  Address 10.2.0.1 on Node n1: freed 10.2.0.1 of container c1:eth0: no interface, network namespace or pod of the node has them

`,
  );
  assert.deepEqual(problems.map(({ message, next }) => [message, next]), [
    [
      "coild keeps it for container c2:eth0, which has no interface; coild frees such addresses; not repaired: its interface is there",
      "coil explain 10.2.0.2",
    ],
    [
      "container c4:eth0 has had it for 10m, but no pod of the node has it; not repaired: its interface is there, so a sandbox may use it; remove the sandbox on the node, if the runtime still has it",
      "crictl stopp c4 && crictl rmp c4",
    ],
  ]);
});

Deno.test("repairNode() asks coild nothing where nothing can be freed", async () => {
  const rest = FINDINGS.filter(({ code }) => code === "address-leaked");
  const { repairs, problems } = await repairNode(rest, {
    answer: ANSWER,
    dryRun: false,
    release: () => Promise.reject(new Error("asked")),
  });
  assert.deepEqual([repairs.length, problems.length], [0, 1]);
});
