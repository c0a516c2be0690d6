import { keyText } from "../../cni/mod.ts";
import type {
  NodeAddresses,
  PodEntry,
  TableEntry,
} from "../../cnirpc/inspection/mod.ts";
import { Address, Prefix } from "../../inet/mod.ts";
import type { Problem } from "./problem.ts";

/** What kind of thing a finding on a node is, for programs. */
export const NODE_FINDING_CODES = [
  "address-leaked",
  "address-on-two-interfaces",
  "address-without-interface",
  "address-quarantined",
  "release-stuck",
  "interface-not-recorded",
  "pod-without-interface",
] as const;

/** One of {@linkcode NODE_FINDING_CODES}. */
export type NodeFindingCode = typeof NODE_FINDING_CODES[number];

/** Something on a node that does not fit the rest. */
export interface NodeFinding extends Problem {
  readonly code: NodeFindingCode;
  /** The container or pod that has the address: its next one is another finding. */
  readonly holder: string;
}

/** From which age on addresses of a node are looked at, by default: a new pod's status may not be written yet. */
export const MIN_AGE_MS = 300_000;

/**
 * Finds where a node's kernel, coild's table and the API server differ. What
 * is younger than `minAgeSeconds`, or has a call under way, is not looked at:
 * its pod's status may not be written yet. Where pods were not read, nothing
 * is found about them. A lost interface is one finding: its pod's, or where no
 * pod has its addresses that of coild's record. Pure.
 */
export function nodeFindings(
  answer: NodeAddresses,
  { minAgeSeconds }: { readonly minAgeSeconds: number },
): NodeFinding[] {
  const settled = answer.table.filter(({ isBusy, ageSeconds }) =>
    !isBusy && ageSeconds >= minAgeSeconds
  );
  const cutOff = podsCutOff(answer);
  const lost = new Set(cutOff.flatMap(({ ours }) => ours));
  return [
    ...ofKernel(answer),
    ...settled.flatMap((entry) => ofEntry(answer, entry, { lost })),
    ...cutOff.map(({ pod, ours }) => ofPod(answer, pod, { ours })),
  ];
}

function finding(
  { node }: NodeAddresses,
  addresses: readonly string[],
  about: Pick<NodeFinding, "code" | "holder" | "message">,
): NodeFinding {
  const [first = "(none)"] = addresses;
  return {
    ...about,
    object: `Address ${first} on Node ${node}`,
    next: `coil explain ${first}`,
  };
}

function ofKernel(answer: NodeAddresses): NodeFinding[] {
  const recorded = new Set(answer.table.map(keyText));
  const holders = Map.groupBy(
    answer.kernel.flatMap((entry) =>
      entry.addresses.map((address) => ({ address, entry }))
    ),
    ({ address }) => address,
  );
  return [
    ...[...holders].filter(([, all]) => all.length > 1).map(
      ([address, all]) => {
        const holder = all.map(({ entry }) => keyText(entry)).join(" and ");
        const code = "address-on-two-interfaces";
        const message = `containers ${holder} have it`;
        return finding(answer, [address], { code, holder, message });
      },
    ),
    ...answer.kernel.filter((entry) =>
      entry.addresses.length > 0 && !recorded.has(keyText(entry))
    ).map((entry) =>
      finding(answer, entry.addresses, {
        code: "interface-not-recorded",
        holder: keyText(entry),
        message: `container ${
          keyText(entry)
        } has it, but coild has no record of it; coild compares about every five minutes`,
      })
    ),
  ];
}

/** `lost` are the addresses of pods that have a finding of their own. */
function ofEntry(
  answer: NodeAddresses,
  entry: TableEntry,
  { lost }: { readonly lost: ReadonlySet<string> },
): NodeFinding[] {
  const { addresses, ageSeconds, state } = entry;
  const who = `container ${keyText(entry)}`;
  const minutes = `${Math.floor(ageSeconds / 60)}m`;
  const found = (code: NodeFindingCode, message: string) => [
    finding(answer, addresses, { code, holder: keyText(entry), message }),
  ];
  if (state === "releasing") {
    return found(
      "release-stuck",
      `its release for ${who} has not ended for ${minutes}`,
    );
  }
  if (!answer.kernel.some((other) => keyText(other) === keyText(entry))) {
    return addresses.some((text) => lost.has(text)) ? [] : found(
      "address-without-interface",
      `coild keeps it for ${who}, which has no interface; coild frees such addresses`,
    );
  }
  const isHeld = answer.pods?.some((pod) =>
    pod.addresses.some((text) => addresses.includes(text))
  );
  if (isHeld === false) {
    return found(
      "address-leaked",
      `${who} has had it for ${minutes}, but no pod of the node has it`,
    );
  }
  return state === "quarantined"
    ? found(
      "address-quarantined",
      `${who} has it, but no AddressBlock of the node contains it`,
    )
    : [];
}

interface PodCutOff {
  readonly pod: PodEntry;
  /** Its addresses of the node's blocks. */
  readonly ours: readonly string[];
}

/** A pod of the node's blocks has an interface as soon as it has an address; these have none. */
function podsCutOff(answer: NodeAddresses): PodCutOff[] {
  const prefixes = Object.values(answer.blocks).flat()
    .flatMap((text) => Prefix.tryParse(text) ?? []);
  const present = new Set(answer.kernel.flatMap(({ addresses }) => addresses));
  return (answer.pods ?? []).filter(({ isEnding }) => !isEnding)
    .map((pod) => ({
      pod,
      ours: pod.addresses.filter((text) => {
        const address = Address.tryParse(text);
        return address !== undefined &&
          prefixes.some((prefix) => prefix.contains(address));
      }),
    }))
    .filter(({ ours }) =>
      ours.length > 0 && !ours.some((text) => present.has(text))
    );
}

function ofPod(
  answer: NodeAddresses,
  { namespace, name }: PodEntry,
  { ours }: Pick<PodCutOff, "ours">,
): NodeFinding {
  return finding(answer, ours, {
    code: "pod-without-interface",
    holder: `${namespace}/${name}`,
    message:
      `assigned to Pod ${namespace}/${name}, but no interface of the node has it`,
  });
}
