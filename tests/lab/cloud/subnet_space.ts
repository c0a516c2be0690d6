import { type Address, Prefix } from "../../../lib/inet/mod.ts";
import { Ec2Error, invalidValue } from "./errors.ts";

/** AWS keeps the first four addresses of a subnet, and the last. */
const RESERVED_FIRST = 4;
/** Of IPv4 and of IPv6, as EC2 delegates them. */
const LENGTH4 = 28;
const LENGTH6 = 80;
const PREFIX_SIZE = 16;

/** The IPv4 addresses of a subnet: which are in use, and which come next. */
export class SubnetSpace {
  readonly cidr: Prefix;
  readonly #used = new Set<number>();

  constructor(cidr: Prefix) {
    this.cidr = cidr;
    for (let i = 0; i < RESERVED_FIRST; i++) this.#used.add(i);
    this.#used.add(this.#size - 1);
  }

  get #size(): number {
    return Number(this.cidr.size);
  }

  get free(): number {
    return this.#size - this.#used.size;
  }

  /** Takes the lowest free addresses. @throws {Ec2Error} when there are too few */
  take(count: number): Address[] {
    if (count > this.free) {
      throw new Ec2Error("InsufficientFreeAddressesInSubnet");
    }
    const taken: Address[] = [];
    for (let i = 0; taken.length < count; i++) {
      if (this.#used.has(i)) continue;
      this.#used.add(i);
      taken.push(this.cidr.nth(BigInt(i)));
    }
    return taken;
  }

  /** Takes the lowest /28s of which no address is in use. @throws {Ec2Error} when there are too few */
  takePrefixes(count: number): Prefix[] {
    const taken: Prefix[] = [];
    for (let i = 0; i < this.#size && taken.length < count; i += PREFIX_SIZE) {
      const prefix = Prefix.of(this.cidr.nth(BigInt(i)), LENGTH4);
      if (this.#positions(prefix).every((at) => !this.#used.has(at))) {
        taken.push(prefix);
      }
    }
    if (taken.length < count) throw new Ec2Error("InsufficientCidrBlocks");
    for (const prefix of taken) this.takeThis(prefix);
    return taken;
  }

  /** Takes what was asked for by its address. @throws {Ec2Error} when it is not in the subnet, or in use */
  takeThis(wanted: Address | Prefix): void {
    if (!this.cidr.contains(wanted)) {
      throw invalidValue(
        `Address ${wanted} does not fall within the subnet's address range`,
      );
    }
    const positions = this.#positions(wanted);
    if (positions.some((at) => this.#used.has(at))) {
      throw new Ec2Error(
        "InvalidIPAddress.InUse",
        `Address ${wanted} is in use.`,
      );
    }
    for (const at of positions) this.#used.add(at);
  }

  release(returned: Address | Prefix): void {
    for (const at of this.#positions(returned)) this.#used.delete(at);
  }

  #positions(what: Address | Prefix): number[] {
    if (!(what instanceof Prefix)) return [Number(this.cidr.indexOf(what))];
    const first = Number(this.cidr.indexOf(what.address));
    return Array.from({ length: PREFIX_SIZE }, (_, i) => first + i);
  }
}

/** The IPv6 prefixes of a subnet, a /64. The first /80 is that of single addresses. */
export class SubnetSpace6 {
  readonly cidr: Prefix;
  readonly #used = new Set<bigint>([0n]);
  #nextAddress = 16n;

  constructor(cidr: Prefix) {
    this.cidr = cidr;
  }

  take(count: number): Address[] {
    return Array.from(
      { length: count },
      () => this.cidr.nth(this.#nextAddress++),
    );
  }

  takePrefixes(count: number): Prefix[] {
    const taken: Prefix[] = [];
    for (let i = 0n; taken.length < count; i++) {
      if (this.#used.has(i)) continue;
      this.#used.add(i);
      taken.push(this.cidr.subnet(LENGTH6, i));
    }
    return taken;
  }

  release(prefix: Prefix): void {
    const width = BigInt(prefix.hostBits);
    this.#used.delete(this.cidr.indexOf(prefix.address) >> width);
  }
}
