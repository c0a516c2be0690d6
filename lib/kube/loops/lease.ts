import type { KubeClient } from "../client/client.ts";
import { KubeApiError } from "../http/errors.ts";
import type { CallOptions } from "../http/options.ts";
import { LEASES } from "../api/resource.ts";
import type { V1Lease } from "../api/objects.ts";

/** Of our writes that are under way one at most changes the lease: all of them have the version that was read last. */
const RELEASE_TRIES = 2;

/** Who wants or has a lease, and for how long. */
export interface LeaseClaim {
  readonly namespace: string;
  readonly name: string;
  readonly identity: string;
  readonly leaseMs: number;
}

/**
 * Takes and renews a lease. Judges it by when we saw it change, never by the times in it: clocks of machines differ and
 * jump.
 */
export class LeaseKeeper {
  readonly #client: KubeClient;
  readonly #claim: LeaseClaim;
  readonly #nowMs: () => number;
  /** As we wrote it last. */
  #ours: V1Lease | undefined;
  #seenVersion: string | undefined;
  #seenMs = 0;
  #freeMs = Infinity;
  #renewedMs = -Infinity;
  /** Whether a claim was sent since the last release: etcd may have it without an answer. */
  #mayHold = false;

  constructor(
    client: KubeClient,
    options: { claim: LeaseClaim; nowMs: () => number },
  ) {
    this.#client = client;
    this.#claim = options.claim;
    this.#nowMs = options.nowMs;
  }

  /** When the claim that was accepted last left us: from then on others may count its time. */
  get renewedMs(): number {
    return this.#renewedMs;
  }

  /** How long the lease that was seen last stays another process's, unless it is renewed or given up. */
  get leftMs(): number {
    return this.#freeMs - this.#nowMs();
  }

  /** Takes the lease or renews it; false when another process has it. Fails as the client's calls do. */
  async acquire(call: CallOptions): Promise<boolean> {
    if (this.#ours !== undefined && await this.#write(this.#ours, call)) {
      return true;
    }
    const lease = await this.#read(call);
    if (lease !== undefined && !this.#isFree(lease)) return false;
    return await this.#write(lease, call);
  }

  /** Writes our claim; false when the lease has changed. */
  async #write(
    lease: V1Lease | undefined,
    call: CallOptions,
  ): Promise<boolean> {
    this.#ours = undefined;
    const spec = specOf(this.#claim, lease);
    const sentMs = this.#nowMs();
    this.#mayHold = true;
    try {
      this.#ours = await this.#put(lease, spec, call);
      this.#renewedMs = sentMs;
      return true;
    } catch (err) {
      const lost = err instanceof KubeApiError &&
        (err.isConflict || err.isAlreadyExists || err.isNotFound);
      if (lost) return false;
      throw err;
    }
  }

  /** Gives the lease up, so that the next one need not wait for its end. Makes no request when we have not claimed it. */
  async release(options: { timeoutMs: number }): Promise<void> {
    if (!this.#mayHold) return;
    this.#mayHold = false;
    for (let tries = 1;; tries++) {
      try {
        return await this.#tryRelease(options);
      } catch (err) {
        // A claim that was aborted on its way may change the lease after the read; or an answer is lost.
        if (tries === RELEASE_TRIES) throw err;
      }
    }
  }

  async #tryRelease(options: { timeoutMs: number }): Promise<void> {
    const lease = await this.#read(options);
    const holder = lease?.spec?.holderIdentity ?? "";
    if (holder !== "" && holder !== this.#claim.identity) return;
    // Written also where it is free: a claim that is still on its way is refused then.
    const spec = {
      ...lease?.spec,
      holderIdentity: "",
      leaseDurationSeconds: 1,
      renewTime: microTime(),
    };
    await this.#put(lease, spec, options);
  }

  async #read(call: CallOptions): Promise<V1Lease | undefined> {
    const { namespace, name } = this.#claim;
    return await this.#client.tryGet(LEASES, { namespace, name, ...call });
  }

  /** Writes what is to be in place of what was read; refused when another process was faster. */
  async #put(
    lease: V1Lease | undefined,
    spec: NonNullable<V1Lease["spec"]>,
    call: CallOptions,
  ): Promise<V1Lease> {
    const { namespace, name } = this.#claim;
    return lease === undefined
      ? await this.#client.create(
        LEASES,
        { metadata: { namespace, name }, spec },
        call,
      )
      : await this.#client.update(LEASES, { ...lease, spec }, call);
  }

  #isFree(lease: V1Lease): boolean {
    const version = lease.metadata?.resourceVersion;
    if (version !== this.#seenVersion) {
      this.#seenVersion = version;
      this.#seenMs = this.#nowMs();
    }
    const holder = lease.spec?.holderIdentity ?? "";
    if (holder === "" || holder === this.#claim.identity) return true;
    const leaseMs = (lease.spec?.leaseDurationSeconds ?? 0) * 1000;
    this.#freeMs = this.#seenMs + leaseMs;
    return this.leftMs <= 0;
  }
}

function specOf(
  claim: LeaseClaim,
  lease: V1Lease | undefined,
): NonNullable<V1Lease["spec"]> {
  const now = microTime();
  const old = lease?.spec;
  const isRenewal = old?.holderIdentity === claim.identity;
  const transitions = old?.leaseTransitions ?? 0;
  return {
    ...old,
    holderIdentity: claim.identity,
    leaseDurationSeconds: Math.ceil(claim.leaseMs / 1000),
    acquireTime: (isRenewal ? old?.acquireTime : undefined) ?? now,
    renewTime: now,
    leaseTransitions: old === undefined || isRenewal
      ? transitions
      : transitions + 1,
  };
}

/** The time in the form of `metav1.MicroTime`. */
function microTime(): string {
  return new Date().toISOString().replace("Z", "000Z");
}
