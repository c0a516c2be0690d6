import type { NetworkInterface } from "../../../lib/aws/mod.ts";
import type { Family } from "../../../lib/inet/mod.ts";
import {
  type Action,
  type Ec2Eni,
  type Eni,
  type EniCall,
  type EniOutcome,
  grantName,
  isBehind,
  isSettled,
  mergeEnis,
  unforgotten,
  withAnswers,
} from "../../../lib/vpc/mod.ts";
import type { Sight } from "./sight.ts";

export interface Ec2Look {
  readonly enis: readonly NetworkInterface[];
  /** When it was asked for. */
  readonly lookedAt: number;
}

/** All that is seen at one time. */
export interface Scene {
  readonly enis: readonly Eni[];
  readonly sight: Sight;
  readonly lookedAt: number;
}

const OF_LOOSE: readonly Action["kind"][] = [
  "create",
  "attach",
  "detach",
  "delete",
];

/** State of the ENIs by EC2 and the metadata service, with EC2's later answers. */
export class CloudView {
  readonly #enisOf: (list: readonly NetworkInterface[]) => Ec2Eni[];
  readonly #families: readonly Family[];
  #look: Ec2Look | undefined;
  #sight: Sight | undefined;
  #ended: readonly EniCall[] = [];
  /** Until something else is seen: making it takes most of a plan's time. */
  #scene: Scene | undefined;
  readonly #open = new Set<EniCall>();

  /** `enisOf` puts the ENIs of a list into the terms of the plan; `families` are those of pods. */
  constructor(
    enisOf: (list: readonly NetworkInterface[]) => Ec2Eni[],
    { families }: { readonly families: readonly Family[] },
  ) {
    this.#enisOf = enisOf;
    this.#families = families;
  }

  /** Calls that the next look may not show yet, and those under way. */
  get calls(): readonly EniCall[] {
    return [...this.#ended, ...this.#open];
  }

  /** Whether calls are under way. */
  get isCalling(): boolean {
    return this.#open.size > 0;
  }

  /** The security groups of the primary ENI. */
  get groups(): readonly string[] {
    const primary = this.#look?.enis.find(({ attachment }) =>
      attachment?.deviceIndex === 0
    );
    return primary?.groups ?? [];
  }

  /** All together; undefined before both have shown something. Forgets calls that are settled. */
  scene(): Scene | undefined {
    return this.#scene ??= this.#newScene();
  }

  #newScene(): Scene | undefined {
    const [look, sight] = [this.#look, this.#sight];
    if (look === undefined || sight === undefined) return undefined;
    const { lookedAt } = look;
    this.#ended = this.#unforgotten(look, sight);
    return { enis: this.#merge(look, sight), sight, lookedAt };
  }

  /** Takes EC2's list. */
  saw(look: Ec2Look): void {
    this.#look = look;
    this.#scene = undefined;
  }

  /** Takes what the metadata service shows. Returns whether it is news that EC2 has not explained: something came, or went. */
  sawMetadata(sight: Sight): boolean {
    const [look, before] = [this.#look, this.#sight];
    this.#sight = sight;
    this.#scene = undefined;
    if (look === undefined || before === undefined) return false;
    if (textOf(sight) === textOf(before)) return false;
    const merged = this.#merge(look, sight);
    const isNew = merged.some(({ ec2, grants }) =>
      ec2 === undefined || grants.some(({ inEc2 }) => !inEc2)
    );
    const shown = new Set(namesOf(merged));
    return isNew ||
      namesOf(this.#merge(look, before)).some((name) => !shown.has(name));
  }

  /** Records a call that begins. */
  begin(call: EniCall): void {
    this.#open.add(call);
  }

  /** Records how it ended. */
  end(
    call: EniCall,
    ended: { readonly at: number; readonly outcome: EniOutcome },
  ): void {
    this.#open.delete(call);
    this.#ended = [...this.#ended, { action: call.action, ended }];
    this.#scene = undefined;
  }

  /** Whether EC2's next list may show what is awaited. */
  get awaitsEc2(): boolean {
    const isUnknown = this.#ended.some(({ ended }) =>
      ended?.outcome.kind === "unknown"
    );
    return isUnknown || this.#isBehind || this.#enis.some(isMoving);
  }

  /** Whether the metadata service is behind EC2, or is to say whether EC2's list is behind. */
  get awaitsMetadata(): boolean {
    return this.#isBehind ||
      this.#enis.some(({ ec2, inImds, grants, ipv6 = [] }) => {
        if (ec2?.attachment?.state !== "attached") return inImds;
        const all = grants.concat(ipv6);
        return !inImds || all.some((grant) => !grant.inImds || !grant.inEc2);
      });
  }

  /** Whether ENIs of this node without an instance are to be expected. */
  get mayHaveLoose(): boolean {
    const { lookedAt = -Infinity } = this.#look ?? {};
    const isOfLoose = (call: EniCall) =>
      OF_LOOSE.includes(call.action.kind) && !isSettled(call, lookedAt);
    return this.#enis.some(isMoving) || this.calls.some(isOfLoose);
  }

  get #enis(): readonly Eni[] {
    return this.scene()?.enis ?? [];
  }

  #merge(look: Ec2Look, sight: Sight): Eni[] {
    const calls = this.#unforgotten(look, sight);
    return mergeEnis(
      withAnswers(this.#enisOf(look.enis), calls),
      sight.enis,
      this.#families,
    );
  }

  #unforgotten({ lookedAt }: Ec2Look, { enis: imds }: Sight): EniCall[] {
    return unforgotten(this.#ended, { lookedAt, imds });
  }

  get #isBehind(): boolean {
    const [look, sight] = [this.#look, this.#sight];
    if (look === undefined || sight === undefined) return false;
    const { enis, lookedAt } = look;
    const calls = this.#unforgotten(look, sight);
    return isBehind(this.#enisOf(enis), { calls, lookedAt });
  }
}

/** Whether EC2's list has it otherwise than attached; not at all, when only the metadata service shows it. */
function isMoving({ ec2 }: Eni): boolean {
  return ec2?.attachment?.state !== "attached";
}

/** What both EC2 and the metadata service show. */
function namesOf(enis: readonly Eni[]): string[] {
  return enis.filter(({ ec2, inImds }) =>
    inImds && ec2?.attachment?.state === "attached"
  ).flatMap(({ id, grants }) => [
    id,
    ...grants.filter(({ inEc2, inImds }) => inEc2 && inImds)
      .map(({ block }) => grantName(id, block)),
  ]);
}

// mutate: any separator.
function textOf({ enis }: Sight): string {
  return enis.map(({ id, blocks }) => `${id} ${blocks.map(String).sort()}`)
    .sort().join(" ");
}
