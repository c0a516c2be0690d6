import type { Others } from "./config_plan.ts";
import { PLUGIN } from "../base/network_list.ts";

/** Where things are to be on the host. */
export interface HostPlaces {
  /** Directory of network configurations. */
  readonly etcDirectory: string;
  /** Name of our file in there, if one was given. */
  readonly confName: string | undefined;
  /** Directory of plugins' executables. */
  readonly binDirectory: string;
}

export interface InstallRequest extends HostPlaces {
  /** The whole executable; empty for the running one. */
  readonly coilPath: string;
  /** The network configuration. */
  readonly netconf: string;
  /** File with the network configuration, unless `netconf` has it. */
  readonly netconfFile: string;
  /** Install the plugin `coordinator`, too. */
  readonly coordinator: boolean;
  /** Write a network configuration. Its interfaces' own are given by others where there is only `coordinator`. */
  readonly configures: boolean;
  /** Become part of another network's configuration: `netconf` has our plugin alone. */
  readonly chain: boolean;
  readonly others: Others;
  /** Load the kernel's modules for egress tunnels. */
  readonly prepareEgress: boolean;
  readonly dryRun: boolean;
}

export function pluginPath({ binDirectory }: HostPlaces): string {
  return `${binDirectory}/${PLUGIN}`;
}

/** Path of the plugin `coordinator`: the same program by another name. */
export function coordinatorPath({ binDirectory }: HostPlaces): string {
  return `${binDirectory}/coordinator`;
}

/** Path of the second file that former versions had: a launcher at `coil` called it. */
export function formerPath({ binDirectory }: HostPlaces): string {
  return `${binDirectory}/${PLUGIN}-executable`;
}
