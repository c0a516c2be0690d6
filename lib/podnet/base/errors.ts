import { messageOf } from "../../errors/mod.ts";

/** The network namespace of a pod is not there: the file is missing, or names something else. */
export class NetnsNotFoundError extends Error {
  /** The class, for logs. */
  override readonly name: string = "NetnsNotFoundError";
  /** The path as the runtime gave it. */
  readonly path: string;

  /** `cause` is the error of opening it. */
  constructor(path: string, options: { cause: unknown }) {
    super(
      `Cannot enter network namespace "${path}": ${messageOf(options.cause)}`,
      options,
    );
    this.path = path;
  }
}

/** The pod already has an interface of the wanted name, and it is not ours to touch. */
export class IfnameTakenError extends Error {
  /** The class, for logs. */
  override readonly name: string = "IfnameTakenError";
  /** The interface's name. */
  readonly ifname: string;

  /** Names both, for the operator. */
  constructor(ifname: string, netnsPath: string) {
    super(
      `Cannot create interface "${ifname}" in network namespace "${netnsPath}": the name is taken`,
    );
    this.ifname = ifname;
  }
}

/** The pod has no interface of the name under which another plugin said to have made one. */
export class IfnameMissingError extends Error {
  /** The class, for logs. */
  override readonly name: string = "IfnameMissingError";

  /** Names both, for the operator. */
  constructor(ifname: string, netnsPath: string) {
    super(
      `Cannot find interface "${ifname}" in network namespace "${netnsPath}": the previous plugin must create it`,
    );
  }
}

/** A link's alias cannot hold what it is to name. */
export class LinkNameError extends Error {
  /** The class, for logs. */
  override readonly name: string = "LinkNameError";
}

/** Findings of `check()`, one sentence each. */
export class PodCheckError extends Error {
  /** The class, for logs. */
  override readonly name: string = "PodCheckError";
  /** What is missing or wrong. */
  readonly problems: readonly string[];

  /** `problems` has at least one sentence. */
  constructor(containerId: string, problems: readonly string[]) {
    super(
      `Cannot confirm the network of container "${containerId}": ${
        problems.join("; ")
      }`,
    );
    this.problems = problems;
  }
}
