/**
 * A cloud for tests, and a caller of its EC2.
 *
 * @module
 */
import type { Cloud } from "./cloud.ts";
import type { CloudConfig, Policy } from "./config.ts";
import { type Credentials, signatureOf, type SignedRequest } from "./sigv4.ts";

export const KEYS: Credentials = {
  accessKeyId: "AKIATEST",
  secretAccessKey: "secret/key+of the test",
};

/** What the metadata service gives. */
export const ROLE_KEYS = {
  accessKeyId: "ASIAROLE",
  secretAccessKey: "another/secret+key",
  sessionToken: "token/of+the=session",
  role: "node",
};

export const INSTANCE = "i-0000000000000000a";
export const SUBNET = "subnet-a";
export const GROUP = "sg-nodes";

/** One t3.small in a /24; the defaults can be replaced. */
export function cloudConfig(changes: Partial<CloudConfig> = {}): CloudConfig {
  return {
    region: "eu-test-1",
    vpc: {
      id: "vpc-1",
      cidrs: ["10.0.0.0/16", "100.64.0.0/16"],
      cidrs6: ["fd10::/56"],
    },
    subnets: [{
      id: SUBNET,
      zone: "eu-test-1a",
      cidr: "10.0.1.0/24",
      cidr6: "fd10:0:0:1::/64",
    }],
    securityGroups: [GROUP, "sg-other"],
    instances: [{
      id: INSTANCE,
      type: "t3.small",
      subnet: SUBNET,
      securityGroups: [GROUP],
    }],
    credentials: [KEYS, ROLE_KEYS],
    ...changes,
  };
}

/** The cluster whose nodes the instances are. */
export const CLUSTER = "prod";

const IAM = new URL("../../../deploy/vpc/iam/", import.meta.url);

/** A policy of `deploy/vpc/iam` for the cluster. */
export async function policyOf(name: string): Promise<Policy> {
  const text = await Deno.readTextFile(new URL(`${name}.json`, IAM));
  return JSON.parse(text.replaceAll("CLUSTER_NAME", CLUSTER));
}

/** The same cloud with a policy for the instances' role, and with the tags that this needs. */
export function withPolicy(config: CloudConfig, policy: Policy): CloudConfig {
  return {
    ...config,
    instances: config.instances.map((instance) => ({
      ...instance,
      tags: { [`kubernetes.io/cluster/${CLUSTER}`]: "owned" },
      eniTags: { "cluster.k8s.amazonaws.com/name": CLUSTER },
    })),
    credentials: config.credentials.map((credentials) =>
      credentials.role === undefined ? credentials : { ...credentials, policy }
    ),
  };
}

/** An answer of EC2. */
export interface Ec2Answer {
  readonly status: number;
  readonly xml: string;
  /** The texts of all elements of that name, in their order. */
  all(name: string): string[];
}

/** How a test's request differs from a right one. */
export interface RequestChanges {
  readonly credentials?: Credentials;
  readonly region?: string;
  /** In ms since 1970. */
  readonly now?: number;
  /** The body that is sent, after another one was signed. */
  readonly body?: string;
  readonly unsigned?: boolean;
  readonly headers?: Readonly<Record<string, string>>;
}

/** Parameters of an action, as they go into a form. */
export function formOf(
  action: string,
  parameters: Readonly<Record<string, string | number>> = {},
): string {
  const form = new URLSearchParams({ Action: action, Version: "2016-11-15" });
  for (const [name, value] of Object.entries(parameters)) {
    form.set(name, `${value}`);
  }
  return form.toString();
}

/** A signed request to EC2 at a URL. */
export function signedRequest(
  url: string,
  options: RequestChanges & { readonly form: string },
): SignedRequest {
  const { credentials = KEYS, region = "eu-test-1", now = Date.now() } =
    options;
  const time = new Date(now).toISOString().replaceAll(/[-:]|\.\d+/g, "");
  const headers = new Headers({
    "content-type": "application/x-www-form-urlencoded; charset=utf-8",
    host: new URL(url).host,
    "x-amz-date": time,
  });
  const { sessionToken, accessKeyId, secretAccessKey } = credentials;
  if (sessionToken !== undefined) {
    headers.set("x-amz-security-token", sessionToken);
  }
  const signedHeaders = [...headers.keys()].sort();
  const request = { method: "POST", path: "/", query: "", headers };
  const date = time.slice(0, 8);
  const scope = { date, region, service: "ec2" };
  const signature = signatureOf({ ...request, body: options.form }, {
    ...scope,
    secretAccessKey,
    time,
    signedHeaders,
  });
  headers.set(
    "authorization",
    `AWS4-HMAC-SHA256 Credential=${accessKeyId}/${date}/${region}/ec2/aws4_request, SignedHeaders=${
      signedHeaders.join(";")
    }, Signature=${signature}`,
  );
  if (options.unsigned === true) headers.delete("authorization");
  for (const [name, value] of Object.entries(options.headers ?? {})) {
    headers.set(name, value);
  }
  return { ...request, body: options.body ?? options.form };
}

/** Reads the elements of an answer, which has no attributes but that of its root. */
export function readAnswer(status: number, xml: string): Ec2Answer {
  const all = (name: string) =>
    [...xml.matchAll(new RegExp(`<${name}>([^]*?)</${name}>`, "g"))]
      .map(([, text = ""]) => text);
  return { status, xml, all };
}

/**
 * Asks EC2 at a URL by a signed request, on a connection of its own: on one
 * that was used before, Deno's `fetch` silently sends a request again when the
 * peer closes it without an answer (seen with Deno 2.9.6, POST included).
 */
export async function callEc2(
  url: string,
  form: string,
  changes: RequestChanges = {},
): Promise<Ec2Answer> {
  const { headers, body } = signedRequest(url, { form, ...changes });
  headers.delete("host");
  using client = Deno.createHttpClient({ poolMaxIdlePerHost: 0 });
  const response = await fetch(url, { method: "POST", headers, body, client });
  return readAnswer(response.status, await response.text());
}

/** Does something as an operator of the account does. Fails when EC2 refuses it. */
export async function byHand(
  { ask }: Cloud,
  action: string,
  parameters: Readonly<Record<string, string | number>> = {},
): Promise<Ec2Answer> {
  const answer = readAnswer(200, await ask.byHand(formOf(action, parameters)));
  if (answer.all("Error").length > 0) {
    throw new Error(`Cannot go on: ${answer.xml}`);
  }
  return answer;
}

/** The parameters by which a new ENI gets tags. */
export function tagging(
  tags: Readonly<Record<string, string>>,
): Record<string, string> {
  const entries = Object.entries(tags).flatMap(([key, value], n) => [
    [`TagSpecification.1.Tag.${n + 1}.Key`, key],
    [`TagSpecification.1.Tag.${n + 1}.Value`, value],
  ]);
  return entries.length === 0 ? {} : {
    "TagSpecification.1.ResourceType": "network-interface",
    ...Object.fromEntries(entries),
  };
}

/** Names of EC2's calls so far, with how often; reads left out. */
export async function changesOf(
  { ask }: Cloud,
): Promise<Record<string, number>> {
  const counts: Record<string, number> = {};
  for (const { call } of await ask.calls(0)) {
    if (/^(IMDS|Describe)/.test(call)) continue;
    counts[call] = (counts[call] ?? 0) + 1;
  }
  return counts;
}
