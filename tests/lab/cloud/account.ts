import { type Clock, systemClock } from "../../../lib/async/mod.ts";
import type { Address, Prefix } from "../../../lib/inet/mod.ts";
import { Prefix as Network } from "../../../lib/inet/mod.ts";
import {
  type CloudConfig,
  NO_DELAYS,
  type Pace,
  type VpcConfig,
} from "./config.ts";
import {
  type Eni,
  type EniAttachment,
  type Enis,
  enisOf,
  type Granted,
  type Instance,
  NOTHING,
  type Subnet,
  type Wanted,
} from "./eni.ts";
import { Ec2Error, invalidCombination, invalidValue } from "./errors.ts";
import { checkLimits, grant } from "./grants.ts";
import { INSTANCE_TYPES, type InstanceType } from "./instance_types.ts";
import { SubnetSpace, SubnetSpace6 } from "./subnet_space.ts";

/** A new ENI. */
export interface EniSpec {
  readonly subnetId: string;
  readonly securityGroups: readonly string[];
  readonly description: string;
  readonly tags: ReadonlyMap<string, string>;
  readonly wanted: Wanted;
}

/** A moment of the past that can still be seen. */
interface Moment {
  readonly sinceMs: number;
  readonly enis: Enis;
}

const MAX_DEVICE_INDEX = 99;
const MAX_TAGS = 50;

/** An account's VPC, its instances and ENIs. Every method either does all or throws an {@linkcode Ec2Error}. */
export class Account implements Disposable {
  readonly #clock: Clock;
  readonly #maxEnis: number;
  readonly #groups: ReadonlySet<string>;
  readonly #timers = new Set<Disposable>();
  readonly #listeners = new Set<(enis: Enis) => void>();
  /** The last one is now; older ones are kept as long as a lag can show them. */
  #moments: Moment[];
  #ids = 0;
  readonly region: string;
  readonly subnets: ReadonlyMap<string, Subnet>;
  readonly instances: ReadonlyMap<string, Instance>;
  vpc: VpcConfig;
  pace: Pace = NO_DELAYS;

  constructor(config: CloudConfig, clock: Clock = systemClock) {
    this.#clock = clock;
    this.#maxEnis = config.maxEnis ?? Infinity;
    this.#groups = new Set(config.securityGroups);
    this.#moments = [{ sinceMs: clock.nowMs(), enis: new Map() }];
    this.region = config.region;
    this.vpc = config.vpc;
    this.subnets = new Map(config.subnets.map((subnet) => {
      const { id, zone, cidr, cidr6 } = subnet;
      const space = new SubnetSpace(Network.parse(cidr));
      const space6 = cidr6 === undefined
        ? undefined
        : new SubnetSpace6(Network.parse(cidr6));
      return [id, { id, zone, space, space6 }];
    }));
    this.instances = new Map(config.instances.map((instance) => {
      const { id, subnet, securityGroups } = instance;
      const type = this.instanceType(instance.type);
      const tags = new Map(Object.entries(instance.tags ?? {}));
      const placed = { subnet: this.subnet(subnet), tags };
      return [id, { id, type, securityGroups, ...placed }];
    }));
    for (const { id, eniTags = {} } of config.instances) {
      this.#boot(this.#instance(id), new Map(Object.entries(eniTags)));
    }
  }

  [Symbol.dispose](): void {
    for (const timer of this.#timers) timer[Symbol.dispose]();
  }

  /** Gets all ENIs now, and after each change. */
  watch(listener: (enis: Enis) => void): void {
    this.#listeners.add(listener);
    listener(this.enis());
  }

  /** All ENIs as they were so long ago. */
  enis(lagMs: number = 0): Enis {
    const at = this.#clock.nowMs() - lagMs;
    const moment = this.#moments.findLast(({ sinceMs }) => sinceMs <= at) ??
      this.#moments[0];
    return moment?.enis ?? new Map();
  }

  instanceType(name: string): InstanceType {
    const type = INSTANCE_TYPES.get(name);
    if (type !== undefined) return type;
    throw new Ec2Error(
      "InvalidInstanceType",
      `The following supplied instance types do not exist: [${name}]`,
    );
  }

  create(spec: EniSpec): Eni {
    const subnet = this.subnet(spec.subnetId);
    this.#checkGroups(spec.securityGroups);
    checkTags(spec.tags);
    if (this.enis().size >= this.#maxEnis) {
      throw new Ec2Error(
        "NetworkInterfaceLimitExceeded",
        "Maximum number of network interfaces reached",
      );
    }
    const [primary] = subnet.space.take(1);
    if (primary === undefined) throw new Ec2Error("InternalError");
    const { securityGroups, description, tags, wanted } = spec;
    try {
      const id = this.#newId("eni");
      const mac = macOf(this.#ids);
      const granted = grant(subnet, wanted);
      const eni = { id, mac, subnet, primary, ...granted };
      return this.#put({ ...eni, securityGroups, description, tags });
    } catch (error) {
      subnet.space.release(primary);
      throw error;
    }
  }

  attach(
    eniId: string,
    to: { readonly instanceId: string; readonly deviceIndex: number },
  ): EniAttachment {
    const eni = this.eni(eniId);
    const instance = this.#instance(to.instanceId);
    this.#checkAttach(eni, { instance, deviceIndex: to.deviceIndex });
    const { attachMs } = this.pace;
    const attachment: EniAttachment = {
      id: this.#newId("eni-attach"),
      instance,
      deviceIndex: to.deviceIndex,
      status: attachMs > 0 ? "attaching" : "attached",
      deleteOnTermination: false,
      since: new Date().toISOString(),
    };
    this.#put({ ...eni, attachment });
    this.#later(attachMs, () => this.#settle(attachment.id, "attached"));
    return attachment;
  }

  #checkAttach(
    eni: Eni,
    to: { readonly instance: Instance; readonly deviceIndex: number },
  ): void {
    const { instance, deviceIndex } = to;
    if (eni.attachment !== undefined) {
      throw new Ec2Error(
        "InvalidNetworkInterface.InUse",
        `Interface: [${eni.id}] in use.`,
      );
    }
    if (eni.subnet.zone !== instance.subnet.zone) {
      throw invalidCombination(
        "You may not attach a network interface to an instance if they are not in the same availability zone",
      );
    }
    if (deviceIndex > MAX_DEVICE_INDEX) {
      throw invalidValue(`Device index ${deviceIndex} is out of range`);
    }
    const others = enisOf(this.enis(), instance.id);
    if (others.some((it) => it.attachment?.deviceIndex === deviceIndex)) {
      throw invalidValue(
        `Instance '${instance.id}' already has an interface attached at device index '${deviceIndex}'.`,
      );
    }
    const { enis, name } = instance.type;
    if (others.length >= enis) {
      throw new Ec2Error(
        "AttachmentLimitExceeded",
        `Interface count ${others.length + 1} exceeds the limit for ${name}`,
      );
    }
    checkLimits(eni, instance.type);
  }

  detach(attachmentId: string): void {
    const { id, attachment } = this.#attached(attachmentId);
    if (attachment.deviceIndex === 0) {
      throw new Ec2Error(
        "OperationNotPermitted",
        "The network interface at device index 0 cannot be detached.",
      );
    }
    if (attachment.status === "detaching") {
      throw new Ec2Error(
        "IncorrectState",
        `Attachment ${attachmentId} of ${id} is detaching`,
      );
    }
    this.#settle(attachmentId, "detaching");
    this.#later(this.pace.detachMs, () => this.#settle(attachmentId, "gone"));
  }

  delete(eniId: string): void {
    const eni = this.eni(eniId);
    if (eni.attachment !== undefined) {
      throw invalidValue(
        `Network interface '${eniId}' is currently in use.`,
      );
    }
    const { space, space6 } = eni.subnet;
    for (const address of [eni.primary, ...eni.secondary, ...eni.prefixes]) {
      space.release(address);
    }
    for (const prefix of eni.prefixes6) space6?.release(prefix);
    this.#change((enis) => void enis.delete(eniId));
  }

  assign(eniId: string, wanted: Wanted): Granted {
    const eni = this.eni(eniId);
    const type = eni.attachment?.instance.type;
    if (type !== undefined) checkLimits(eni, type, wanted);
    const granted = grant(eni.subnet, wanted);
    this.#put({
      ...eni,
      secondary: [...eni.secondary, ...granted.secondary],
      prefixes: [...eni.prefixes, ...granted.prefixes],
      addresses6: [...eni.addresses6, ...granted.addresses6],
      prefixes6: [...eni.prefixes6, ...granted.prefixes6],
    });
    return granted;
  }

  unassign(
    eniId: string,
    what: {
      readonly addresses: readonly Address[];
      readonly prefixes: readonly Prefix[];
    },
  ): void {
    const eni = this.eni(eniId);
    const addresses = new Set(what.addresses.map(String));
    const prefixes = new Set(what.prefixes.map(String));
    const left = eni.secondary.filter((it) => !addresses.has(`${it}`));
    const leftPrefixes = eni.prefixes.filter((it) => !prefixes.has(`${it}`));
    const gone = eni.secondary.length - left.length;
    const gonePrefixes = eni.prefixes.length - leftPrefixes.length;
    if (gone < addresses.size || gonePrefixes < prefixes.size) {
      throw invalidValue(
        `Some of the specified addresses are not assigned to interface ${eniId}`,
      );
    }
    for (const it of [...what.addresses, ...what.prefixes]) {
      eni.subnet.space.release(it);
    }
    this.#put({ ...eni, secondary: left, prefixes: leftPrefixes });
  }

  setGroups(eniId: string, securityGroups: readonly string[]): void {
    this.#checkGroups(securityGroups);
    this.#put({ ...this.eni(eniId), securityGroups });
  }

  setDescription(eniId: string, description: string): void {
    this.#put({ ...this.eni(eniId), description });
  }

  setDeleteOnTermination(
    eniId: string,
    to: { readonly attachmentId: string; readonly value: boolean },
  ): void {
    const { id, attachment, ...eni } = this.#attached(to.attachmentId);
    if (id !== eniId) throw attachmentNotFound(to.attachmentId);
    const changed = { ...attachment, deleteOnTermination: to.value };
    this.#put({ ...eni, id, attachment: changed });
  }

  tag(eniId: string, tags: ReadonlyMap<string, string>): void {
    const eni = this.eni(eniId);
    const all = new Map([...eni.tags, ...tags]);
    checkTags(all);
    this.#put({ ...eni, tags: all });
  }

  /** @throws {Ec2Error} when there is none */
  eni(id: string, enis: Enis = this.enis()): Eni {
    const eni = enis.get(id);
    if (eni !== undefined) return eni;
    throw new Ec2Error(
      "InvalidNetworkInterfaceID.NotFound",
      `The networkInterface ID '${id}' does not exist`,
    );
  }

  #boot(instance: Instance, tags: ReadonlyMap<string, string>): void {
    const { id, subnet, securityGroups } = instance;
    const wanted = { ...NOTHING, addresses6: subnet.space6 ? 1 : 0 };
    const spec = { description: "", securityGroups, tags, wanted };
    const eni = this.create({ ...spec, subnetId: subnet.id });
    const to = { instanceId: id, deviceIndex: 0 };
    const attachment = this.attach(eni.id, to);
    this.setDeleteOnTermination(eni.id, {
      attachmentId: attachment.id,
      value: true,
    });
  }

  /** @throws {Ec2Error} when there is none */
  subnet(id: string): Subnet {
    const subnet = this.subnets.get(id);
    if (subnet !== undefined) return subnet;
    throw new Ec2Error(
      "InvalidSubnetID.NotFound",
      `The subnet ID '${id}' does not exist`,
    );
  }

  #instance(id: string): Instance {
    const instance = this.instances.get(id);
    if (instance !== undefined) return instance;
    throw new Ec2Error(
      "InvalidInstanceID.NotFound",
      `The instance ID '${id}' does not exist`,
    );
  }

  #attached(
    attachmentId: string,
  ): Eni & { readonly attachment: EniAttachment } {
    for (const eni of this.enis().values()) {
      const { attachment } = eni;
      if (attachment?.id === attachmentId) return { ...eni, attachment };
    }
    throw attachmentNotFound(attachmentId);
  }

  #checkGroups(groups: readonly string[]): void {
    for (const group of groups) {
      if (this.#groups.has(group)) continue;
      throw new Ec2Error(
        "InvalidGroup.NotFound",
        `The security group '${group}' does not exist`,
      );
    }
  }

  /** Moves an attachment on; one that is gone by then, or detached again, stays as it is. */
  #settle(
    attachmentId: string,
    status: EniAttachment["status"] | "gone",
  ): void {
    const eni = [...this.enis().values()]
      .find(({ attachment }) => attachment?.id === attachmentId);
    const now = eni?.attachment;
    if (eni === undefined || now === undefined) return;
    if (status === "attached" && now.status !== "attaching") return;
    const attachment = status === "gone" ? undefined : { ...now, status };
    this.#put({ ...eni, attachment });
  }

  #later(ms: number, what: () => void): void {
    if (ms === 0) return what();
    const timer = this.#clock.after(ms, () => {
      this.#timers.delete(timer);
      what();
    });
    this.#timers.add(timer);
  }

  #newId(kind: string): string {
    return `${kind}-${(++this.#ids).toString(16).padStart(17, "0")}`;
  }

  #put(eni: Eni): Eni {
    this.#change((enis) => void enis.set(eni.id, eni));
    return eni;
  }

  #change(edit: (enis: Map<string, Eni>) => void): void {
    const enis = new Map(this.enis());
    edit(enis);
    const now = this.#clock.nowMs();
    const { describeLagMs, imdsLagMs } = this.pace;
    const oldest = now - Math.max(describeLagMs, imdsLagMs);
    const first = this.#moments.findLastIndex((it) => it.sinceMs <= oldest);
    this.#moments = [
      ...this.#moments.slice(Math.max(first, 0)),
      { sinceMs: now, enis },
    ];
    for (const listener of this.#listeners) listener(enis);
  }
}

function attachmentNotFound(id: string): Ec2Error {
  return new Ec2Error(
    "InvalidAttachmentID.NotFound",
    `The attachment '${id}' does not exist.`,
  );
}

/** Locally administered, as those of ENIs are. */
function macOf(number: number): string {
  const hex = number.toString(16).padStart(10, "0");
  return `0a:${hex.match(/../g)?.join(":")}`;
}

function checkTags(tags: ReadonlyMap<string, string>): void {
  if (tags.size > MAX_TAGS) {
    throw new Ec2Error(
      "TagLimitExceeded",
      "The maximum number of tags for a resource has been reached.",
    );
  }
  if ([...tags.keys()].some((key) => key.toLowerCase().startsWith("aws:"))) {
    throw invalidValue(
      "Tag keys starting with 'aws:' are reserved for internal use",
    );
  }
}
