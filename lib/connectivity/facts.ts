import { fieldsOf, isJsonObject } from "../json/mod.ts";

/** The next hop towards an address, as the kernel chooses it. */
export interface Way {
  readonly link: string;
  readonly mtu: number;
  /** Absent when the address is on the link. */
  readonly gateway?: string | undefined;
  /** Whether no route but the default one leads there. */
  readonly isDefault: boolean;
}

/** A node's facts about an address. */
export interface AddressFacts {
  /** The link of the host route to it: it is a pod's of this node, and has such a route. */
  readonly podLink?: string | undefined;
  /** Absent: the kernel has none. */
  readonly way?: Way | undefined;
}

/** Facts of a node's kernel about addresses. */
export interface NodeFacts {
  /** Families whose packets it forwards. */
  readonly forwards: readonly string[];
  readonly addresses: Readonly<Record<string, AddressFacts>>;
}

/** Reads what a node wrote, which may be hostile. @throws {SyntaxError} when it is something else */
export function parseFacts(text: string): NodeFacts {
  const { forwards, addresses } = fieldsOf(JSON.parse(text));
  if (!Array.isArray(forwards) || !isJsonObject(addresses)) {
    throw new SyntaxError("its answer has another form");
  }
  return {
    forwards: forwards.map(String),
    addresses: Object.fromEntries(
      Object.entries(addresses).map(([address, value]) => {
        const { podLink, way } = fieldsOf(value);
        return [address, { podLink: textOf(podLink), way: wayOf(way) }];
      }),
    ),
  };
}

function wayOf(value: unknown): Way | undefined {
  if (!isJsonObject(value)) return undefined;
  const { link, mtu, gateway, isDefault } = value;
  return {
    link: textOf(link) ?? "",
    mtu: Number(mtu),
    gateway: textOf(gateway),
    isDefault: isDefault === true,
  };
}

/** Names of links and addresses are short. */
function textOf(value: unknown): string | undefined {
  return typeof value === "string" && /^[\w.:@%-]{1,64}$/.test(value)
    ? value
    : undefined;
}
