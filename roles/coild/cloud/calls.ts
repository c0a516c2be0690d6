import { timeText } from "../../../lib/api/mod.ts";
import {
  AwsError,
  AwsNoAnswerError,
  type Ec2Client,
  type NetworkInterface,
  type Tags,
} from "../../../lib/aws/mod.ts";
import { Address, Prefix } from "../../../lib/inet/mod.ts";
import {
  ENI_CLUSTER_TAG,
  ENI_CREATED_TAG,
  ENI_INSTANCE_TAG,
  ENI_UNMANAGED_TAG,
} from "../../../lib/names/mod.ts";
import type {
  Action,
  Ec2Eni,
  EniOutcome,
  Ownership,
  RefusalReason,
} from "../../../lib/vpc/mod.ts";

/** Properties that all ENIs of a node share. */
export interface EniTemplate {
  readonly instanceId: string;
  /** Of the primary ENI. */
  readonly groups: readonly string[];
  readonly clusterName: string;
  /** Tags of the admin's. */
  readonly tags: Tags;
  /** Whether pods get IPv6 addresses, so that it needs a /80. */
  readonly hasIpv6: boolean;
}

/** The tags of an ENI that this node makes now. */
export function tagsOf(
  { instanceId, clusterName, tags }: Omit<EniTemplate, "groups" | "hasIpv6">,
  now: Date,
): Tags {
  return {
    ...tags,
    [ENI_INSTANCE_TAG]: instanceId,
    [ENI_CREATED_TAG]: timeText(now),
    ...(clusterName === "" ? {} : { [ENI_CLUSTER_TAG]: clusterName }),
  };
}

/** How EC2's ENIs are looked at. */
export interface EniView {
  readonly instanceId: string;
  readonly manageUntagged: boolean;
  /** When an attachment was first seen. */
  readonly since: (attachmentId: string) => number;
}

/** An ENI of EC2 in the terms of the plan. */
export function eniOf(eni: NetworkInterface, view: EniView): Ec2Eni {
  const { attachment } = eni;
  const isAttached = attachment !== undefined &&
    attachment.status !== "detached";
  return {
    id: eni.networkInterfaceId,
    subnet: eni.subnetId,
    ownership: ownershipOf(eni, view),
    address: eni.primaryAddress ?? Address.of("ipv4", 0n),
    blocks: [
      ...eni.secondaryAddresses.map((address) => Prefix.host(address)),
      ...eni.ipv4Prefixes,
    ],
    ipv6: eni.ipv6Prefixes[0],
    attachment: isAttached
      ? {
        id: attachment.attachmentId,
        device: attachment.deviceIndex,
        state: stateOf(attachment.status),
        since: view.since(attachment.attachmentId),
        endsWithInstance: attachment.deleteOnTermination,
      }
      : undefined,
  };
}

function stateOf(status: string): "attaching" | "attached" | "detaching" {
  return status === "attached" || status === "detaching" ? status : "attaching";
}

/** Those with another network card or without IPv4 are not for pods either. */
function ownershipOf(eni: NetworkInterface, view: EniView): Ownership {
  const { attachment, tags } = eni;
  const isFirstCard = (attachment?.networkCardIndex ?? 0) === 0;
  if (attachment?.deviceIndex === 0 && isFirstCard) return "primary";
  if (tags[ENI_UNMANAGED_TAG] === "true" || !isFirstCard) return "foreign";
  if (eni.primaryAddress === undefined) return "foreign";
  if (tags[ENI_INSTANCE_TAG] === view.instanceId) return "owned";
  return view.manageUntagged ? "adopted" : "foreign";
}

/** How calls of the plan are made. */
interface PlanContext {
  readonly ec2: Ec2Client;
  readonly template: EniTemplate;
  readonly view: EniView;
  /** After it the call is not sent any longer. */
  readonly signal: AbortSignal;
}

/** Makes a call of the plan. Never throws; what EC2 said is given to `onError`. */
export async function perform(
  action: Action,
  { onError, ...context }: PlanContext & {
    readonly onError: (error: unknown) => void;
  },
): Promise<EniOutcome> {
  try {
    return await call(action, context);
  } catch (error) {
    const outcome = outcomeOf(error, action);
    const isStop = context.signal.aborted && error === context.signal.reason;
    if (outcome.kind !== "done" && !isStop) onError(error);
    return outcome;
  }
}

async function call(
  action: Action,
  { ec2, template, view, signal }: PlanContext,
): Promise<EniOutcome> {
  const options = { signal };
  switch (action.kind) {
    case "create": {
      const made = await ec2.createNetworkInterface({
        clientToken: crypto.randomUUID(),
        subnetId: action.subnet,
        groups: template.groups,
        description: `aws-K8S-${template.instanceId}`,
        tags: tagsOf(template, new Date()),
        ...(action.what === "prefix"
          ? { prefixes: action.count }
          : { addresses: action.count }),
        ipv6Prefixes: template.hasIpv6 ? 1 : undefined,
      }, options);
      return { kind: "done", eni: eniOf(made, view) };
    }
    case "attach": {
      const id = await ec2.attachNetworkInterface({
        networkInterfaceId: action.eni,
        instanceId: template.instanceId,
        deviceIndex: action.device,
      }, options);
      return { kind: "done", attachment: { id, since: view.since(id) } };
    }
    case "assign":
      return { kind: "done", blocks: await assign(action, { ec2, signal }) };
    case "unassign": {
      const { eni, blocks } = action;
      await ec2.unassignPrivateIpAddresses(eni, {
        addresses: blocks.filter(({ hostBits }) => hostBits === 0)
          .map(({ address }) => address),
        prefixes: blocks.filter(({ hostBits }) => hostBits > 0),
      }, options);
      return { kind: "done" };
    }
    case "endWithInstance":
      await ec2.deleteOnTermination({
        networkInterfaceId: action.eni,
        attachmentId: action.attachment,
      }, options);
      return { kind: "done" };
    case "detach":
      await ec2.detachNetworkInterface(action.attachment, options);
      return { kind: "done" };
    case "delete":
      await ec2.deleteNetworkInterface(action.eni, options);
      return { kind: "done" };
  }
}

async function assign(
  { eni, what, count }: Action & { readonly kind: "assign" },
  { ec2, signal }: Pick<PlanContext, "ec2" | "signal">,
): Promise<readonly Prefix[]> {
  if (what === "ipv6") {
    return await ec2.assignIpv6Prefixes(eni, count, { signal });
  }
  const { addresses, prefixes } = await ec2.assignPrivateIpAddresses(
    eni,
    what === "prefix" ? { prefixes: count } : { addresses: count },
    { signal },
  );
  return [...addresses.map((address) => Prefix.host(address)), ...prefixes];
}

const REFUSALS: Readonly<Record<string, RefusalReason>> = {
  AttachmentLimitExceeded: "limit",
  InsufficientCidrBlocks: "exhausted",
  InsufficientFreeAddressesInSubnet: "exhausted",
  NetworkInterfaceLimitExceeded: "limit",
  PrivateIpAddressLimitExceeded: "limit",
};

/** What a failure means for the plan. */
export function outcomeOf(error: unknown, { kind }: Action): EniOutcome {
  if (error instanceof AwsNoAnswerError) return { kind: "unknown" };
  if (!(error instanceof AwsError)) return { kind: "refused", why: "other" };
  if (error.isThrottled) return { kind: "refused", why: "throttled" };
  if (error.isTransient) return { kind: "unknown" };
  const isGone = error.isNotFound && ["delete", "detach"].includes(kind);
  if (isGone) return { kind: "done" };
  return { kind: "refused", why: REFUSALS[error.code] ?? "other" };
}
