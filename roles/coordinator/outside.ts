import {
  machineOf,
  type Outside,
  type Podnet,
  sharedIn,
} from "../../lib/coordinator/mod.ts";
import type { Netns } from "../../lib/linux/mod.ts";
import { findHostEnd } from "../../lib/podnet/host/mod.ts";
import { NetnsIndex, tryOpenPodNetns } from "../../lib/podnet/netns/mod.ts";

const PODNET: Podnet = {
  tryOpenNetns: tryOpenPodNetns,
  findHostEnd,
  indexNetns: (host) => new NetnsIndex(host),
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
    readonly warn: Outside["warn"];
  },
): Outside {
  return {
    ...machineOf(PODNET, options),
    shared: () => sharedIn(options.defaultsPath),
    warn: options.warn,
  };
}
