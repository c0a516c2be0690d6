import { placeSocket } from "../../../lib/grpc/mod.ts";

/**
 * Listens at a Unix socket that only root can connect to.
 *
 * @throws {SocketPathError} when there can be no socket at the path
 */
export async function listenForRoot(path: string): Promise<Deno.UnixListener> {
  const { promise, resolve } = Promise.withResolvers<Deno.UnixListener>();
  await placeSocket(path, {
    mode: 0o600,
    bind: async (path) => resolve(Deno.listen({ transport: "unix", path })),
  });
  return await promise;
}
