import type { Address } from "../../inet/mod.ts";
import type { Netns, writeSysctl } from "../../linux/mod.ts";
import type { Link, NetfilterSocket, RouteSocket } from "../../netlink/mod.ts";
import type { Later, ProbeLink, ProbeTimes } from "../../probe/mod.ts";
import type { Shared } from "../config/shared.ts";
import type { ResolvedMode } from "../plan/mode.ts";
import type { CoordinatorHusk } from "../plan/veth.ts";

/** Reads and changes one network namespace. */
export type Routes =
  & Pick<
    RouteSocket,
    | "execute"
    | "tryExecute"
    | "getLink"
    | "listLinks"
    | "listAddresses"
    | "listRoutes"
    | "listRules"
    | "listNeighbours"
    | "lookUpRoutes"
  >
  & Disposable;

/** Reads and changes the nf_tables of one network namespace. */
export type Filters =
  & Pick<
    NetfilterSocket,
    "createTable" | "replaceTable" | "deleteTable" | "compareTable"
  >
  & AsyncDisposable;

/** Packets that ask the network for addresses, and announce them: `lib/probe`. */
export interface Probes {
  /** The MAC address of another machine that has the address. */
  findConflict(
    link: ProbeLink,
    address: Address,
    times: ProbeTimes,
  ): Promise<string | undefined>;
  /** Whether the gateway answers. */
  answers(
    link: ProbeLink,
    asked: { readonly gateway: Address; readonly source: Address },
    times: ProbeTimes,
  ): Promise<boolean>;
  /** Announces the MAC address of the address to the network. */
  announce(
    link: ProbeLink,
    address: Address,
    times: Pick<ProbeTimes, "retries" | "intervalMs">,
  ): Promise<void>;
}

/** A pod as the runtime names it: `K8S_POD_NAME` and others of `CNI_ARGS`. */
export type PodArgs = Readonly<Record<string, string>>;

/** How an interface is joined. */
export interface Decided {
  readonly mode: ResolvedMode;
  /** The route table of the interface that leaves the main one; absent where none does. */
  readonly table?: number | undefined;
}

/** Why the network refuses a pod. */
export type NetworkProblem =
  /** Another machine, with this MAC address, has the address. */
  | {
    readonly kind: "conflict";
    readonly address: Address;
    readonly mac: string;
  }
  /** It does not answer. */
  | { readonly kind: "gateway"; readonly gateway: Address };

/** Pods' namespaces as one look has found them. */
export interface Namespaces extends Disposable {
  /** Opens the one in which the other end of a host's link is; undefined when it has no path. */
  ofPeer(hostEnd: Link): Promise<Netns | undefined>;
}

/** What the coordinator needs of its surroundings. */
export interface Outside {
  /** The host's network namespace; absent: the process's own. */
  readonly hostNetns?: Netns | undefined;
  /** Opens a pod's namespace; undefined when there is none at the path. */
  openPodNetns(path: string): Netns | undefined;
  openRoutes(netns: Netns | undefined): Routes;
  openFilters(netns: Netns): Filters;
  /** Sets a sysctl of one network namespace. */
  readonly writeSysctl: typeof writeSysctl;
  /** The host's end of a pod's interface; undefined when it is no veth that leads to the host. */
  findHostEnd(pod: {
    readonly netns: Netns;
    readonly link: Link;
  }): Promise<Link | undefined>;
  /** Looks at all pods' namespaces, once, for any number of the host's links. */
  openNamespaces(): Namespaces;
  /** Deletes the host's end of a pair that is cut off, now or when DEL has been answered. */
  discard(husk: CoordinatorHusk): Promise<void>;
  /** Closes sockets when the call has been answered, where that takes a grace period of the kernel; at once where absent. */
  readonly later?: Later | undefined;
  /** What is configured for all pods. Not asked upon DEL and GC, which have to work without. */
  shared(): Shared;
  /** The pod's annotations, where the runtime has not handed them over; undefined when they cannot be known. */
  annotationsOf?(
    pod: PodArgs,
  ): Promise<Readonly<Record<string, string>> | undefined>;
  readonly probes: Probes;
  /** Receives what an ADD has decided. */
  note?(decided: Decided): void;
  /** Receives why the network refuses the pod, before the call fails. */
  found?(problem: NetworkProblem): void;
  /** Says what is odd, but does not make the call fail. */
  warn(message: string, fields: Readonly<Record<string, unknown>>): void;
}

/** The namespaces of one call, opened. */
export interface Kernel extends Pick<Outside, "writeSysctl"> {
  readonly netns: Netns;
  readonly hostNetns?: Netns | undefined;
  readonly pod: Routes;
  readonly host: Routes;
  readonly filters: Filters;
}
