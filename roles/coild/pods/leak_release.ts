import { type KeyedMutex, withTimeout } from "../../../lib/async/mod.ts";
import { keyText } from "../../../lib/cni/mod.ts";
import type {
  ReleaseAnswer,
  ReleaseRequest,
  ReleaseResult,
  SeenEntry,
} from "../../../lib/cnirpc/inspection/mod.ts";
import { messageOf } from "../../../lib/errors/mod.ts";
import { type Address, Prefix, valuesOf } from "../../../lib/inet/mod.ts";
import type { AllocationRecord, NodeIpam } from "../../../lib/ipam/mod.ts";
import type { V1Pod } from "../../../lib/kube/mod.ts";
import type { PodNetwork } from "../../../lib/podnet/mod.ts";
import { getLogger } from "../../../lib/telemetry/mod.ts";
import { isUnanswered, type PodSource } from "../cluster/pod_source.ts";
import { hasOwnNetwork, podAddresses } from "../cluster/pod_status.ts";
import type { FormerHolders } from "../observe/former_holders.ts";
import type { NodeEvents } from "../observe/node_events.ts";

const log = getLogger("gc");

/** How long one call may take: ADDs of what it looks at wait for it. */
const RELEASE_MS = 8_000;

const FREED_REASON = "LeakedAddressesFreed";

/** Attachments that one Event names: with both families, its message has room for these. */
const IN_ONE_EVENT = 12;

export interface LeakReleaseOptions {
  readonly ipam: Pick<NodeIpam, "lookup" | "beginRelease" | "finishRelease">;
  readonly network: Pick<
    PodNetwork,
    "survey" | "routedWithin" | "addressesInNamespaces"
  >;
  readonly pods: Pick<PodSource, "listLive">;
  readonly locks: KeyedMutex;
  readonly nodeEvents: Pick<NodeEvents, "record">;
  readonly former: Pick<FormerHolders, "note">;
}

/** Who uses an address, as text; undefined: this source knows none. */
type User = (address: Address) => string | undefined;

/** Evidence from kernel, runtime and API server, all read while the locks were held. */
interface Evidence {
  /** Attachments with a link of the host, husks included, as text. */
  readonly linked: ReadonlySet<string>;
  readonly users: readonly User[];
}

/**
 * Frees addresses that an admin has found leaked, where three say that they are
 * unused: the kernel has no link and no route for them, no network namespace
 * that a runtime keeps has them, and no pod of a list that the API server made
 * just now. All three are read while the attachment's lock is held: no ADD or
 * DEL of it is under way, and none begins before the end.
 */
export class LeakRelease {
  readonly #with: LeakReleaseOptions;

  constructor(options: LeakReleaseOptions) {
    this.#with = options;
  }

  /** Frees what is proved unused; says what became of each. */
  async release(request: ReleaseRequest): Promise<ReleaseAnswer> {
    return await withTimeout(
      RELEASE_MS,
      (signal) => this.#release(request, signal),
    );
  }

  async #release(
    { entries, dryRun }: ReleaseRequest,
    signal: AbortSignal,
  ): Promise<ReleaseAnswer> {
    using held = new DisposableStack();
    const locked = new Set<SeenEntry>();
    for (const entry of entries) {
      const text = keyText(entry);
      if (this.#with.locks.isLocked(text)) continue;
      held.use(await this.#with.locks.lock(text, { signal }));
      locked.add(entry);
    }
    const evidence = await this.#collect(signal);
    const results = entries.map((entry) =>
      locked.has(entry)
        ? this.#decide(entry, evidence)
        : this.#result(entry, "kept", "an ADD or DEL of it is under way")
    );
    if (!dryRun) this.#free(results.filter((r) => r.outcome === "freed"));
    return { results };
  }

  #decide(entry: SeenEntry, evidence: Evidence | string): ReleaseResult {
    const record = this.#with.ipam.lookup(entry);
    if (record?.generation !== entry.generation) {
      return this.#result(entry, "gone", "");
    }
    const why = typeof evidence === "string"
      ? evidence
      : userOf(record, evidence);
    return this.#result(entry, why === undefined ? "freed" : "kept", why ?? "");
  }

  #result(
    entry: SeenEntry,
    outcome: ReleaseResult["outcome"],
    why: string,
  ): ReleaseResult {
    const { containerId, ifname, generation } = entry;
    const record = this.#with.ipam.lookup(entry);
    const addresses = valuesOf(record?.addresses ?? {}).map(String);
    return { containerId, ifname, generation, addresses, outcome, why };
  }

  /** The evidence, or why there is none. */
  async #collect(signal: AbortSignal): Promise<Evidence | string> {
    const { network, pods } = this.#with;
    let live: V1Pod[];
    try {
      live = await pods.listLive({ signal });
    } catch (error) {
      if (!isUnanswered(error)) throw error;
      return `the API server did not list the node's pods: ${messageOf(error)}`;
    }
    const survey = await network.survey();
    const routed = new Set(
      [
        ...await network.routedWithin(EVERYTHING),
        ...survey.pods.flatMap(({ addresses }) => valuesOf(addresses)),
      ].map(String),
    );
    const inside = await network.addressesInNamespaces();
    const links = [...survey.pods, ...survey.husks];
    return {
      linked: new Set(links.map(keyText)),
      users: [
        (address) =>
          routed.has(`${address}`)
            ? "the node has a route to a pod with it"
            : undefined,
        (address) => {
          const path = inside.get(`${address}`);
          return path && `network namespace ${path} has it`;
        },
        (address) => {
          const pod = live.filter(hasOwnNetwork).find((pod) =>
            podAddresses(pod).some((other) => other.equals(address))
          );
          const { namespace, name } = pod?.metadata ?? {};
          return pod && `Pod ${namespace}/${name} has it`;
        },
      ],
    };
  }

  #free(results: readonly ReleaseResult[]): void {
    const { former, ipam, nodeEvents } = this.#with;
    for (const { containerId, ifname, addresses } of results) {
      const releasing = ipam.beginRelease({ containerId, ifname });
      if (releasing !== undefined) {
        ipam.finishRelease(releasing);
        former.note(releasing);
      }
      log.info("Freed a leaked address", {
        containerId,
        iface: ifname,
        addresses,
      });
    }
    for (let i = 0; i < results.length; i += IN_ONE_EVENT) {
      const freed = results.slice(i, i + IN_ONE_EVENT)
        .map(({ addresses }) => addresses.join(" and ")).join(", ");
      nodeEvents.record({
        type: "Normal",
        reason: FREED_REASON,
        message:
          `Freed ${freed} by coil ipam check --repair: no interface, network namespace or pod of this node had them`,
      });
    }
  }
}

const EVERYTHING = [Prefix.parse("0.0.0.0/0"), Prefix.parse("::/0")];

/** Who still uses the attachment's addresses, or the attachment itself. */
function userOf(
  record: AllocationRecord,
  { linked, users }: Evidence,
): string | undefined {
  if (linked.has(keyText(record))) return "its interface is there";
  for (const address of valuesOf(record.addresses)) {
    for (const user of users) {
      const found = user(address);
      if (found !== undefined) return `${address}: ${found}`;
    }
  }
  return undefined;
}
