/** The repository's root as a path that ends with a slash. */
export const ROOT: string = new URL("../../", import.meta.url).pathname;

/** Units import only units of a strictly lower rank. */
const RANK: Readonly<Record<string, number>> = {
  "lib/inet": 0,
  "lib/async": 0,
  "lib/bytes": 0,
  "lib/errors": 0,
  "lib/json": 0,
  "lib/tar": 0,
  "lib/flags": 1,
  "lib/telemetry": 1,
  "lib/linux": 1,
  "lib/aws": 2,
  "lib/netlink": 2,
  "lib/cni": 2,
  "lib/grpc": 2,
  "lib/kube": 2,
  "lib/probe": 2,
  "lib/names": 3,
  "lib/etcd": 3,
  "lib/api": 4,
  "lib/cnirpc": 4,
  "lib/command": 4,
  "lib/connectivity": 4,
  "lib/announce": 4,
  "lib/eviction": 4,
  "lib/coordinator": 5,
  "lib/egress": 5,
  "lib/ipam": 5,
  "lib/plugin": 5,
  "lib/podnet": 5,
  "lib/routing": 5,
  "lib/vpc": 5,
  "roles": 6,
  "main.ts": 7,
};

/** The path below the repository's root, or undefined for anything else. */
export function fromFileUrl(specifier: string): string | undefined {
  const prefix = `file://${ROOT}`;
  if (!specifier.startsWith(prefix)) return undefined;
  return specifier.slice(prefix.length);
}

/** `lib/kube` of `lib/kube/cache/store.ts`; `roles/coild` of anything in there. */
export function unitOf(file: string): string {
  const parts = file.split("/");
  return parts.length === 1 ? file : parts.slice(0, 2).join("/");
}

/** The rank of a file's unit; an unknown unit is an error. */
export function rankOf(file: string): number {
  const unit = unitOf(file);
  const rank = RANK[unit.startsWith("roles/") ? "roles" : unit];
  if (rank === undefined) {
    throw new RangeError(`Cannot rank "${file}": add its unit to RANK`);
  }
  return rank;
}
