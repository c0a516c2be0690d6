import {
  type AddressPoolSpec,
  choosePools,
  type Pool,
} from "../../../lib/api/mod.ts";
import { CommandError } from "../../../lib/command/mod.ts";
import {
  type LivePod,
  type Replaceable,
  selectReplaceable,
} from "../../../lib/eviction/mod.ts";
import { count } from "../../../lib/flags/mod.ts";
import { AddressRange, valuesOf } from "../../../lib/inet/mod.ts";
import type { V1Namespace } from "../../../lib/kube/mod.ts";
import { nameText, POOL_ANNOTATION } from "../../../lib/names/mod.ts";

/** Target of a drain: a whole pool, or a range of it. */
export interface DrainTarget {
  readonly pool: Pool;
  /** The whole pool without it. */
  readonly range?: DrainRange | undefined;
}

/** Addresses of one subnet. */
export interface DrainRange {
  /** As the admin wrote them. */
  readonly text: string;
  readonly addresses: AddressRange;
}

/** The objects that a drain depends on, as the API server shows them. */
export interface DrainView {
  readonly pools: readonly Pool[];
  readonly namespaces: readonly V1Namespace[];
  /** Those that have not ended. */
  readonly pods: readonly LivePod[];
}

/** Remaining work. */
export interface DrainPlan extends Replaceable {
  /** Those that would get no address elsewhere, with the reason. */
  readonly homeless: readonly string[];
}

/** @throws {CommandError} when it is not a range of one of the pool's subnets */
export function rangeOf(pool: Pool, text: string): DrainRange {
  const addresses = AddressRange.tryParse(text);
  const subnets = rangesOf(pool);
  const isInside = addresses !== undefined &&
    subnets.some((subnet) => includes(subnet, addresses));
  if (isInside) return { text, addresses };
  const what = addresses === undefined
    ? "it is neither an address, a range nor a CIDR"
    : `it is not within one subnet of the pool: ${
      pool.subnets.flatMap(valuesOf).join(", ")
    }`;
  throw new CommandError(
    `Cannot drain "${text}" of AddressPool "${pool.name}": ${what}`,
  );
}

function includes(outer: AddressRange, inner: AddressRange): boolean {
  return outer.contains(inner.first) && outer.contains(inner.last);
}

function rangesOf({ subnets }: Pool): AddressRange[] {
  return subnets.flatMap(valuesOf).map((p) => AddressRange.ofPrefix(p));
}

/** What the pool's spec needs so that no pod gets such an address from now on; undefined when it has that. */
export function cordonOf(
  { pool, range }: DrainTarget,
  { reserved = [] }: Pick<AddressPoolSpec, "reserved">,
): Partial<AddressPoolSpec> | undefined {
  if (range === undefined) return pool.paused ? undefined : { paused: true };
  const isThere = pool.reserved.some((all) => includes(all, range.addresses));
  return isThere ? undefined : { reserved: [...reserved, range.text] };
}

/** Finds the pods that have the addresses, and what stands against their replacement. */
export function planDrain(target: DrainTarget, view: DrainView): DrainPlan {
  const ranges = target.range === undefined
    ? rangesOf(target.pool)
    : [target.range.addresses];
  const holders = view.pods.filter(({ addresses }) =>
    addresses.some((address) => ranges.some((range) => range.contains(address)))
  );
  const selection = selectReplaceable(holders);
  return {
    ...selection,
    homeless: homelessOf(selection.toReplace, target, view),
  };
}

/** Pods of a whole pool need another one, by their namespace's annotation or their own. */
function homelessOf(
  pods: readonly LivePod[],
  { pool, range }: DrainTarget,
  { pools, namespaces }: DrainView,
): string[] {
  if (range !== undefined) return [];
  const open = new Set(
    pools.filter(({ name, paused, deleting }) =>
      name !== pool.name && !paused && !deleting
    ).map(({ name }) => name),
  );
  const annotationsOf = new Map(
    namespaces.map(({ metadata }) => [
      metadata?.name ?? "",
      metadata?.annotations ?? {},
    ]),
  );
  const homeless = new Set<string>();
  for (const pod of pods) {
    const annotations = annotationsOf.get(pod.namespace);
    const own = pod.pools === undefined ? {} : { [POOL_ANNOTATION]: pod.pools };
    const usual = choosePools({}, annotations);
    const choice = choosePools(own, annotations);
    const isHome = annotations !== undefined && choice.kind === "chosen" &&
      choice.pools.some((name) => open.has(name));
    if (isHome) continue;
    const isOwn = choice.kind === "refused" ||
      choice.pools.join() !== usual.pools.join();
    homeless.add(isOwn ? `pod ${nameText(pod)}` : pod.namespace);
  }
  return [...homeless].sort();
}

/** What is going to happen. */
export function planText(
  target: DrainTarget,
  { toReplace, kept }: DrainPlan,
  { evict, force = false }: {
    readonly evict: boolean;
    readonly force?: boolean;
  },
): string {
  const nodes = Map.groupBy(toReplace, ({ node }) => node);
  const replaced = toReplace.length === 0
    ? "No pods to replace"
    : `${count(toReplace.length, "pod")} to replace, on ${
      count(nodes.size, "node")
    }`;
  return [
    evict
      ? replaced
      : `${count(toReplace.length + kept.length, "pod")} with addresses of ${
        targetText(target)
      }`,
    ...[...nodes].map(([node, all]) =>
      `  node ${node}: ${count(all.length, "pod")}`
    ),
    ...kept.map(({ pod, why }) =>
      `  ${nameText(pod)} on node ${pod.node}: ${
        force && why === "no controller"
          ? "no controller, deleted for good"
          : `${evict ? "kept" : "not evictable"}: ${why}`
      }`
    ),
  ].map((line) => `${line}\n`).join("");
}

/** @throws {CommandError} when pods would get no address once they are evicted */
export function checkHomes(
  { pool }: DrainTarget,
  { homeless }: DrainPlan,
): void {
  if (homeless.length === 0) return;
  throw new CommandError(
    `Cannot evict pods of AddressPool "${pool.name}": namespaces or pods name no other pool that gives addresses: ${
      homeless.join(", ")
    }
Name one first: kubectl annotate namespace NAME ${POOL_ANNOTATION}=POOL --overwrite; of a pod that names its pool itself, in its template. Or drain only a part: --range.`,
  );
}

/** `AddressPool "a"`, `10.2.0.0/24 of AddressPool "a"` */
export function targetText({ pool, range }: DrainTarget): string {
  const name = `AddressPool "${pool.name}"`;
  return range === undefined ? name : `${range.text} of ${name}`;
}

/** How the cordon is taken back. */
export function undoText({ pool, range }: DrainTarget): string {
  return range === undefined
    ? `kubectl patch addresspool ${pool.name} --type=merge -p '{"spec":{"paused":null}}'`
    : `kubectl edit addresspool ${pool.name}, and take ${range.text} out of spec.reserved`;
}
