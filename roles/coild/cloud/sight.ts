import { tryParseJsonObject } from "../../../lib/json/mod.ts";
import { AwsNoAnswerError, type ImdsClient } from "../../../lib/aws/mod.ts";
import {
  Address,
  type DualStack,
  type Family,
  mapDualStack,
  Prefix,
} from "../../../lib/inet/mod.ts";
import type { ImdsEni } from "../../../lib/vpc/mod.ts";

const MACS = "meta-data/network/interfaces/macs";

/** Properties of an ENI that do not change while it is attached. */
export interface EniFacts {
  readonly id: string;
  readonly device: number;
  readonly mac: string;
  /** Its own addresses, which no pod gets. */
  readonly addresses: DualStack<Address>;
  readonly subnets: DualStack<Prefix>;
}

/** The instance's ENIs as its metadata show them. */
export interface Sight {
  readonly enis: readonly ImdsEni[];
  /** By the ENI's ID; those that have IPv4. */
  readonly facts: ReadonlyMap<string, EniFacts>;
  readonly vpcCidrs: readonly Prefix[];
}

/** One ENI, as it is seen now. */
interface Seen {
  readonly facts: EniFacts;
  readonly eni: ImdsEni;
}

/** Subnets that another ENI of the same VPC has. */
type Near = () => Promise<DualStack<Prefix>>;

/** JSON with what is known of the instance at its start; does not change. */
const DOCUMENT = "dynamic/instance-identity/document";

/** Which instance this is. */
export interface Instance {
  readonly id: string;
  readonly type: string;
  readonly region: string;
}

/** Asks the metadata service which instance this is. @throws as {@linkcode ImdsClient.get} */
export async function readInstance(
  imds: ImdsClient,
  options: { readonly signal: AbortSignal },
): Promise<Instance> {
  const document = tryParseJsonObject(await imds.get(DOCUMENT, options));
  if (document === undefined) {
    throw new AwsNoAnswerError(
      "Cannot read the instance metadata: the instance's document is not a JSON object",
    );
  }
  const text = (key: string): string => {
    const value = document[key];
    if (typeof value === "string" && value !== "") return value;
    throw new AwsNoAnswerError(
      `Cannot read the instance metadata: the instance's document has no "${key}"`,
    );
  };
  return {
    id: text("instanceId"),
    type: text("instanceType"),
    region: text("region"),
  };
}

/** Looks at the instance's ENIs by its metadata. What does not change is asked for once. */
export class MetadataSight {
  readonly #imds: ImdsClient;
  readonly #hasIpv6: boolean;
  #facts: ReadonlyMap<string, EniFacts> = new Map();

  constructor(imds: ImdsClient, families: readonly Family[]) {
    this.#imds = imds;
    this.#hasIpv6 = families.includes("ipv6");
  }

  /**
   * What is there now.
   *
   * @throws {ImdsError} or {AwsNoAnswerError} when any of it cannot be read: half of it would look like a loss
   */
  async look(options: { readonly signal: AbortSignal }): Promise<Sight> {
    const macs = (await this.#imds.list(`${MACS}/`, options))
      .map((line) => line.replace(/\/$/, ""));
    const looks: Promise<Seen>[] = [];
    for (const mac of macs) {
      // Most ENIs are in one subnet: only one of them is asked for it.
      const [first] = looks;
      const near = first && (async () => (await first).facts.subnets);
      looks.push(this.#lookAt(mac, { ...options, near }));
    }
    const found = await Promise.all(looks);
    const enis = found.map(({ eni }) => eni);
    const whole = found.map(({ facts }) => facts)
      .filter(({ addresses }) => addresses.ipv4 !== undefined);
    this.#facts = new Map(whole.map((facts) => [facts.mac, facts]));
    const facts = new Map(whole.map((facts) => [facts.id, facts]));
    if (facts.size < whole.length) {
      // One would be set up by the other's link, routes and addresses.
      throw new AwsNoAnswerError(
        "Cannot read the instance metadata: two network interfaces have one ID",
      );
    }
    return { enis, facts, vpcCidrs: await this.#vpcCidrs(macs, options) };
  }

  async #lookAt(
    mac: string,
    { near, ...options }: {
      readonly signal: AbortSignal;
      readonly near: Near | undefined;
    },
  ): Promise<Seen> {
    const local = this.#imds.list(`${MACS}/${mac}/local-ipv4s`, options);
    const [facts, addresses, prefixes, [ipv6]] = await Promise.all([
      this.#facts.get(mac) ?? this.#read(mac, { ...options, local, near }),
      local,
      this.#imds.list(`${MACS}/${mac}/ipv4-prefix`, options),
      this.#ofIpv6(`${MACS}/${mac}/ipv6-prefix`, options),
    ]);
    const blocks = [
      ...addresses.map((text) => Prefix.host(addressIn(text))),
      ...prefixes.map(prefixIn),
    ];
    const { id, device, subnets: { ipv4: subnet } } = facts;
    const block = ipv6 === undefined ? undefined : prefixIn(ipv6);
    return { facts, eni: { id, device, subnet, blocks, ipv6: block } };
  }

  /** The lines of a key that only nodes with IPv6 are asked for. */
  async #ofIpv6(
    path: string,
    options: { readonly signal: AbortSignal },
  ): Promise<string[]> {
    return this.#hasIpv6 ? await this.#imds.list(path, options) : [];
  }

  async #vpcCidrs(
    [mac]: readonly string[],
    options: { readonly signal: AbortSignal },
  ): Promise<Prefix[]> {
    if (mac === undefined) return [];
    const path = `${MACS}/${mac}/vpc-ipv4-cidr-blocks`;
    const cidrs = (await this.#imds.list(path, options)).map(prefixIn);
    if (cidrs.length > 0) return cidrs;
    // Without them all that pods send would be translated.
    throw new AwsNoAnswerError(
      `Cannot read the instance metadata: "${path}" is empty`,
    );
  }

  async #read(
    mac: string,
    { local, near, ...options }: {
      readonly signal: AbortSignal;
      /** The ENI's IPv4 addresses, its own first. */
      readonly local: Promise<readonly string[]>;
      readonly near: Near | undefined;
    },
  ): Promise<EniFacts> {
    const get = (key: string) =>
      this.#imds.get(`${MACS}/${mac}/${key}`, options);
    const [id, device, [address], [address6]] = await Promise.all([
      get("interface-id"),
      get("device-number"),
      local,
      this.#ofIpv6(`${MACS}/${mac}/ipv6s`, options),
    ]);
    // For EFA alone, or in a subnet of IPv6 alone: not for pods.
    if (address === undefined) {
      return { id, device: Number(device), mac, addresses: {}, subnets: {} };
    }
    const addresses = mapDualStack(dual(address, address6), addressIn);
    const known = await near?.();
    return {
      id,
      device: Number(device),
      mac,
      addresses,
      subnets: isWithin(addresses, known)
        ? known
        : await this.#subnetsOf(mac, options),
    };
  }

  async #subnetsOf(
    mac: string,
    options: { readonly signal: AbortSignal },
  ): Promise<DualStack<Prefix>> {
    const [ipv4, [ipv6]] = await Promise.all([
      this.#imds.get(`${MACS}/${mac}/subnet-ipv4-cidr-block`, options),
      this.#ofIpv6(`${MACS}/${mac}/subnet-ipv6-cidr-blocks`, options),
    ]);
    return mapDualStack(dual(ipv4, ipv6), prefixIn);
  }
}

/** Whether an ENI of these addresses is in a subnet: the subnets of a VPC do not overlap. */
function isWithin(
  addresses: DualStack<Address>,
  subnets: DualStack<Prefix> | undefined,
): subnets is DualStack<Prefix> {
  const { ipv4 } = addresses;
  return ipv4 !== undefined && subnets?.ipv4?.contains(ipv4) === true;
}

function dual(ipv4: string, ipv6: string | undefined): DualStack<string> {
  return ipv6 === undefined ? { ipv4 } : { ipv4, ipv6 };
}

function addressIn(text: string): Address {
  return Address.tryParse(text) ?? unreadable(text);
}

function prefixIn(text: string): Prefix {
  return Prefix.tryParse(text) ?? unreadable(text);
}

function unreadable(text: string): never {
  throw new AwsNoAnswerError(
    `Cannot read the instance metadata: "${text}" is neither an address nor a network`,
  );
}
