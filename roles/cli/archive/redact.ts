import { isJsonObject, tryParseJsonObject } from "../../../lib/json/mod.ts";
import { Address, type Family, Prefix } from "../../../lib/inet/mod.ts";
import { CONTROLLER_LEASES } from "../../../lib/names/mod.ts";

/** Names that say nothing of a cluster: those of every cluster, and Coil's own. */
const COMMON = new Set([
  ...["default", "kube-system", "kube-public", "kube-node-lease"],
  ...["localhost", "kubernetes", "coil-config", "egress"],
  ...["coil", "coild", "coil-controller", "coil-egress", "coil-router"],
  "coil-installer",
  ...CONTROLLER_LEASES,
]);

/** Fields with the name of an object, wherever they are, in objects and in log records. */
const NAME_FIELDS = new Set([
  ...["namespace", "nodeName", "node", "pod", "pool", "block", "egress"],
  ...["hostname", "holderIdentity", "host", "kubernetes.io/hostname"],
  ...["secretName", "serviceAccountName", "claimName"],
  // EC2's IDs.
  ...["instance", "subnet", "eni"],
  ...["coil.cybozu.com/pool", "coil.cybozu.com/node"],
]);

/** Labels and annotations that say what something is; others may say whose. */
const KEPT_LABEL =
  /^(?:coil\.cybozu\.com|egress\.coil\.cybozu\.com|app\.kubernetes\.io|kubernetes\.io|node\.kubernetes\.io)\//;

const IPV4 = /(?<!\d)\d{1,3}(?:\.\d{1,3}){3}(?:\/\d{1,2}(?!\d))?(?!\d)/;
const IPV6 =
  /(?:[0-9A-Fa-f]{0,4}:){2,8}(?:\d{1,3}(?:\.\d{1,3}){3}|[0-9A-Fa-f]{0,4})(?:\/\d{1,3})?(?![0-9A-Za-z])/;
const MAC = /\b[0-9A-Fa-f]{2}(?::[0-9A-Fa-f]{2}){5}\b/;
const WORD = /[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?/;
const ANY = new RegExp(
  `(?<mac>${MAC.source})|(?<ipv6>${IPV6.source})|(?<ipv4>${IPV4.source})|${WORD.source}`,
  "g",
);
/** Behind the hash in the name of a chain of kube-proxy's. */
const CHAIN_HASH = /(?<=-[A-Z2-7]{8}-)/;
/** What may be an IPv6 address with dots. */
const DOTTED_IPV6 = /(?<=__)[0-9a-f]{0,4}(?:\.[0-9a-f]{0,4}){2,7}(?=\/\d)/g;
/** In a word: what is before and after it. */
const INNER_IPV4 = new RegExp(`^(.*?)(${IPV4.source})(.*)$`);

/** What every machine has, or what is the same in every cluster: no address of it is replaced. */
const SAME_EVERYWHERE = [
  ...["127.0.0.0/8", "169.254.0.0/16", "224.0.0.0/4", "::1/128", "ff00::/8"],
  ...["0.0.0.0/32", "255.255.255.255/32", "::/128"],
].map((text) => Prefix.parse(text));
const LINK_LOCAL = Prefix.parse("fe80::/10");
/** Only the rest of a link-local address names an interface. */
const LINK_LOCAL_BITS = 64;

/**
 * Replaces names of objects and addresses, each by the same other one wherever
 * it stands. Addresses that had a prefix in common still have one, of the same
 * length: which block an address is of can be seen as before. What replaces
 * them is random, and is kept nowhere.
 */
export class Redactor {
  readonly #names = new Map<string, string>();
  readonly #macs = new Map<string, string>();
  readonly #random = new Uint8Array(4_096);
  #used = this.#random.length;
  readonly #bits: Record<Family, Bit> = {
    ipv4: this.#newBit(),
    ipv6: this.#newBit(),
  };
  readonly #addresses = new Map<string, string | undefined>();

  /** From now on replaces this name of an object. */
  learn(name: string): void {
    if (this.#aliasOf(name) !== undefined || !isName(name)) return;
    // Blocks have the name of their pool and a number.
    const [, of = "", number = ""] = /^(.+)-(\d{1,9})$/.exec(name) ?? [];
    const known = this.#aliasOf(of);
    const alias = known === undefined
      ? `name-${this.#names.size + 1}`
      : `${known}-${number}`;
    this.#names.set(name, alias);
  }

  /** The text without names that were learned, and without addresses. */
  text(text: string): string {
    return text.replaceAll(ANY, (match, ...rest) => {
      const { mac, ipv6, ipv4 } = rest.at(-1) as Partial<
        Record<string, string>
      >;
      if (mac !== undefined) return this.#mac(mac);
      if (ipv4 !== undefined) return this.#address(ipv4) ?? ipv4;
      if (ipv6 !== undefined) return this.#loosely(ipv6);
      return this.#words(match);
    });
  }

  /** A value of JSON likewise, after learning the names that it has. */
  json(value: unknown): unknown {
    for (const name of namesIn(value)) this.learn(name);
    return this.#json(value, "");
  }

  /** A file, by the format that its name says. */
  file(path: string, text: string): string {
    if (path.endsWith(".json")) return this.#lines(text, /,?$/);
    if (path.endsWith(".log")) return this.#lines(text, /$/);
    if (path.endsWith("nft_tables.txt")) return this.#packetFilter(text);
    // What is not quoted is names of metrics and numbers.
    if (path.endsWith("metrics.txt")) {
      return text.replaceAll(
        /"(?:[^"\\]|\\.)*"/g,
        (quoted) => this.text(quoted),
      );
    }
    return this.text(text);
  }

  /**
   * kube-proxy calls its chains `KIND-HASH-NAMESPACE/SERVICE/tcp/PORT`, with
   * `__ADDRESS/PORT` behind it for each endpoint, in which colons are dots
   * (pkg/proxy/nftables/proxier.go of Kubernetes).
   */
  #packetFilter(text: string): string {
    return text.split(CHAIN_HASH).map((part) => this.text(part)).join("")
      .replaceAll(
        DOTTED_IPV6,
        (dotted) => this.#address(dotted.replaceAll(".", ":")) ?? dotted,
      );
  }

  /** Lines of JSON, each read on its own; others are text. Names are learned from all of them first. */
  #lines(text: string, end: RegExp): string {
    const lines = text.split("\n").map((line) => {
      const tail = end.exec(line)?.[0] ?? "";
      const value = tryParseJsonObject(
        line.slice(0, line.length - tail.length),
      );
      for (const name of namesIn(value)) this.learn(name);
      return { line, tail, value };
    });
    return lines.map(({ line, tail, value }) =>
      value === undefined
        ? this.text(line)
        : JSON.stringify(this.#json(value, "")) + tail
    ).join("\n");
  }

  #json(value: unknown, field: string): unknown {
    if (typeof value === "string") {
      const isImage = field === "image" || field === "imageID";
      return this.text(isImage ? value.replace(/^.*\//, "") : value);
    }
    if (Array.isArray(value)) {
      return value.map((item) => this.#json(item, field));
    }
    if (!isJsonObject(value)) return value;
    const areLabels = ["labels", "annotations", "matchLabels", "nodeSelector"]
      .includes(field);
    const kept = Object.entries(value).filter(([key]) =>
      !areLabels || KEPT_LABEL.test(key)
    );
    return Object.fromEntries(kept.map((
      [key, item],
    ) => [field === "blocks" ? this.text(key) : key, this.#json(item, key)]));
  }

  #aliasOf(name: string): string | undefined {
    return COMMON.has(name) ? name : this.#names.get(name);
  }

  /** The longest beginning, up to a dot, that is a name is replaced; then what follows. */
  #words(text: string): string {
    const parts = text.split(".");
    for (let count = parts.length; count > 0; count--) {
      const alias = this.#aliasOf(parts.slice(0, count).join("."));
      if (alias !== undefined) return this.#joined(alias, parts.slice(count));
    }
    const [, before, ipv4, after] = INNER_IPV4.exec(text) ?? [];
    if (ipv4 !== undefined) {
      return this.text(before ?? "") + (this.#address(ipv4) ?? ipv4) +
        this.text(after ?? "");
    }
    const [first = "", ...rest] = parts;
    return this.#joined(this.#owned(first), rest);
  }

  /** A pod that is gone may have the name of what made it, and more. */
  #owned(word: string): string {
    for (let end = word.length; end > 0; end = word.lastIndexOf("-", end - 1)) {
      const alias = this.#aliasOf(word.slice(0, end));
      if (alias !== undefined) return alias + word.slice(end);
    }
    return word;
  }

  #joined(first: string, rest: readonly string[]): string {
    return rest.length === 0
      ? first
      : `${first}.${this.#words(rest.join("."))}`;
  }

  /** What may be an IPv6 address with a colon before or after it; and what is none. */
  #loosely(text: string): string {
    const [, before = "", inner = "", after = ""] =
      /^((?::(?!:))?)(.*?)((?:(?<!:):)?)$/.exec(text) ?? [];
    const address = this.#address(text);
    if (address !== undefined) return address;
    const replaced = this.#address(inner);
    if (replaced !== undefined) return before + replaced + after;
    return text.replaceAll(
      new RegExp(WORD, "g"),
      (word) => this.#words(word),
    );
  }

  /** Undefined when it is not an address or a network. */
  #address(text: string): string | undefined {
    // Most come again and again.
    if (!this.#addresses.has(text)) {
      this.#addresses.set(text, this.#readAddress(text));
    }
    return this.#addresses.get(text);
  }

  #readAddress(text: string): string | undefined {
    const [host = "", length] = text.split("/");
    const address = Address.tryParse(host);
    if (address === undefined) return undefined;
    if (length === undefined) return `${this.#other(Prefix.host(address))}`;
    const network = Prefix.tryParse(text);
    if (network === undefined) {
      // An address of an interface, with its network's length.
      return `${this.#other(Prefix.host(address))}/${length}`;
    }
    return networkOf(this.#other(network), network.length).toString();
  }

  /** What the first address of a network becomes. */
  #other(network: Prefix): Address {
    const { address } = network;
    if (SAME_EVERYWHERE.some((prefix) => prefix.contains(network))) {
      return address;
    }
    const kept = LINK_LOCAL.contains(network) ? LINK_LOCAL_BITS : 0;
    const bytes = address.toBytes();
    let bit = this.#bits[address.family];
    for (let at = 0; at < address.bits; at++) {
      const mask = 0x80 >> at % 8;
      const byte = bytes[at >> 3] ?? 0;
      if (at >= kept && bit.flips) bytes[at >> 3] = byte ^ mask;
      bit = (byte & mask) === 0
        ? bit.afterZero ??= this.#newBit()
        : bit.afterOne ??= this.#newBit();
    }
    return Address.fromBytes(bytes);
  }

  #newBit(): Bit {
    if (this.#used === this.#random.length) {
      crypto.getRandomValues(this.#random);
      this.#used = 0;
    }
    return { flips: (this.#random[this.#used++] ?? 0) % 2 === 1 };
  }

  #mac(mac: string): string {
    const key = mac.toLowerCase();
    if (/^(?:00:){5}00$|^(?:ff:){5}ff$/.test(key)) return mac;
    let other = this.#macs.get(key);
    if (other === undefined) {
      const number = (this.#macs.size + 1).toString(16).padStart(10, "0");
      other = `02:${number.match(/../g)?.join(":")}`;
      this.#macs.set(key, other);
    }
    return other;
  }
}

/** Whether a bit of addresses changes, which have the same bits before it; and the bits after it. */
interface Bit {
  readonly flips: boolean;
  afterZero?: Bit;
  afterOne?: Bit;
}

function networkOf(address: Address, length: number): Prefix {
  const host = BigInt(address.bits - length);
  return Prefix.of(
    Address.of(address.family, address.value >> host << host),
    length,
  );
}

/** Names of objects have at least a letter, and two characters: one would be replaced in every sentence. */
function isName(text: string): boolean {
  return text.length <= 253 && /[a-z]/.test(text) &&
    /^[a-z0-9][a-z0-9._-]*[a-z0-9]$/.test(text) &&
    Address.tryParse(text) === undefined;
}

/** The names of objects that a value of JSON has. */
function* namesIn(value: unknown): Generator<string> {
  if (Array.isArray(value)) {
    for (const item of value) yield* namesIn(item);
    return;
  }
  if (!isJsonObject(value)) return;
  // "name" alone may be that of a port or a container.
  const isObject = ["namespace", "uid", "creationTimestamp"].some((field) =>
    field in value
  );
  for (const [field, item] of Object.entries(value)) {
    if (field === "blocks" && isJsonObject(item)) yield* Object.keys(item);
    if (typeof item !== "string") yield* namesIn(item);
    else if (NAME_FIELDS.has(field) || isObject && field === "name") {
      yield* item.split("/");
    }
  }
}
