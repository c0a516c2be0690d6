import type { Address } from "../../inet/mod.ts";
import type { Route, Rule } from "../../netlink/mod.ts";
import type { Place } from "./state.ts";

/** A route, with the name of the link that it leaves by. */
export interface DeviceRoute extends Omit<Route, "index" | "hops"> {
  readonly device: string;
}

/** A neighbour that never expires. */
export interface FixedNeighbour {
  readonly device: string;
  readonly address: Address;
  readonly mac: string;
}

/** What an attachment changes of a link. */
export interface LinkSetting {
  readonly up?: true;
  readonly txQueueLength?: number;
  readonly mac?: string;
}

/** One thing that should be there, or should not. Each can be compared with the kernel, made, and undone. */
export type Step =
  | { readonly kind: "rule"; readonly place: Place; readonly rule: Rule }
  | { readonly kind: "noRule"; readonly place: Place; readonly rule: Rule }
  | {
    readonly kind: "route";
    readonly place: Place;
    readonly route: DeviceRoute;
  }
  | {
    readonly kind: "noRoute";
    readonly place: Place;
    readonly route: DeviceRoute;
  }
  | {
    readonly kind: "neighbour";
    readonly place: Place;
    readonly neighbour: FixedNeighbour;
  }
  | {
    readonly kind: "noNeighbour";
    readonly place: Place;
    readonly neighbour: FixedNeighbour;
  }
  | {
    readonly kind: "address";
    readonly device: string;
    readonly address: Address;
  }
  | {
    readonly kind: "link";
    readonly device: string;
    readonly setting: LinkSetting;
  }
  | {
    readonly kind: "sysctl";
    readonly place: Place;
    readonly name: string;
    readonly value: string;
  }
  /** The nf_tables table that marks what comes from the host, and the answers to it. */
  | { readonly kind: "replies" };

/** A step of that kind. */
export type StepOf<K extends Step["kind"]> = Extract<Step, { kind: K }>;

/** A step that rtnetlink carries out. */
export type NetlinkStep = Exclude<Step, StepOf<"sysctl"> | StepOf<"replies">>;

/** Whether rtnetlink carries out the step. */
export function isNetlinkStep(step: Step): step is NetlinkStep {
  return step.kind !== "sysctl" && step.kind !== "replies";
}
