import type { Loops } from "../../../lib/async/mod.ts";
import {
  listen,
  type Listener,
  type Notification,
  type TableNotification,
  warnOfDeafness,
} from "../../../lib/netlink/mod.ts";
import { mapDualStack } from "../../../lib/inet/mod.ts";
import { getLogger, RepeatFilter } from "../../../lib/telemetry/mod.ts";
import type {
  Eni,
  Grant,
  HostEni,
  VpcHostReport,
  VpcHostSettings,
} from "../../../lib/vpc/mod.ts";
import type { VpcOptions } from "../cloud/options.ts";
import type { EniFacts, Sight } from "../cloud/sight.ts";

const log = getLogger("vpc");

/** Without a change, the kernel is compared so often. */
const LOOK_MS = 30_000;

/** What changes the kernel, and says what others change there. */
export interface HostPort {
  ensure(settings: VpcHostSettings): Promise<VpcHostReport>;
  watchRoutes(): Listener<Notification>;
  watchTable(): Listener<TableNotification>;
}

/** Keeps the kernel's half of the node's ENIs as the cloud has them. */
export class VpcHostKeeper {
  readonly #host: HostPort;
  readonly #options: VpcOptions;
  readonly #problems = new RepeatFilter();
  #done = "";
  #doneAtMs = -Infinity;
  #ready: ReadonlySet<string> = new Set();
  /** Indexes of the ENIs' links. */
  #links: ReadonlySet<number> = new Set();
  /** By the ENI's ID. */
  #facts: ReadonlyMap<string, EniFacts> = new Map();

  constructor(host: HostPort, options: VpcOptions) {
    this.#host = host;
    this.#options = options;
  }

  /** Whether the last comparison left nothing to do. */
  get isComplete(): boolean {
    return this.#done !== "";
  }

  /** Loops that listen to what others change; `onChange` is called when it is to be put right. */
  loops(
    onChange: () => void,
  ): Loops {
    const changed = () => {
      this.#done = "";
      onChange();
    };
    // mutate: words for people.
    const onFailure = warnOfDeafness(
      log,
      `comparing the kernel every ${LOOK_MS / 1_000} s`,
    );
    const common = { onStart: changed, onFailure };
    return {
      "routes of ENIs": (signal) =>
        listen({
          ...common,
          signal,
          watch: () => this.#host.watchRoutes(),
          onHeard: (all) => {
            if (all.some((one) => this.#concerns(one))) changed();
          },
        }),
      "table of ENIs": (signal) =>
        listen({
          ...common,
          signal,
          watch: () => this.#host.watchTable(),
          onHeard: changed,
        }),
    };
  }

  /** Links and addresses are mostly those of pods; an ENI's link that is missing may have come. */
  #concerns(heard: Notification): boolean {
    if (heard.kind !== "link") return heard.kind !== "address";
    return !this.isComplete || this.#links.has(heard.index);
  }

  /**
   * Sets up links, rules and routes. Returns the ENIs whose pods have a network. One that the metadata service does not
   * show for a moment keeps what it has while EC2 does, also after a restart.
   *
   * @throws {NetlinkError} when the kernel cannot be read
   */
  async follow(
    enis: readonly Eni[],
    sight: Sight,
  ): Promise<{ readonly ready: ReadonlySet<string> }> {
    this.#facts = this.#known(enis, sight);
    const settings = this.#settings(enis, sight);
    const text = JSON.stringify(settings);
    const isOld = performance.now() >= this.#doneAtMs + LOOK_MS;
    if (text === this.#done && !isOld) return { ready: this.#ready };
    const { changed, problems, links } = await this.#host.ensure(settings);
    this.#links = links;
    if (changed.length > 0) log.info("Changed the node's network", { changed });
    for (const err of problems) {
      if (this.#problems.passes(err)) {
        log.error("The node's network for ENIs is incomplete", { err });
      }
    }
    this.#done = problems.length === 0 ? text : "";
    this.#doneAtMs = performance.now();
    const lacking = new Set(problems.map(({ eni }) => eni));
    this.#ready = new Set(
      settings.enis.map(({ id }) => id).filter((id) => !lacking.has(id)),
    );
    return { ready: this.#ready };
  }

  #known(
    enis: readonly Eni[],
    { facts }: Sight,
  ): ReadonlyMap<string, EniFacts> {
    return new Map(enis.flatMap(({ id, ec2 }) => {
      const known = facts.get(id) ??
        (isAttached(ec2) ? this.#facts.get(id) : undefined);
      return known === undefined ? [] : [[id, known] as const];
    }));
  }

  #settings(
    enis: readonly Eni[],
    { vpcCidrs }: Pick<Sight, "vpcCidrs">,
  ): VpcHostSettings {
    const { eniMtu, externalSnat, families, noSnatCidrs } = this.#options;
    const { nodePorts, podImds } = this.#options;
    return {
      enis: enis.flatMap((eni): HostEni[] => {
        const known = this.#facts.get(eni.id);
        if (known === undefined || eni.ec2?.ownership === "foreign") return [];
        const { id, mac, addresses, subnets } = known;
        // It may have been attached again, elsewhere.
        const { device = known.device } = eni;
        const gateways = mapDualStack(subnets, (subnet) => subnet.nth(1n));
        // Of IPv6, one rule for the whole /80.
        const blocks = [
          ...eni.grants.filter(isIpv4),
          ...eni.ipv6 ? [eni.ipv6] : [],
        ]
          .map(({ block }) => block);
        return [{ id, device, mac, addresses, gateways, blocks }];
      }),
      unseenDevices: enis.flatMap(({ id, ec2, device }) =>
        device === undefined || !isAttached(ec2) || this.#facts.has(id)
          ? []
          : [device]
      ),
      families,
      mtu: eniMtu,
      vpcCidrs,
      excludedCidrs: noSnatCidrs,
      externalSnat,
      nodePorts,
      podImds,
    };
  }
}

/** Whether EC2 has an ENI, so that pods may live by it. */
function isAttached(ec2: Eni["ec2"]): boolean {
  return ec2?.attachment?.state === "attached";
}

function isIpv4({ block }: Grant): boolean {
  return block.family === "ipv4";
}
