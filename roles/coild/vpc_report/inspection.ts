import { timeText } from "../../../lib/api/mod.ts";
import type { Address } from "../../../lib/inet/mod.ts";
import { valuesOf } from "../../../lib/inet/mod.ts";
import type {
  AllocationRecord,
  BlockRecord,
  RestingAddress,
} from "../../../lib/ipam/mod.ts";
import type { NamespacedName } from "../../../lib/names/mod.ts";
import { grantEni } from "../../../lib/vpc/mod.ts";
import type { FleetView } from "../vpc/fleet_view.ts";

/** Facts for programs on the node. */
export interface InspectionFacts {
  /** Undefined until it is known which instance this is. */
  readonly view: FleetView | undefined;
  readonly records: readonly BlockRecord[];
  readonly allocations: readonly AllocationRecord[];
  readonly resting: readonly RestingAddress[];
  /** The pod that has the address, where the API server shows it. */
  readonly podOf: (address: Address) => NamespacedName | undefined;
  readonly now: Date;
}

/** An address of a block that a pod has, or had a moment ago. */
export interface InspectedAddress {
  readonly address: Address;
  /** Since when it is as it is; after a restart of coild, since the restart at the earliest. */
  readonly since: Date;
  readonly isCooling: boolean;
  /** The pod, where it is known. */
  readonly pod: NamespacedName | undefined;
  /** The ENI; empty when the address is of no block. */
  readonly eni: string;
}

/** Addresses that pods have, and those that rest; sorted. */
export function inspectedAddresses(
  { records, allocations, resting, podOf, now }: InspectionFacts,
): InspectedAddress[] {
  const eniOf = (address: Address) => {
    const record = records.find(({ prefixes }) =>
      valuesOf(prefixes).some((prefix) => prefix.contains(address))
    );
    return record === undefined ? "" : grantEni(record.name);
  };
  const ago = (ms: number) => new Date(now.getTime() - ms);
  const used = allocations.flatMap(({ addresses, ageMs }) =>
    valuesOf(addresses).map((address) => ({
      address,
      since: ago(ageMs),
      isCooling: false,
      pod: podOf(address),
      eni: eniOf(address),
    }))
  );
  const taken = new Set(used.map(({ address }) => String(address)));
  const cooling = resting
    .map(({ address, restedMs }) => ({
      address,
      since: ago(restedMs),
      isCooling: true,
      pod: undefined,
      eni: eniOf(address),
    }))
    .filter(({ address }) => !taken.has(String(address)));
  return [...used, ...cooling].sort((a, b) => a.address.compare(b.address));
}

/** Answer of `/ip-manager`. */
export interface IpManagerAnswer {
  /** Addresses that pods have. */
  readonly allocated: number;
  /** Addresses available now. */
  readonly available: number;
  /** Addresses that rest. */
  readonly cooling: number;
  /** All addresses of the node's ENIs for pods. */
  readonly total: number;
  /** Those that pods have. */
  readonly ips: readonly {
    readonly ip: string;
    readonly pod: string;
    readonly namespace: string;
    readonly eni: string;
    readonly since: string;
  }[];
}

/** Sums up the node's addresses. */
export function ipManagerAnswer(facts: InspectionFacts): IpManagerAnswer {
  const { records } = facts;
  const hasIpv4 = records.some(({ prefixes }) => prefixes.ipv4 !== undefined);
  const sum = (count: (record: BlockRecord) => number) =>
    records.reduce((total, record) => total + count(record), 0);
  return {
    allocated: sum(({ held }) => held),
    available: sum(({ free }) => free),
    cooling: sum(({ cooling }) => cooling),
    total: sum(({ size }) => size),
    ips: inspectedAddresses(facts)
      // Of two families IPv4 stands for both.
      .filter(({ address, isCooling }) =>
        !isCooling && (address.family === "ipv4" || !hasIpv4)
      )
      .map(({ address, pod, eni, since }) => ({
        ip: String(address),
        pod: pod?.name ?? "",
        namespace: pod?.namespace ?? "",
        eni,
        since: timeText(since),
      })),
  };
}
