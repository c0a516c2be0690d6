import {
  Backoff,
  type Clock,
  retry,
  systemClock,
} from "../../../lib/async/mod.ts";
import {
  type Attempt,
  CallBudget,
  credentialSourceOf,
  Ec2Client,
  endpointOf,
  ImdsClient,
  type NetworkInterface,
} from "../../../lib/aws/mod.ts";
import { ENI_INSTANCE_TAG } from "../../../lib/names/mod.ts";
import { getLogger } from "../../../lib/telemetry/mod.ts";
import {
  type Action,
  checkTargets,
  type Ec2Eni,
  type EniOutcome,
  type Goal,
  type Limits,
  narrowLimits,
} from "../../../lib/vpc/mod.ts";
import { eniOf, perform } from "./calls.ts";
import type { VpcOptions } from "./options.ts";
import { type Instance, readInstance } from "./sight.ts";

const log = getLogger("vpc");

/** Between attempts at the start; what calls of AWS wait by themselves comes on top. */
const START = { initialMs: 500, maxMs: 30_000 };

export interface NodeAccountOptions {
  readonly options: VpcOptions;
  readonly env: Pick<Deno.Env, "get">;
  readonly onAttempt: (attempt: Attempt) => void;
  /** Default: the machine's. */
  readonly clock?: Clock | undefined;
}

/** The instance, and EC2 of its region. */
interface Known {
  readonly instance: Instance;
  readonly ec2: Ec2Client;
}

/** EC2 as this instance sees it. */
export class NodeAccount implements Disposable {
  readonly imds: ImdsClient;
  readonly #options: NodeAccountOptions;
  /** When attachments were first seen, by their IDs. */
  readonly #since = new Map<string, number>();
  #known: Known | undefined;
  #goal: Goal | undefined;

  constructor(options: NodeAccountOptions) {
    this.#options = options;
    this.imds = new ImdsClient({ env: options.env });
  }

  /** Which instance this is; undefined before the start. */
  get instance(): Instance | undefined {
    return this.#known?.instance;
  }

  /** What the node is to have; undefined before {@linkcode readLimits}. */
  get goal(): Goal | undefined {
    return this.#goal;
  }

  /** Finds out which instance this is. Tries again until the signal. */
  async open(signal: AbortSignal): Promise<void> {
    const instance = await this.#retry(
      () => readInstance(this.imds, { signal }),
      signal,
    );
    this.#known = { instance, ec2: this.#connect(instance) };
  }

  /**
   * Asks EC2 what the instance's type allows. Tries again until the signal.
   *
   * @throws {RangeError} when that is less than the flags say
   */
  async readLimits(signal: AbortSignal): Promise<void> {
    const { ec2, instance: { id, type } } = this.#opened();
    const goal = this.#goal = await this.#retry(async () => {
      const allowed = await ec2.describeInstanceType(type, { signal });
      return goalOf(this.#options.options, {
        enis: allowed.maxInterfaces,
        addressesPerEni: allowed.ipv4PerInterface,
        prefixes: allowed.hypervisor === "nitro" || allowed.isBareMetal,
      });
    }, signal);
    log.info("Assigning addresses of the VPC to pods", {
      instance: id,
      type,
      ...goal.limits,
      mode: goal.targets.kind,
    });
  }

  #retry<T>(read: () => Promise<T>, signal: AbortSignal): Promise<T> {
    return retry(read, {
      signal,
      backoff: new Backoff(START),
      shouldRetry(err) {
        if (err instanceof RangeError) return false;
        log.warn("Cannot read the limits of this instance; retrying", {
          err,
        });
        return true;
      },
    });
  }

  #connect({ region }: Instance): Ec2Client {
    const { env, onAttempt } = this.#options;
    const { imds } = this;
    return new Ec2Client({
      region,
      endpoint: endpointOf("ec2", { region, env }),
      credentials: credentialSourceOf({ env, region, imds }),
      budget: new CallBudget({ onAttempt }),
    });
  }

  /** The instance's ENIs, and, if asked for, those of this node that no instance has. */
  async list(
    { loose, signal }: {
      readonly loose: boolean;
      readonly signal: AbortSignal;
    },
  ): Promise<NetworkInterface[]> {
    const { ec2, instance: { id } } = this.#opened();
    const ofInstance = { "attachment.instance-id": [id] };
    const ofNode = {
      [`tag:${ENI_INSTANCE_TAG}`]: [id],
      "status": ["available"],
    };
    const lists = await Promise.all([
      ec2.describeNetworkInterfaces(ofInstance, { signal }),
      loose ? ec2.describeNetworkInterfaces(ofNode, { signal }) : [],
    ]);
    // The second list may be younger than the first.
    const enis = lists.flat()
      .map((eni) => [eni.networkInterfaceId, eni] as const);
    return [...new Map(enis).values()];
  }

  /** ENIs in the terms of the plan. */
  enisOf(list: readonly NetworkInterface[]): Ec2Eni[] {
    const view = this.#view();
    return list.map((eni) => eniOf(eni, view));
  }

  /** Makes a call of the plan. Never throws. */
  async perform(
    action: Action,
    { groups, ...options }: {
      /** Security groups of new ENIs. */
      readonly groups: readonly string[];
      readonly onError: (error: unknown) => void;
      /** After it the call is not sent any longer; one that was sent goes on. */
      readonly signal: AbortSignal;
    },
  ): Promise<EniOutcome> {
    const { ec2, instance: { id: instanceId } } = this.#opened();
    const { clusterName, eniTags: tags, families } = this.#options.options;
    const hasIpv6 = families.includes("ipv6");
    const template = { instanceId, groups, clusterName, tags, hasIpv6 };
    return await perform(action, {
      ec2,
      template,
      view: this.#view(),
      ...options,
    });
  }

  [Symbol.dispose](): void {
    this.imds[Symbol.dispose]();
    this.#known?.ec2[Symbol.dispose]();
  }

  #opened(): Known {
    if (this.#known !== undefined) return this.#known;
    throw new Error(
      "Cannot call EC2: it is not known yet which instance this is",
    );
  }

  #view() {
    const { options: { manageUntagged }, clock = systemClock } = this.#options;
    return {
      instanceId: this.#known?.instance.id ?? "",
      manageUntagged,
      since: (id: string) => {
        const since = this.#since.get(id) ?? clock.nowMs();
        this.#since.set(id, since);
        return since;
      },
    };
  }
}

/** @throws {RangeError} when the type does not allow what the options say */
function goalOf(options: VpcOptions, type: Limits): Goal {
  const { mode, maxEnis, eniLimits } = options;
  const limits = narrowLimits(type, { maxEnis, eniLimits });
  if (options.families.includes("ipv6") && !type.prefixes) {
    throw new RangeError(
      "Cannot give pods IPv6 addresses: the instance type allows no prefixes",
    );
  }
  const isPrefix = mode === "prefix" || (mode === "auto" && type.prefixes);
  const goal: Goal = {
    limits,
    targets: {
      kind: isPrefix ? "prefix" : "address",
      warmEnis: options.warmEnis,
      warmIps: options.warmIps,
      minIps: options.minIps,
      warmPrefixes: options.warmPrefixes,
      free: options.free,
      maxPods: Infinity,
    },
  };
  checkTargets(goal);
  return goal;
}
