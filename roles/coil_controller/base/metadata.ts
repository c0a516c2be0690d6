import { type Egress, egressLabels } from "../../../lib/api/mod.ts";
import type { OwnerReference } from "../../../lib/kube/mod.ts";
import { GROUP_VERSION } from "../../../lib/names/mod.ts";

export interface PlannedMetadata {
  readonly labels: Readonly<Record<string, string>>;
  readonly ownerReferences: readonly OwnerReference[];
}

/** The metadata of the objects of an Egress, which owns them: they go with it. */
export function planMetadata({ metadata }: Egress): PlannedMetadata {
  const { name = "", uid = "" } = metadata;
  return {
    labels: egressLabels(name),
    ownerReferences: [{
      apiVersion: GROUP_VERSION,
      kind: "Egress",
      name,
      uid,
      controller: true,
      blockOwnerDeletion: true,
    }],
  };
}
