import type { Address, DualStack } from "../../inet/mod.ts";
import type { Netns } from "../../linux/mod.ts";
import {
  COILD_PROTOCOL,
  POD_RULE_PRIORITY,
  POD_TABLE,
} from "../../names/mod.ts";
import type { RandomBytes } from "../../netlink/mod.ts";
import type { GatewayMode } from "./plan.ts";

/** Options of `PodNetwork.open()`. */
export interface PodNetworkOptions {
  /** Route table for pods. Default {@linkcode POD_TABLE}. */
  readonly tableId?: number;
  /** Priority of the rule that looks it up. Default {@linkcode POD_RULE_PRIORITY}. */
  readonly rulePriority?: number;
  /** Protocol number on our routes. Default {@linkcode COILD_PROTOCOL}. */
  readonly protocolId?: number;
  /** Default `link-local`. */
  readonly gatewayMode?: GatewayMode;
  /** Names host veths as Calico does. Default false. */
  readonly calico?: boolean;
  /** Takes addresses of pods from the main table too, as left by upstream Coil before 2.0.2. Default false. */
  readonly registerFromMain?: boolean;
  /** MTU of pods. Default: what `init()` finds out. */
  readonly mtu?: number;
  /** The node's addresses, as far as it has any; see `setNodeAddresses()`. */
  readonly nodeAddresses?: DualStack<Address>;
  /** The host's network namespace, which stays the caller's. Default: the process's own. */
  readonly hostNetns?: Netns | undefined;
  /** Source of MAC addresses. Default `crypto.getRandomValues()`. */
  readonly random?: RandomBytes;
}

/** The options with nothing left open. */
export interface Settings {
  readonly tableId: number;
  readonly rulePriority: number;
  readonly protocolId: number;
  readonly gatewayMode: GatewayMode;
  readonly calico: boolean;
  readonly registerFromMain: boolean;
  readonly random: RandomBytes;
  readonly hostNetns?: Netns | undefined;
}

/** Fills in the defaults. */
export function settingsOf(options: PodNetworkOptions): Settings {
  return {
    tableId: options.tableId ?? POD_TABLE,
    rulePriority: options.rulePriority ?? POD_RULE_PRIORITY,
    protocolId: options.protocolId ?? COILD_PROTOCOL,
    gatewayMode: options.gatewayMode ?? "link-local",
    calico: options.calico ?? false,
    registerFromMain: options.registerFromMain ?? false,
    random: options.random ?? ((bytes) => crypto.getRandomValues(bytes)),
    hostNetns: options.hostNetns,
  };
}
