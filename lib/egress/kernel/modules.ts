import { Mutex } from "../../async/mod.ts";
import { messageOf } from "../../errors/mod.ts";
import { Address, type Family } from "../../inet/mod.ts";
import {
  FouUnsupportedError,
  linkAddTunnel,
  linkDelete,
  type NetlinkError,
  RouteSocket,
  type TunnelSpec,
} from "../../netlink/mod.ts";
import { FOU_PORT } from "../../names/mod.ts";
import { runModprobe } from "./modprobe.ts";
import { TUNNEL_LINKS } from "./tunnel_names.ts";

/** What a family's tunnels are made of. */
interface KernelParts {
  /** The modules, each after those that it needs. */
  readonly modules: readonly string[];
  /** The options of the kernel's configuration. */
  readonly options: readonly string[];
}

const PARTS: Readonly<Record<Family, KernelParts>> = {
  ipv4: {
    modules: ["fou", "ipip"],
    options: ["CONFIG_NET_FOU", "CONFIG_NET_FOU_IP_TUNNELS", "CONFIG_NET_IPIP"],
  },
  ipv6: {
    modules: ["fou", "fou6", "ip6_tunnel"],
    options: [
      "CONFIG_NET_FOU",
      "CONFIG_NET_FOU_IP_TUNNELS",
      "CONFIG_IPV6_FOU_TUNNEL",
      "CONFIG_IPV6_TUNNEL",
    ],
  },
};

/** What preparing needs of the machine. */
export interface KernelPorts {
  /** Whether a module is there by its name. One that is built in may not be. */
  isLoaded(module: string): boolean;
  /** Tries a tunnel of the family; returns why there is none. */
  probe(family: Family): Promise<NetlinkError | undefined>;
  /** Loads modules. Returns why not all of them were. */
  load(modules: readonly string[]): Promise<string | undefined>;
}

/** Makes the kernel ready for tunnels. Remembers what is ready, and never tries twice to load a module. */
export class KernelPreparation {
  readonly #ports: KernelPorts;
  /** Guards what follows: of two callers the second finds all done. */
  readonly #turn = new Mutex();
  readonly #ready = new Set<Family>();
  /** Why modules could not be loaded, when they were tried. */
  readonly #tried = new Map<string, string | undefined>();

  /** Works on the given machine. */
  constructor(ports: KernelPorts) {
    this.#ports = ports;
  }

  /** See `prepareKernel()`. */
  async prepare(families: readonly Family[]): Promise<void> {
    using _turn = await this.#turn.lock();
    for (const family of families) {
      if (this.#ready.has(family)) continue;
      await this.#prepareFamily(family);
      this.#ready.add(family);
    }
  }

  async #prepareFamily(family: Family): Promise<void> {
    const { modules } = PARTS[family];
    const missing = modules.filter((each) => !this.#ports.isLoaded(each));
    if (missing.length === 0) return;
    // They may be built in, or the kernel loads them by itself.
    if (await this.#ports.probe(family) === undefined) return;
    const reason = await this.#load(missing);
    const refusal = await this.#ports.probe(family);
    if (refusal === undefined) return;
    throw unsupported(family, { refusal, reason, missing });
  }

  async #load(modules: readonly string[]): Promise<string | undefined> {
    // mutate: without a separator the families' modules differ as well.
    const key = modules.join(" ");
    if (!this.#tried.has(key)) {
      this.#tried.set(key, await this.#ports.load(modules));
    }
    return this.#tried.get(key);
  }
}

const preparation = new KernelPreparation({
  isLoaded: (module) => exists(`/sys/module/${module}`),
  probe: probeTunnel,
  load: runModprobe,
});

/**
 * Makes the kernel ready for tunnels of these families: looks whether it is,
 * and loads modules when it is not, at most once in the life of the process.
 *
 * @throws {FouUnsupportedError} with what the kernel lacks and what to do
 */
export function prepareKernel(families: readonly Family[]): Promise<void> {
  return preparation.prepare(families);
}

/** EOPNOTSUPP: the kernel does not know the kind of link. EINVAL: it does not know Foo over UDP. */
const LACKING: ReadonlySet<string> = new Set(["EOPNOTSUPP", "EINVAL"]);

/** What a tunnel that could not be made means; the error itself when it means nothing more. */
export function explainTunnelError(error: NetlinkError): Error {
  if (!LACKING.has(error.code)) return error;
  return new FouUnsupportedError(
    `${error.message}; the kernel may lack Foo over UDP: check that its modules "fou", "fou6", "ipip" and "ip6_tunnel" are loaded`,
    { cause: error },
  );
}

function unsupported(
  family: Family,
  found: {
    readonly refusal: NetlinkError;
    readonly reason: string | undefined;
    readonly missing: readonly string[];
  },
): Error {
  const { refusal, reason, missing } = found;
  if (!LACKING.has(refusal.code)) return refusal;
  const modules = missing.map((module) => `"${module}"`).join(", ");
  const loading = reason === undefined
    ? `loading ${modules} did not help`
    : `${modules} could not be loaded: ${reason}`;
  return new FouUnsupportedError(
    `Cannot use ${family} Foo-over-UDP tunnels: ${refusal.message}; ${loading}. ` +
      `Load the modules when the node boots (/etc/modules-load.d), or use a kernel with ${
        PARTS[family].options.join(", ")
      }`,
    { cause: refusal },
  );
}

/** Addresses for documentation, RFC 5737 and RFC 3849: no tunnel that is in use has them. */
const PROBES: Readonly<Record<Family, readonly [Address, Address]>> = {
  ipv4: [Address.parse("192.0.2.1"), Address.parse("192.0.2.2")],
  ipv6: [Address.parse("2001:db8::1"), Address.parse("2001:db8::2")],
};

/** Makes a tunnel in the process's own network namespace and removes it, in one send. It is never up. */
async function probeTunnel(family: Family): Promise<NetlinkError | undefined> {
  const [local, remote] = PROBES[family];
  const tunnel: TunnelSpec = {
    kind: TUNNEL_LINKS[family].kind,
    local,
    remote,
    encap: {
      sourcePort: "auto",
      destinationPort: FOU_PORT,
      // mutate: either way it needs the same of the kernel.
      checksum: true,
    },
  };
  const name = `coil_probe_${family}`;
  using socket = RouteSocket.open();
  // The first one is for what a killed process left.
  const [, refusal] = await socket.tryExecute([
    linkDelete({ name }),
    linkAddTunnel({ name, tunnel }),
    linkDelete({ name }),
  ]);
  return refusal;
}

/** Whether there is a file or directory of that path. */
export function exists(path: string): boolean {
  try {
    Deno.statSync(path);
    return true;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return false;
    throw new Error(`Cannot look for "${path}": ${messageOf(error)}`, {
      cause: error,
    });
  }
}
