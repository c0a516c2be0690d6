import type { Account } from "./account.ts";
import type { Policy, Statement } from "./config.ts";
import type { Eni } from "./eni.ts";
import { Ec2Error } from "./errors.ts";

/** Of a request: one thing that IAM is asked whether it is allowed. */
export interface Access {
  readonly action: string;
  /** Its ARN, or "*" where an action knows no resources. */
  readonly resource: string;
  /** What conditions compare. */
  readonly context: Readonly<Record<string, string>>;
}

type Parameters = Readonly<Record<string, string>>;

/** Why a policy refuses a request; undefined when it allows the action on each of its resources. */
export function refusalBy(
  policy: Policy | undefined,
  accesses: readonly Access[] = [],
): Ec2Error | undefined {
  if (policy === undefined) return undefined;
  const refused = accesses.find((access) => !isAllowed(policy, [access]));
  return refused && new Ec2Error(
    "UnauthorizedOperation",
    `You are not authorized to perform ${refused.action} on resource ${refused.resource}`,
  );
}

/** Whether a policy allows all of it. */
export function isAllowed(
  { Statement }: Policy,
  accesses: readonly Access[],
): boolean {
  return accesses.every((access) =>
    Statement.some((statement) => allows(statement, access))
  );
}

function allows(statement: Statement, access: Access): boolean {
  const { Effect, Action, Resource, Condition = {} } = statement;
  if (Effect !== "Allow") throw new Error(`Cannot judge ${Effect}`);
  return some(Action, access.action) && some(Resource, access.resource) &&
    Object.entries(Condition).every(([operator, keys]) => {
      if (operator !== "StringEquals") {
        throw new Error(`Cannot judge ${operator}`);
      }
      return Object.entries(keys).every(([key, values]) =>
        [values].flat().includes(access.context[key] ?? "\0")
      );
    });
}

/** Whether a text is one of the patterns, in which "*" is anything. */
function some(patterns: string | readonly string[], text: string): boolean {
  return [patterns].flat().some((pattern) => {
    const source = pattern.split("*").map((it) => RegExp.escape(it));
    return new RegExp(`^${source.join(".*")}$`).test(text);
  });
}

/** What IAM is asked of a request. Resources that do not exist are left to the action. */
export function accessesOf(parameters: Parameters, account: Account): Access[] {
  const action = parameters["Action"] ?? "";
  const made = (resource: string, context: Access["context"] = {}): Access => ({
    action: `ec2:${action}`,
    resource,
    context,
  });
  if (action.startsWith("Describe")) return [made("*")];
  if (action === "CreateNetworkInterface") return creations(parameters, made);
  const eni = eniOf(parameters, account);
  if (eni === undefined) return [];
  const ofEni = made(
    arnOf("network-interface", eni.id),
    tagContext("aws:ResourceTag", eni.tags),
  );
  const instanceId = parameters["InstanceId"] ?? eni.attachment?.instance.id;
  const instance = account.instances.get(instanceId ?? "");
  if (!AT_INSTANCES.has(action) || instance === undefined) return [ofEni];
  const context = tagContext("aws:ResourceTag", instance.tags);
  return [ofEni, made(arnOf("instance", instance.id), context)];
}

const AT_INSTANCES: ReadonlySet<string> = new Set([
  "AttachNetworkInterface",
  "DetachNetworkInterface",
  "ModifyNetworkInterfaceAttribute",
]);

/** A new ENI, what it is in, and the tags that it gets. */
function creations(
  parameters: Parameters,
  made: (resource: string, context?: Access["context"]) => Access,
): Access[] {
  const tags = tagContext("aws:RequestTag", tagsIn(parameters));
  const eni = arnOf("network-interface", "*");
  const groups = Object.entries(parameters)
    .filter(([name]) => name.startsWith("SecurityGroupId."));
  const tagging = {
    action: "ec2:CreateTags",
    resource: eni,
    context: { ...tags, "ec2:CreateAction": "CreateNetworkInterface" },
  };
  return [
    made(eni, tags),
    made(arnOf("subnet", parameters["SubnetId"] ?? "")),
    ...groups.map(([, id]) => made(arnOf("security-group", id))),
    ...Object.keys(tags).length > 0 ? [tagging] : [],
  ];
}

function tagsIn(parameters: Parameters): Map<string, string> {
  const tags = new Map<string, string>();
  for (const [name, key] of Object.entries(parameters)) {
    const [, tag] = /^(TagSpecification\..*\.)Key$/.exec(name) ?? [];
    if (tag !== undefined) tags.set(key, parameters[`${tag}Value`] ?? "");
  }
  return tags;
}

function tagContext(
  prefix: string,
  tags: ReadonlyMap<string, string>,
): Record<string, string> {
  return Object.fromEntries(
    [...tags].map(([key, value]) => [`${prefix}/${key}`, value]),
  );
}

/** The ENI that a request names, itself or by its attachment. */
function eniOf(parameters: Parameters, account: Account): Eni | undefined {
  const id = parameters["NetworkInterfaceId"] ?? parameters["ResourceId.1"];
  const attachment = parameters["AttachmentId"] ?? "";
  return [...account.enis().values()].find((eni) =>
    eni.id === id || eni.attachment?.id === attachment
  );
}

function arnOf(kind: string, id: string): string {
  return `arn:aws:ec2:region:123456789012:${kind}/${id}`;
}
