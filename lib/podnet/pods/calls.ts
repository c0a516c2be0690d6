import type { Address, DualStack } from "../../inet/mod.ts";
import type { LinkIdentity } from "../base/alias.ts";
import type { HostProblem } from "../host/host_state.ts";
import type { Husk } from "../links/husk_reaper.ts";
import type { PodSources } from "../base/sources.ts";
import type { AttachmentKey } from "../../cni/mod.ts";
import type { NamespacedName } from "../../names/mod.ts";

/** Request of `setup()`. */
export interface SetupRequest extends LinkIdentity {
  /** The pod's network namespace (`CNI_NETNS`). */
  readonly netnsPath: string;
  /** The pod's addresses: IPv4, IPv6 or one of each. */
  readonly addresses: DualStack<Address>;
  /** Whose name the host's end is marked with, and in Calico mode called after. */
  readonly pod?: NamespacedName;
  /** Which sources the pod's packets may have. Default `own`. */
  readonly sources?: PodSources;
}

/** Result of `setup()`. */
export interface SetupResult {
  /** Name of the host's end. */
  readonly hostName: string;
  /** Index of the host's end. */
  readonly hostIndex: number;
  /** MAC address of the host's end. */
  readonly hostMac: string;
  /** MAC address of the pod's end. */
  readonly podMac: string;
  /** 0 when the kernel chose it. */
  readonly mtu: number;
  /** Whether nothing was there of an earlier attempt with the same key, nor anything else in the way. What a DEL has cut off is not seen. */
  readonly isFirst: boolean;
}

/** A pod that is cut off; `finishTeardown()` takes it. */
export interface CutOff {
  /** What is left of the pod on the host. */
  readonly husk: Husk;
}

/** A host veth as a survey showed it. */
export interface SeenLink extends AttachmentKey {
  /** Its index, which the kernel does not give again; undefined: there was none. */
  readonly index: number | undefined;
}

/** Findings and changes of `beginTeardownOf()`. */
export interface SeenTeardown {
  /** Undefined when the link that was seen is gone. */
  readonly teardown: CutOff | undefined;
  /** Whether the key has no other link, neither pod nor husk. */
  readonly isLast: boolean;
}

/** Request of `check()`. */
export interface CheckRequest extends AttachmentKey {
  /** The addresses that the pod should have. */
  readonly addresses: DualStack<Address>;
  /** Without it, only the host's end is looked at. */
  readonly netnsPath?: string;
  /** Needed in Calico mode only. */
  readonly pod?: NamespacedName;
}

/** Findings and failures of `init()`. */
export interface InitReport {
  /** The MTU that new pods get; 0 leaves it to the kernel. */
  readonly mtu: number;
  /** What pods need and could not be made; the rest is done. */
  readonly problems: readonly HostProblem[];
}
