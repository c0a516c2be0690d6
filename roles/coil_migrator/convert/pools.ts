import { type AddressPool, type Pool, poolOf } from "../../../lib/api/mod.ts";
import type { Prefix } from "../../../lib/inet/mod.ts";
import { GROUP_VERSION } from "../../../lib/names/mod.ts";
import type { Finding } from "./finding.ts";
import type { V1Pool } from "../v1/state.ts";

/** `maxItems` of an AddressPool's subnets, in crds/. */
const MAX_SUBNETS = 64;
/** A pool's name is the value of a label, too; the API server wants a DNS subdomain. */
const POOL_NAME =
  /^(?=.{1,63}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/;

/** A pool as it will be, and the same as an object. */
export interface ConvertedPool {
  readonly pool: Pool;
  readonly object: AddressPool;
}

/** Converts pools; those that the API server would refuse are left out. */
export function convertPools(
  pools: readonly V1Pool[],
): { pools: ConvertedPool[]; findings: Finding[] } {
  const converted: ConvertedPool[] = [];
  const findings: Finding[] = [];
  for (const v1 of pools) {
    const subnets = usableSubnets(v1, findings);
    const refusal = refusalOf(v1, subnets);
    if (refusal === undefined) converted.push(toPool(v1, subnets));
    else findings.push({ severity: "loss", ...refusal, subject: poolText(v1) });
  }
  findings.push(...overlapsBetween(converted));
  return { pools: converted, findings };
}

function toPool(v1: V1Pool, subnets: readonly Prefix[]): ConvertedPool {
  const object: AddressPool = {
    apiVersion: GROUP_VERSION,
    kind: "AddressPool",
    metadata: { name: v1.name },
    spec: {
      blockSizeBits: v1.blockSizeBits,
      subnets: subnets.map((subnet) => ({ ipv4: subnet.toString() })),
    },
  };
  return { pool: poolOf(object), object };
}

function refusalOf(
  { name }: V1Pool,
  subnets: readonly Prefix[],
): Pick<Finding, "kind" | "message"> | undefined {
  if (!POOL_NAME.test(name)) {
    return {
      kind: "pool-name",
      message:
        "the name is not valid for an AddressPool, so the pool is not migrated; create one with another name",
    };
  }
  if (subnets.length === 0) {
    return {
      kind: "pool-empty",
      message: "it has no valid subnet, so it is not migrated",
    };
  }
  if (subnets.length > MAX_SUBNETS) {
    return {
      kind: "pool-too-many-subnets",
      message:
        `an AddressPool can have ${MAX_SUBNETS} subnets, this has ${subnets.length}, so it is not migrated; merge its subnets in v1 first`,
    };
  }
  return undefined;
}

/** Without subnets that lie in others of the pool, or are smaller than a block: v2 has neither. */
function usableSubnets(v1: V1Pool, findings: Finding[]): Prefix[] {
  return v1.subnets.filter((subnet, position) => {
    const outer = v1.subnets.find((other, otherPosition) =>
      other.contains(subnet) &&
      (other.length < subnet.length || otherPosition < position)
    );
    if (outer !== undefined) {
      findings.push({
        kind: "subnet-overlap",
        severity: "warning",
        subject: poolText(v1),
        message:
          `subnet ${subnet} is inside subnet ${outer} and is omitted; its blocks belong to ${outer}`,
      });
      return false;
    }
    if (subnet.hostBits >= v1.blockSizeBits) return true;
    findings.push({
      kind: "subnet-too-narrow",
      severity: "loss",
      subject: poolText(v1),
      message:
        `subnet ${subnet} is smaller than a block of 2^${v1.blockSizeBits} addresses and is not migrated`,
    });
    return false;
  });
}

function overlapsBetween(pools: readonly ConvertedPool[]): Finding[] {
  const all = pools.flatMap(({ pool }) =>
    pool.subnets.flatMap(({ ipv4 }) => ipv4 ? [{ pool, subnet: ipv4 }] : [])
  );
  return all.flatMap((one, position) =>
    all.slice(position + 1)
      .filter((other) =>
        other.pool !== one.pool && other.subnet.overlaps(one.subnet)
      )
      .map((other): Finding => ({
        kind: "pool-overlap",
        severity: "warning",
        subject: poolText(one.pool),
        message:
          `subnet ${one.subnet} overlaps ${other.subnet} of pool ${other.pool.name}; coil-controller allocates no address of one that the other has allocated`,
      }))
  );
}

function poolText({ name }: { readonly name: string }): string {
  return `pool ${name}`;
}
