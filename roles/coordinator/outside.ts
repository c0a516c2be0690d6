import {
  machineOf,
  type Outside,
  type Podnet,
  sharedIn,
} from "../../lib/coordinator/mod.ts";
import type { Netns } from "../../lib/linux/mod.ts";
import { findHostEnd } from "../../lib/podnet/host/mod.ts";
import { NetnsIndex, tryOpenPodNetns } from "../../lib/podnet/netns/mod.ts";
import { describeError } from "../../lib/telemetry/base/mod.ts";

const PODNET: Podnet = {
  tryOpenNetns: tryOpenPodNetns,
  findHostEnd,
  netnsPathOf: (host, id) => new NetnsIndex(host).pathOf(id),
};

/**
 * What a call has that coild does not answer: the kernel of this machine, and
 * the file with the defaults. `hostNetns` stays the caller's; absent: the
 * process's own.
 */
export function outsideOf(
  options: {
    readonly hostNetns?: Netns | undefined;
    readonly defaultsPath: string;
  },
): Outside {
  return {
    ...machineOf(PODNET, options),
    shared: () => sharedIn(options.defaultsPath),
    warn,
  };
}

/** A runtime keeps what plugins write to stderr. */
function warn(
  message: string,
  fields: Readonly<Record<string, unknown>>,
): void {
  const words = Object.entries(fields).map(([key, value]) =>
    `${key}=${value instanceof Error ? describeError(value) : value}`
  );
  const line = `coordinator: ${[message, ...words].join(" ")}\n`;
  Deno.stderr.writeSync(new TextEncoder().encode(line));
}
