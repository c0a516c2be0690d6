import { Mutex } from "../../async/mod.ts";
import { messageOf } from "../../errors/mod.ts";
import { FAMILIES, type Family } from "../../inet/mod.ts";
import {
  LinuxError,
  type Netns,
  tryReadSysctl,
  writeSysctl,
} from "../../linux/mod.ts";
import {
  VPC_ENI_TABLES,
  VPC_NFT_TABLE,
  VPC_PROTOCOL,
} from "../../names/mod.ts";
import {
  MAIN_TABLE,
  NetfilterSocket,
  NetlinkError,
  type NftTable,
  PROTOCOL_KERNEL,
  RouteMonitor,
  RouteSocket,
  TableMonitor,
} from "../../netlink/mod.ts";
import {
  type Change,
  diffVpcHost,
  type FoundVpcHost,
  type VpcHostChanges,
} from "./host_diff.ts";
import { planVpcHost, type VpcHostPlan } from "./host_plan.ts";
import type { VpcHostSettings } from "./host_settings.ts";
import { VpcHostProblem } from "./host_problem.ts";

/** How {@linkcode VpcHost} is opened. */
export interface VpcHostOptions {
  /** The host's network namespace, which stays the caller's. Default: the process's own. */
  readonly hostNetns?: Netns | undefined;
}

/** Changes and failures of {@linkcode VpcHost.ensure}. */
export interface VpcHostReport {
  /** What was changed, one phrase each. */
  readonly changed: readonly string[];
  /** What is still not as it should be. */
  readonly problems: readonly VpcHostProblem[];
  /** Indexes of the ENIs' links. */
  readonly links: ReadonlySet<number>;
}

/**
 * The node's half of addresses of the VPC: links, rules and routes of ENIs, and
 * the table that translates. The kernel is the only store.
 */
export class VpcHost implements AsyncDisposable {
  readonly #hostNetns: Netns | undefined;
  readonly #host: RouteSocket;
  readonly #lock = new Mutex();
  #filters: NetfilterSocket | undefined;

  private constructor({ hostNetns }: VpcHostOptions) {
    this.#hostNetns = hostNetns;
    this.#host = RouteSocket.open({ netns: hostNetns });
  }

  /**
   * Opens a socket to the kernel; changes nothing.
   *
   * @throws {LinuxError} when the kernel refuses
   */
  static open(options: VpcHostOptions = {}): VpcHost {
    return new VpcHost(options);
  }

  /**
   * Changes links, rules, routes and the table as the settings want them. What is
   * missing is added before anything is removed, so that no packet of a pod is lost.
   * Idempotent; changes nothing where nothing is to be done. Goes on after a
   * failure, and leaves the family's old rules and routes in place then.
   *
   * @throws {NetlinkError} when the kernel cannot be read
   */
  async ensure(settings: VpcHostSettings): Promise<VpcHostReport> {
    using _lock = await this.#lock.lock();
    const { plan, changes } = await this.#compare(settings);
    const report = {
      changed: [] as string[],
      problems: [...plan.problems, ...changes.problems],
      links: new Set(plan.links.map(({ index }) => index)),
    };
    if (changes.acceptRa !== undefined) {
      this.#acceptRa(changes.acceptRa, report);
    }
    const failed = await this.#send(changes.add, report);
    if (plan.table !== undefined) await this.#replaceTable(plan.table, report);
    await this.#send(
      changes.remove.filter(({ family }) => !failed.has(family)),
      report,
    );
    return report;
  }

  /**
   * What `ensure()` would change, and what it could not, one phrase each. Changes nothing.
   *
   * @throws {NetlinkError} when the kernel cannot be read
   */
  async inspect(settings: VpcHostSettings): Promise<string[]> {
    const { plan, changes } = await this.#compare(settings);
    const table = plan.table === undefined
      ? []
      : await this.#open().compareTable(plan.table);
    return [
      ...changes.acceptRa === undefined ? [] : [acceptRaText(changes.acceptRa)],
      ...changes.add.map(({ text }) => text),
      ...table,
      ...changes.remove.map(({ text }) => text),
      ...[...plan.problems, ...changes.problems].map(({ message }) => message),
    ];
  }

  /** Listens to what others do to rules, to routes of ENIs and to links. */
  watchRoutes(): RouteMonitor {
    return RouteMonitor.open({
      interests: {
        rules: true,
        // One pattern for all of these tables: their numbers have no room in the header.
        routes: [{ table: VPC_ENI_TABLES, protocol: VPC_PROTOCOL }],
        links: ["up", "down", "gone"],
        addresses: "both",
      },
      ignoredPortIds: [this.#host.portId],
      netns: this.#hostNetns,
    });
  }

  /** Listens to what others do to the table. */
  watchTable(): TableMonitor {
    return TableMonitor.open({
      table: VPC_NFT_TABLE,
      ignoredPortIds: [this.#open().portId],
      netns: this.#hostNetns,
    });
  }

  /** Closes the sockets; everything else stays. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#host[Symbol.dispose]();
    await this.#filters?.[Symbol.asyncDispose]();
  }

  async #compare(
    settings: VpcHostSettings,
  ): Promise<{ plan: VpcHostPlan; changes: VpcHostChanges }> {
    const found = await this.#read();
    const plan = planVpcHost(settings, found);
    const primary = plan.links.find(({ isPrimary }) => isPrimary);
    const acceptRa = primary && this.#sysctl(acceptRaOf(primary.name));
    const changes = diffVpcHost(plan, { ...found, acceptRa }, settings);
    return { plan, changes };
  }

  async #read(): Promise<Omit<FoundVpcHost, "acceptRa">> {
    const host = this.#host;
    const families = FAMILIES.filter((family) =>
      this.#sysctl(`net/${family}/conf/all/forwarding`) !== undefined
    );
    const links = await host.listLinks();
    const addresses = await host.listAddresses();
    const rules = [];
    const routes = [];
    for (const family of families) {
      rules.push(...await host.listRules({ family }));
      routes.push(
        ...await host.listRoutes({ family, protocol: VPC_PROTOCOL }),
        ...await host.listRoutes({
          family,
          table: MAIN_TABLE,
          protocol: PROTOCOL_KERNEL,
        }),
      );
    }
    return { families, links, addresses, rules, routes };
  }

  #sysctl(name: string): string | undefined {
    return tryReadSysctl(name, { netns: this.#hostNetns });
  }

  #acceptRa(name: string, report: OpenReport): void {
    try {
      writeSysctl(acceptRaOf(name), 2, { netns: this.#hostNetns });
      report.changed.push(acceptRaText(name));
    } catch (cause) {
      report.problems.push(refused(acceptRaText(name), cause));
    }
  }

  /** Returns the families of which something failed. */
  async #send(
    changes: readonly Change[],
    report: OpenReport,
  ): Promise<Set<Family | undefined>> {
    const failed = new Set<Family | undefined>();
    const errors = await this.#host.tryExecute(
      changes.map(({ request }) => request),
    );
    for (const [index, { text, family }] of changes.entries()) {
      const error = errors[index];
      if (error === undefined) report.changed.push(text);
      if (error === undefined || isDone(error)) continue;
      report.problems.push(refused(text, error));
      failed.add(family);
    }
    return failed;
  }

  async #replaceTable(table: NftTable, report: OpenReport): Promise<void> {
    const text = `set nf_tables table "inet ${table.name}"`;
    try {
      if (await this.#open().replaceTable(table)) report.changed.push(text);
    } catch (cause) {
      const isKernels = cause instanceof NetlinkError ||
        cause instanceof LinuxError;
      if (!isKernels) throw cause;
      report.problems.push(refused(text, cause));
    }
  }

  /** Opened at first use: without netfilter in the kernel it routes all the same. */
  #open(): NetfilterSocket {
    return this.#filters ??= NetfilterSocket.open({ netns: this.#hostNetns });
  }
}

interface OpenReport {
  readonly changed: string[];
  readonly problems: VpcHostProblem[];
}

function acceptRaOf(link: string): string {
  return `net/ipv6/conf/${link}/accept_ra`;
}

function acceptRaText(link: string): string {
  return `set sysctl "net.ipv6.conf.${link}.accept_ra" to 2`;
}

/** Another process was faster, or the thing went with its link. */
function isDone(error: NetlinkError): boolean {
  return error.code === "EEXIST" || error.isAbsent;
}

function refused(text: string, cause: unknown): VpcHostProblem {
  return new VpcHostProblem(`Cannot ${text}: ${messageOf(cause)}`, { cause });
}
