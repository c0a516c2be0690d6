import {
  type ConditionDraft,
  datedCondition,
  type VpcAddressCounts,
  type VpcNode,
  type VpcNodeEni,
  type VpcNodeStatus,
} from "../../../lib/api/mod.ts";
import type { BlockRecord } from "../../../lib/ipam/mod.ts";
import { type Eni, grantEni } from "../../../lib/vpc/mod.ts";
import type { FleetView } from "../vpc/fleet_view.ts";
import type { CallTroubles } from "./calls_record.ts";

export interface StatusFacts {
  /** Undefined until it is known which instance this is. */
  readonly view: FleetView | undefined;
  /** The node's blocks; undefined before address management has started. */
  readonly records: readonly BlockRecord[] | undefined;
  readonly troubles: CallTroubles;
}

/** What the VPCNode is to say. Pure; times of conditions are kept while these stay the same. */
export function statusOf(
  facts: StatusFacts,
  { before, now }: { readonly before: VpcNode | undefined; readonly now: Date },
): VpcNodeStatus {
  const generation = before?.metadata.generation ?? 1;
  const previous = before?.status?.conditions;
  const conditions = conditionsOf(facts).map((draft) =>
    datedCondition(draft, { previous, generation, now })
  );
  const { view, records = [] } = facts;
  if (view === undefined) return { conditions };
  const byEni = Map.groupBy(records, ({ name }) => grantEni(name));
  const enis = view.enis.map((eni) => eniOf(eni, byEni.get(eni.id) ?? []));
  return {
    instance: view.instance.id,
    instanceType: view.instance.type,
    mode: view.mode,
    eniCount: enis.length,
    maxEnis: view.maxEnis,
    addresses: { ...sum(enis), capacity: view.capacity },
    enis,
    conditions,
  };
}

function eniOf(eni: Eni, records: readonly BlockRecord[]): VpcNodeEni {
  const { id, device = 0, ec2, grants, ipv6 } = eni;
  return {
    id,
    device,
    subnet: ec2?.subnet ?? "",
    blocks: grants.map(({ block }) => String(block)),
    ...(ipv6 === undefined ? {} : { ipv6: String(ipv6.block) }),
    ...sum(
      records.map(({ held, cooling, free }) => ({ used: held, cooling, free })),
    ),
  };
}

function sum(all: readonly VpcAddressCounts[]): VpcAddressCounts {
  const total = { used: 0, cooling: 0, free: 0 };
  for (const { used, cooling, free } of all) {
    total.used += used;
    total.cooling += cooling;
    total.free += free;
  }
  return total;
}

function conditionsOf(facts: StatusFacts): ConditionDraft[] {
  return [
    ready(facts),
    subnetExhausted(facts),
    throttled(facts),
    missingPermissions(facts),
  ];
}

/** Conditions of a type, each by status, reason and message. */
function drafts(type: string) {
  return (
    status: "True" | "False",
    reason: string,
    message: string,
  ): ConditionDraft => ({ type, status, reason, message });
}

function ready({ view, records, troubles }: StatusFacts): ConditionDraft {
  const draft = drafts("Ready");
  if (view === undefined || view.enis.length === 0 || records === undefined) {
    return draft(
      "False",
      "Starting",
      `coild waits for EC2 and the instance metadata service to list the node's ENIs${
        trouble(troubles)
      }`,
    );
  }
  const free = records.reduce((count, record) => count + record.free, 0);
  if (free > 0 || view.unmet === undefined) {
    return draft("True", "AddressesAvailable", "pods get addresses");
  }
  switch (view.unmet.why) {
    case "limit":
      if (view.isCordoned) {
        return draft(
          "True",
          "Cordoned",
          "no address is free, and a cordoned node gets no further ENI",
        );
      }
      return draft(
        "True",
        "Full",
        `no address is free: ${view.instance.type} and the flags of coild allow no more than ${view.capacity}`,
      );
    case "subnet":
      return draft(
        "False",
        "SubnetExhausted",
        `no address is free, and subnet ${view.subnet} has none left`,
      );
    case "paused":
      return draft(
        "False",
        "CallsFail",
        `no address is free, and EC2 rejected requests for more; coild retries${
          trouble(troubles)
        }`,
      );
    case "fixed":
      return draft(
        "True",
        "Full",
        "no address is free, and --provision=false asks for no more",
      );
  }
}

/** What keeps EC2 from answering, to be added to a sentence. */
function trouble({ denied, throttled, last }: CallTroubles): string {
  switch (last) {
    case "denied":
      return ` (missing: ${denied.join(", ")})`;
    case "throttled":
      return ` (throttled: ${throttled.join(", ")})`;
    case undefined:
      return "";
  }
}

function subnetExhausted({ view }: StatusFacts): ConditionDraft {
  const { refused = [], subnet = "" } = view ?? {};
  const draft = drafts("SubnetExhausted");
  if (refused.includes("address")) {
    return draft(
      "True",
      "NoAddress",
      `subnet ${subnet} had no free address when it was last asked; free some, or use a larger subnet`,
    );
  }
  if (refused.includes("prefix")) {
    return draft(
      "True",
      "Fragmented",
      `subnet ${subnet} had no free range of 16 addresses when it was last asked, so pods get single ones; reserve a range of it for prefixes`,
    );
  }
  return draft("False", "NotRefused", "no shortage of addresses");
}

function throttled({ troubles: { throttled } }: StatusFacts): ConditionDraft {
  const draft = drafts("Throttled");
  if (throttled.length === 0) {
    return draft(
      "False",
      "NotThrottled",
      "EC2 throttled no call of this node in the last minutes",
    );
  }
  return draft(
    "True",
    "RequestLimitExceeded",
    `EC2 throttles this account: ${
      throttled.join(", ")
    }; coild retries the calls more slowly`,
  );
}

function missingPermissions(
  { troubles: { denied } }: StatusFacts,
): ConditionDraft {
  const draft = drafts("MissingPermissions");
  if (denied.length === 0) {
    return draft("False", "NotRefused", "EC2 denied no call");
  }
  return draft(
    "True",
    "Unauthorized",
    `EC2 denied calls; allow ${
      denied.join(", ")
    } in the policy of the node's role`,
  );
}
