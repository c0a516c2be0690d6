import { Address } from "../../../lib/inet/mod.ts";
import type { AddressFacts, NodeFacts } from "../../../lib/connectivity/mod.ts";
import type { Evidence } from "./evidence.ts";
import {
  planProbes,
  type PodKind,
  type Probe,
  type Targets,
  type TestPod,
} from "./plan.ts";
import type { Result, Trouble } from "./results.ts";

/** A pod of node N with the addresses 10.0.N.2 and fd00::N:2. */
export function podOf(
  n: number,
  { kind = "probe", families = ["10.0.", "fd00::"] }: {
    readonly kind?: PodKind;
    readonly families?: readonly string[];
  } = {},
): TestPod {
  const host = { "probe": 2, "host-port": 3, "egress": 4 }[kind];
  return {
    name: `${kind}-${n - 1}`,
    kind,
    node: `node${n}`,
    addresses: families.map((start) =>
      Address.parse(`${start}${n}${start.includes(":") ? ":" : "."}${host}`)
    ),
  };
}

/** A cluster of both families. */
export const TARGETS: Targets = {
  service: [Address.parse("10.96.0.7"), Address.parse("fd96::7")],
  apiServer: { addresses: [Address.parse("10.96.0.1")], port: 443 },
  hostPort: {
    addresses: [Address.parse("192.168.0.1"), Address.parse("fd01::1")],
    port: 9399,
  },
  egress: undefined,
};

/** What came of all probes of two nodes with a pod each: those that the function knows have failed. */
export function resultsOf(
  trouble: (probe: Probe) => Trouble | undefined,
): Result[] {
  return planProbes([podOf(1), podOf(2)], TARGETS)
    .map((probe) => ({ probe, trouble: trouble(probe) }));
}

/** No packet came back. */
export const SILENCE: Trouble = { why: "no answer", detail: "" };

/** What both nodes know of both pods when all is well, with changes by node and address. */
export function evidenceOf(
  changes: Readonly<Record<string, Partial<AddressFacts>>> = {},
  { forwards = ["ipv4", "ipv6"], reached }: {
    readonly forwards?: readonly string[];
    readonly reached?: (node: string, address: string) => boolean | undefined;
  } = {},
): Evidence {
  const facts = new Map([1, 2].map((node): [string, NodeFacts] => {
    const entries = [1, 2].flatMap((n) =>
      podOf(n).addresses.map((address): [string, AddressFacts] => {
        const isOwn = n === node;
        return [`${address}`, {
          podLink: isOwn ? "veth1" : undefined,
          way: {
            link: isOwn ? "veth1" : "eth0",
            mtu: 1500,
            isDefault: false,
          },
          ...changes[`node${node} ${address}`],
        }];
      })
    );
    return [`node${node}`, {
      forwards,
      addresses: Object.fromEntries(entries),
    }];
  }));
  return { facts, reaches: reached ?? (() => undefined) };
}
