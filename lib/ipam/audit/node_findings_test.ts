import assert from "node:assert/strict";
import type {
  KernelEntry,
  NodeAddresses,
  TableEntry,
} from "../../cnirpc/inspection/mod.ts";
import { lastingFindings } from "./look_twice.ts";
import { nodeFindings } from "./node_findings.ts";

function kernel(
  containerId: string,
  addresses: readonly string[],
): KernelEntry {
  return { containerId, ifname: "eth0", state: "up", addresses };
}

function table(
  containerId: string,
  addresses: readonly string[],
  more: Partial<TableEntry> = {},
): TableEntry {
  return {
    containerId,
    ifname: "eth0",
    pool: "default",
    state: "used",
    ageSeconds: 600,
    isBusy: false,
    generation: 1,
    addresses,
    ...more,
  };
}

function pod(
  name: string,
  addresses: readonly string[],
  isEnding: boolean = false,
) {
  return { namespace: "apps", name, addresses, isEnding };
}

const DUAL = ["10.2.0.9", "fd02::9"];
const WELL: NodeAddresses = {
  node: "n1",
  kernel: [kernel("c1", DUAL)],
  table: [table("c1", DUAL)],
  pods: [pod("web", DUAL)],
  blocks: { "default-0": ["10.2.0.0/27", "fd02::/123"] },
};

function codes(answer: NodeAddresses): string[] {
  const found = nodeFindings(answer, { minAgeSeconds: 300 });
  return found.map(({ code, object }) => `${code} ${object}`);
}

const ON = "10.2.0.9 on Node n1";

for (
  const [title, changes, expected] of [
    ["all is well", {}, []],
    [
      "no pod still has the address",
      { pods: [] },
      [`address-leaked Address ${ON}`],
    ],
    [
      "a pod has one of the two addresses",
      { pods: [pod("web", ["fd02::9"])] },
      [],
    ],
    ["a pod that ends has it", { pods: [pod("web", DUAL, true)] }, []],
    ["pods are not known", { pods: undefined }, []],
    [
      "the address is young",
      { pods: [], table: [table("c1", DUAL, { ageSeconds: 299 })] },
      [],
    ],
    [
      "a call is under way",
      { pods: [], table: [table("c1", DUAL, { isBusy: true })] },
      [],
    ],
    [
      "the kernel has lost the interface",
      { kernel: [], pods: [] },
      [`address-without-interface Address ${ON}`],
    ],
    [
      "the kernel has lost the interface of a pod that is there",
      { kernel: [] },
      [`pod-without-interface Address ${ON}`],
    ],
    [
      "the release of such a pod's interface has not ended",
      { kernel: [], table: [table("c1", DUAL, { state: "releasing" })] },
      [
        `release-stuck Address ${ON}`,
        `pod-without-interface Address ${ON}`,
      ],
    ],
    [
      "a pod and another container have lost their interfaces",
      { kernel: [], table: [table("c1", ["10.2.0.8"])] },
      [
        "address-without-interface Address 10.2.0.8 on Node n1",
        `pod-without-interface Address ${ON}`,
      ],
    ],
    [
      "a pod's former interface is lost, and another one has the address",
      { kernel: [kernel("c2", DUAL)], table: [table("c1", DUAL)] },
      [
        `interface-not-recorded Address ${ON}`,
        `address-without-interface Address ${ON}`,
      ],
    ],
    [
      "a pod that ends has lost its interface",
      { kernel: [], table: [], pods: [pod("web", DUAL, true)] },
      [],
    ],
    [
      "a pod is another plugin's",
      { pods: [pod("web", DUAL), pod("other", ["192.0.2.1"])] },
      [],
    ],
    [
      "coild does not know an interface",
      { table: [] },
      [`interface-not-recorded Address ${ON}`],
    ],
    [
      "an interface has no address yet",
      { kernel: [kernel("c1", DUAL), kernel("c2", [])] },
      [],
    ],
    [
      "two interfaces have an address",
      {
        kernel: [kernel("c1", DUAL), kernel("c2", ["10.2.0.9"])],
        table: [table("c1", DUAL), table("c2", ["10.2.0.9"])],
      },
      [`address-on-two-interfaces Address ${ON}`],
    ],
    [
      "a release has not ended",
      { table: [table("c1", DUAL, { state: "releasing" })] },
      [`release-stuck Address ${ON}`],
    ],
    [
      "no block covers a pod's address",
      { table: [table("c1", DUAL, { state: "quarantined" })] },
      [`address-quarantined Address ${ON}`],
    ],
  ] as const satisfies readonly [
    string,
    Partial<NodeAddresses> | { readonly pods: undefined },
    readonly string[],
  ][]
) {
  Deno.test(`nodeFindings() where ${title}`, () => {
    const { pods, ...rest } = { ...WELL, ...changes };
    const answer = pods === undefined ? rest : { ...rest, pods };
    assert.deepEqual(codes(answer), [...expected]);
  });
}

Deno.test("an address that another container has at the second look is no lasting finding", () => {
  const leaked = (containerId: string) =>
    nodeFindings({
      ...WELL,
      kernel: [kernel(containerId, DUAL)],
      table: [table(containerId, DUAL)],
      pods: [],
    }, { minAgeSeconds: 300 });
  const count = (before: string, after: string) =>
    lastingFindings(leaked(before), leaked(after)).length;
  assert.deepEqual([count("c1", "c1"), count("c1", "c2")], [1, 0]);
});
