import { type Address, Prefix } from "../../inet/mod.ts";
import type { Netns } from "../../linux/mod.ts";
import { COILD_PROTOCOL, VPC_REST_TABLE } from "../../names/mod.ts";
import {
  NetlinkError,
  type Request,
  type Route,
  routeAdd,
  routeDelete,
  RouteSocket,
  type RouteTarget,
} from "../../netlink/mod.ts";

/** How {@linkcode RestTable} is opened. */
export interface RestTableOptions {
  /** The host's network namespace, which stays the caller's. Default: the process's own. */
  readonly hostNetns?: Netns | undefined;
  /** Seconds since the machine started. Default: the kernel's clock, which goes on while the machine sleeps. */
  readonly uptime?: () => number;
}

/**
 * Addresses that may not be used again yet, kept in the kernel: a route
 * `blackhole ADDRESS metric SECONDS` in a table that no rule looks up, whose
 * metric is the machine's uptime at which the rest began. It survives the
 * daemon and goes with the machine's start, when no peer remembers an old pod.
 */
export class RestTable implements Disposable {
  readonly #socket: RouteSocket;
  readonly #uptime: () => number;

  private constructor({ hostNetns, uptime }: RestTableOptions) {
    this.#socket = RouteSocket.open({ netns: hostNetns });
    this.#uptime = uptime ?? readUptime;
  }

  /** Opens a socket; changes nothing. @throws {LinuxError} when the kernel refuses */
  static open(options: RestTableOptions = {}): RestTable {
    return new RestTable(options);
  }

  /**
   * For how many seconds each address has rested, at least. A rest that seems to
   * begin later than now began now.
   *
   * @throws {NetlinkError} when the kernel cannot be read
   */
  async list(): Promise<{ address: Address; seconds: number }[]> {
    const now = this.#uptime();
    const ages = new Map<string, { address: Address; seconds: number }>();
    for (const { destination, metric = 0 } of await this.#routes()) {
      if (destination === undefined) continue;
      const { address } = destination;
      const seconds = Math.max(0, now - metric);
      const known = ages.get(address.toString());
      // Two of one address: what was written last counts.
      if (known !== undefined && known.seconds <= seconds) continue;
      ages.set(address.toString(), { address, seconds });
    }
    return [...ages.values()];
  }

  /**
   * Lets addresses rest from now on. To be awaited before the pod's own route
   * goes: killed in between, the address is taken or rests.
   *
   * @throws {NetlinkError} when the kernel refuses
   */
  begin(addresses: readonly Address[]): Promise<void> {
    // Rounded up: read back, a rest must not seem longer than it was.
    const metric = Math.ceil(this.#uptime());
    return this.#execute(
      addresses.map((address) => routeAdd({ ...restOf(address), metric })),
      "EEXIST",
    );
  }

  /**
   * Forgets addresses, whose rest is over or which the node no longer has. Those that do not rest are not an error.
   *
   * @throws {NetlinkError} when the kernel refuses
   */
  async end(addresses: readonly Address[]): Promise<void> {
    const gone = new Set(addresses.map(String));
    const routes = (await this.#routes()).filter(({ destination }) =>
      destination !== undefined && gone.has(destination.address.toString())
    );
    await this.#execute(
      routes.map(({ destination, family, metric }) =>
        routeDelete({ ...base(family), destination, metric })
      ),
      "ESRCH",
    );
  }

  /** Closes the socket; the routes stay. */
  [Symbol.dispose](): void {
    this.#socket[Symbol.dispose]();
  }

  async #routes(): Promise<Route[]> {
    const table = VPC_REST_TABLE;
    const protocol = COILD_PROTOCOL;
    return (await this.#socket.listRoutes({ table, protocol }))
      .filter(({ type }) => type === "blackhole");
  }

  /** `done` is what the kernel says of what is so already. */
  async #execute(requests: readonly Request[], done: string): Promise<void> {
    const errors = await this.#socket.tryExecute(requests);
    const error = errors.find((one) => one !== undefined && one.code !== done);
    if (error instanceof NetlinkError) throw error;
  }
}

/** To a hundredth: `Deno.osUptime()` has whole seconds, of which one may be missing at the end of a rest. */
function readUptime(): number {
  return parseFloat(Deno.readTextFileSync("/proc/uptime"));
}

function base(family: Address["family"]): RouteTarget {
  return {
    family,
    table: VPC_REST_TABLE,
    protocol: COILD_PROTOCOL,
    type: "blackhole",
  };
}

function restOf(address: Address): RouteTarget {
  return { ...base(address.family), destination: Prefix.host(address) };
}
