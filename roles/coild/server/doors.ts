import { untilAborted } from "../../../lib/async/mod.ts";
import { serve } from "../../../lib/grpc/mod.ts";
import type { PluginOutcome } from "../observe/metrics.ts";
import type { CniCalls } from "../service/cni_calls.ts";
import { coilPlugin } from "./coil_plugin.ts";
import { grpcService } from "./grpc_door.ts";
import { servePlugins } from "./plugin_server.ts";

const GRACE_MS = 10_000;

export interface DoorOptions {
  readonly calls: CniCalls;
  /** The path of the socket for gRPC; that for plugins is beside it. */
  readonly socketPath: string;
  /** Ends the servers: no new calls, running ones may finish. */
  readonly signal: AbortSignal;
  /** Called on each call of a plugin. */
  readonly onOutcome?: (outcome: PluginOutcome) => void;
  /** How long running calls may take once the signal came. Default 10 s. */
  readonly graceMs?: number;
}

/**
 * Lets calls in, by gRPC and from plugins. Resolves when both listen;
 * `finished` when the last call has ended after the signal.
 *
 * @throws {SocketPathError} when there can be no socket at one of the paths
 */
export async function openDoors(
  options: DoorOptions,
): Promise<{ readonly finished: Promise<unknown> }> {
  const { calls, socketPath, signal, graceMs = GRACE_MS } = options;
  const grpc = await serve({
    socketPath,
    service: grpcService(calls),
    signal,
    graceMs,
  });
  const plugins = await servePlugins({
    ...options,
    graceMs,
    perform: coilPlugin(options),
  });
  const ended = untilAborted(signal).then(() => calls.finish(graceMs));
  return { finished: Promise.all([grpc.finished, plugins.finished, ended]) };
}
