import {
  type NetlinkError,
  type Request,
  type Route,
  routeDelete,
} from "../../netlink/mod.ts";
import type { Routes } from "./ports.ts";

/** The request that removes a route as the kernel has listed it. */
export function routeRemoval(
  { type: _type, hops: _hops, ...route }: Route,
): Request {
  return routeDelete({ ...route, type: "unicast" });
}

/**
 * Removes things in one send. What is gone already was removed by an earlier
 * call, or with a link.
 *
 * @throws {NetlinkError} when the kernel refuses
 */
export async function remove(
  socket: Pick<Routes, "tryExecute">,
  requests: readonly Request[],
): Promise<void> {
  throwRefusal(await socket.tryExecute(requests));
}

/**
 * Throws the first refusal of requests whose objects may be gone.
 *
 * @throws {NetlinkError} the refusal
 */
export function throwRefusal(
  errors: readonly (NetlinkError | undefined)[],
  { allowed = [] }: { readonly allowed?: readonly string[] } = {},
): void {
  const refused = errors.find((error) =>
    error?.isAbsent === false && !allowed.includes(error.code)
  );
  if (refused !== undefined) throw refused;
}
