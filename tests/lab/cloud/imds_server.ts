import { type Clock, systemClock } from "../../../lib/async/mod.ts";
import { Address } from "../../../lib/inet/mod.ts";
import type { Account } from "./account.ts";
import type { CallLog } from "./calls.ts";
import type { AccountCredentials } from "./config.ts";
import { effectOf } from "./ec2_server.ts";
import { type Eni, enisOf, type Instance } from "./eni.ts";
import type { Fault, Faults } from "./faults.ts";
import type { Answer, Request } from "./http.ts";

const TTL_HEADER = "x-aws-ec2-metadata-token-ttl-seconds";
const TOKEN_HEADER = "x-aws-ec2-metadata-token";
/** Six hours: the longest life of a token. */
const MAX_TTL_SECONDS = 21_600;
const ROOT = "/latest/";

/** What the metadata service needs. */
export interface ImdsOptions {
  readonly account: Account;
  readonly faults: Faults;
  readonly calls: CallLog;
  /** Those of the instances' role, if they have one. */
  readonly credentials: () => AccountCredentials | undefined;
  readonly clock?: Clock;
}

/** A tree of metadata: text, or a directory. */
type Tree = string | { readonly [name: string]: Tree | undefined };

/** The instance metadata service, version 2 alone. */
export class ImdsEndpoint {
  readonly #options: ImdsOptions;
  readonly #clock: Clock;
  /** When each token ends. */
  readonly #tokens = new Map<string, { instanceId: string; endMs: number }>();

  constructor(options: ImdsOptions) {
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
  }

  /** Makes all tokens invalid, as a restart of the service does. */
  forgetTokens(): void {
    this.#tokens.clear();
  }

  /** The instance whose address it is, or that of one of its pods. */
  instanceAt(address: string): Instance | undefined {
    const from = Address.tryParse(address);
    if (from === undefined) return undefined;
    const enis = [...this.#options.account.enis().values()];
    return enis.find(({ primary, secondary, prefixes }) =>
      [primary, ...secondary].some((it) => it.equals(from)) ||
      prefixes.some((it) => it.contains(from))
    )?.attachment?.instance;
  }

  answer(request: Request, instance: Instance): Answer {
    const { faults, calls } = this.#options;
    const call = `IMDS ${request.method} ${request.path}`;
    const fault = faults.take(call);
    const answer = this.#answer(request, { instance, fault });
    const { status } = answer;
    const caller = instance.id;
    calls.note({ call, parameters: {}, caller, status, fault: fault?.kind });
    return { ...answer, ...effectOf(fault, faults) };
  }

  #answer(
    { method, path, headers }: Request,
    to: { readonly instance: Instance; readonly fault: Fault | undefined },
  ): Answer {
    const { instance, fault } = to;
    if (fault?.kind === "error") return plain(Number(fault.code));
    if (path === "/latest/api/token") {
      return method === "PUT" ? this.#token(headers, instance) : plain(405);
    }
    if (method !== "GET") return plain(405);
    if (!this.#isValid(headers.get(TOKEN_HEADER), instance)) return plain(401);
    if (fault?.kind === "empty") return plain(200);
    if (!path.startsWith(ROOT)) return plain(404);
    const found = find(this.#tree(instance), path.slice(ROOT.length));
    return found === undefined ? plain(404) : plain(200, listing(found));
  }

  #token(headers: Headers, { id: instanceId }: Instance): Answer {
    // A request that came by a proxy gets none.
    if (headers.has("x-forwarded-for")) return plain(403);
    const text = headers.get(TTL_HEADER) ?? "";
    const seconds = Number(text);
    const isRight = /^\d+$/.test(text) && seconds >= 1 &&
      seconds <= MAX_TTL_SECONDS;
    if (!isRight) return plain(400);
    const token = btoa(crypto.randomUUID());
    const endMs = this.#clock.nowMs() + seconds * 1_000;
    this.#tokens.set(token, { instanceId, endMs });
    return { ...plain(200, token), headers: { [TTL_HEADER]: text } };
  }

  #isValid(token: string | null, { id }: Instance): boolean {
    const known = this.#tokens.get(token ?? "");
    return known !== undefined && known.instanceId === id &&
      known.endMs > this.#clock.nowMs();
  }

  #tree(instance: Instance): Tree {
    const document = JSON.stringify({
      accountId: "123456789012",
      instanceId: instance.id,
      instanceType: instance.type.name,
      region: this.#options.account.region,
      version: "2017-09-30",
    });
    return {
      "dynamic": { "instance-identity": { document } },
      "meta-data": this.#metaData(instance),
    };
  }

  #metaData(instance: Instance): Tree {
    const { account, credentials } = this.#options;
    const enis = enisOf(account.enis(account.pace.imdsLagMs), instance.id);
    const [primary] = enis;
    const macs = enis.map((eni) => [eni.mac, eniTree(eni, account)] as const);
    return {
      "iam": { "security-credentials": roleTree(credentials()) },
      "instance-id": instance.id,
      "instance-type": instance.type.name,
      "ipv6": primary?.addresses6.at(0)?.toString(),
      "local-ipv4": primary?.primary.toString(),
      "mac": primary?.mac,
      "network": { "interfaces": { "macs": Object.fromEntries(macs) } },
      "placement": {
        "availability-zone": instance.subnet.zone,
        "region": account.region,
      },
    };
  }
}

function eniTree(eni: Eni, { vpc }: Account): Tree {
  const { subnet, attachment } = eni;
  const { cidrs, cidrs6 = [] } = vpc;
  return {
    "device-number": `${attachment?.deviceIndex}`,
    "interface-id": eni.id,
    "ipv4-prefix": lines(eni.prefixes),
    "ipv6-prefix": lines(eni.prefixes6),
    "ipv6s": lines(eni.addresses6),
    "local-ipv4s": lines([eni.primary, ...eni.secondary]),
    "mac": eni.mac,
    "network-card": "0",
    "security-group-ids": lines(eni.securityGroups),
    "subnet-id": subnet.id,
    "subnet-ipv4-cidr-block": `${subnet.space.cidr}`,
    "subnet-ipv6-cidr-blocks": subnet.space6 && `${subnet.space6.cidr}`,
    "vpc-id": vpc.id,
    "vpc-ipv4-cidr-block": cidrs[0],
    "vpc-ipv4-cidr-blocks": lines(cidrs),
    "vpc-ipv6-cidr-blocks": lines(cidrs6),
  };
}

function roleTree(credentials: AccountCredentials | undefined): Tree {
  if (credentials?.role === undefined) return {};
  const { role, accessKeyId, secretAccessKey, sessionToken, expiresAt } =
    credentials;
  const document = {
    Code: "Success",
    LastUpdated: new Date().toISOString(),
    Type: "AWS-HMAC",
    AccessKeyId: accessKeyId,
    SecretAccessKey: secretAccessKey,
    Token: sessionToken,
    Expiration: new Date(expiresAt ?? Date.now() + 3_600_000).toISOString(),
  };
  return { [role]: JSON.stringify(document, null, 2) };
}

/** A key without values is not there. */
function lines(values: readonly unknown[]): string | undefined {
  return values.length === 0 ? undefined : values.join("\n");
}

function find(tree: Tree, path: string): Tree | undefined {
  let found: Tree | undefined = tree;
  for (const name of path.split("/").filter((part) => part !== "")) {
    if (found === undefined || typeof found === "string") return undefined;
    found = Object.hasOwn(found, name) ? found[name] : undefined;
  }
  return found;
}

/** Names in a directory, with a slash behind those of directories. */
function listing(tree: Tree): string {
  if (typeof tree === "string") return tree;
  return Object.entries(tree).flatMap(([name, value]) => {
    if (value === undefined) return [];
    return typeof value === "string" ? [name] : [`${name}/`];
  }).join("\n");
}

function plain(status: number, body: string = ""): Answer {
  return { status, type: "text/plain", body };
}
