import { messageOf } from "../../errors/mod.ts";
import { type Netns, readSysctl, writeSysctl } from "../../linux/mod.ts";
import {
  ConntrackSocket,
  FouSocket,
  NetfilterSocket,
  RouteSocket,
} from "../../netlink/mod.ts";
import type { ServerSysctl } from "../gateway_plan/family.ts";

/** Where a gateway is to be. */
export interface ServerOptions {
  /** The network namespace, which stays the caller's and has to stay open until the gateway is; without one, the process's own. */
  readonly netns?: Netns | undefined;
}

/** The kernel of one network namespace, as far as a gateway needs it. */
export interface ServerKernel extends Disposable {
  /** Links, routes and rules. */
  readonly routes: RouteSocket;
  /** The nft table. */
  readonly netfilter: NetfilterSocket;
  /** The UDP ports of tunnels. */
  readonly fou: FouSocket;
  /** Connections. */
  readonly conntrack: ConntrackSocket;
}

/** Opens sockets in a namespace. @throws {LinuxError} when the kernel refuses */
export function openServerKernel(options: ServerOptions): ServerKernel {
  using stack = new DisposableStack();
  const routes = stack.use(RouteSocket.open(options));
  const netfilter = stack.use(NetfilterSocket.open(options));
  const fou = stack.use(FouSocket.open(options));
  const conntrack = stack.use(ConntrackSocket.open(options));
  const sockets = stack.move();
  return {
    routes,
    netfilter,
    fou,
    conntrack,
    [Symbol.dispose]: () => sockets.dispose(),
  };
}

/**
 * Sets a sysctl unless it is right. In a container `/proc/sys` may be
 * read-only: that does no harm where the value will do as it is.
 *
 * @throws {Error} when it has another value and cannot be set
 */
export function ensureSysctl(
  { name, value, alsoGood }: ServerSysctl,
  options: ServerOptions,
): void {
  const found = readSysctl(name, options);
  if (found === value) return;
  try {
    writeSysctl(name, value, options);
  } catch (cause) {
    if (alsoGood.includes(found)) return;
    throw new Error(
      `Cannot set sysctl "${name}" to ${value}: it is ${found}, and writing it failed (${
        messageOf(cause)
      }); make /proc/sys writable for the gateway, or set it in the pod's securityContext`,
      { cause },
    );
  }
}
