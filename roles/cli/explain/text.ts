import type { BlockRow } from "../../../lib/ipam/audit/mod.ts";
import { formatAge } from "../../../lib/api/mod.ts";
import type { FormerHolder } from "../../../lib/cnirpc/inspection/mod.ts";
import { nameText, VPC_POOL } from "../../../lib/names/mod.ts";
import type { Unseen } from "../base/looker.ts";
import { formatProblems, plainText } from "../base/problem.ts";
import type { AddressReport, Holder } from "./address.ts";
import type { Former } from "./facts.ts";
import type { WayReport } from "./way.ts";

export interface Explanation {
  readonly addresses: readonly AddressReport[];
  readonly ways: readonly WayReport[];
  /** Why there are no addresses to explain. */
  readonly note?: string | undefined;
  readonly unseen: readonly Unseen[];
}

/** Writes it for people: a sentence first, then who and what, then what is wrong. */
export function formatExplanation(
  { addresses, ways, note, unseen }: Explanation,
  now: Date,
): string {
  const problems = distinctProblems(addresses);
  return [
    ...note === undefined ? [] : [`${note}\n`],
    ...addresses.map((report) => formatAddress(report, now)),
    ...ways.map(formatWay),
    ...problems.length + unseen.length === 0
      ? []
      : [formatProblems(problems, unseen)],
  ].join("\n");
}

/** A pod with two addresses has the same problem with both. */
export function distinctProblems(
  addresses: readonly AddressReport[],
): AddressReport["problems"] {
  const all = addresses.flatMap(({ problems }) => problems);
  return [
    ...new Map(all.map((p) => [`${p.object} ${p.message}`, p])).values(),
  ];
}

function blockLine(
  { name, pool, node, ipv4, ipv6, state }: BlockRow,
  age: string,
): string {
  // One of the VPC is not an object; its name has the ENI and its network.
  if (pool === VPC_POOL) return `${name} of the VPC, on Node ${node}`;
  const networks = [ipv4, ipv6].filter(Boolean).join(" + ");
  return `AddressBlock ${name} (${networks}) of Node ${node}, ${state}, for ${age}`;
}

/** Former holders shown of an address; with `-o json` all are. */
const SHOWN_FORMER = 10;

/** Writes who had an address of this node. */
export function formatFormer(
  former: readonly FormerHolder[],
  now: Date,
): string {
  return formerLines(former, now).map((line) => `${line}\n`).join("");
}

function formerLines(
  former: readonly (FormerHolder & Partial<Former>)[],
  now: Date,
): string[] {
  if (former.length === 0) return ["No former holder within a day"];
  const more = former.length - SHOWN_FORMER;
  return [
    ...former.slice(0, SHOWN_FORMER).map(
      ({ namespace, pod, containerId, node, until }) => {
        const who = pod === undefined
          ? `Container ${containerId}`
          : `Pod ${namespace}/${pod}`;
        const where = node === undefined ? "" : ` on Node ${node}`;
        return plainText(
          `${who}${where} had it until ${formatAge(until, now)} ago`,
        );
      },
    ),
    ...more > 0 ? [`… and ${more} more before: -o json`] : [],
  ];
}

function formatAddress(report: AddressReport, now: Date): string {
  const { address, summary, holders, ended, blocks, pools, others } = report;
  const age = (since: string | undefined) => formatAge(since, now);
  const podLine = (pod: Holder) =>
    `Pod ${nameText(pod)} on Node ${pod.node}, ${
      pod.isEnding ? "ending" : pod.phase
    }, for ${age(pod.since)}`;
  return lines(`${address} is ${summary}`, [
    ...holders.map(podLine),
    ...ended.map((pod) =>
      `Pod ${
        nameText(pod)
      } on Node ${pod.node} had it until it ended (${pod.phase}), and began ${
        age(pod.since)
      } ago`
    ),
    ...report.former === undefined ? [] : formerLines(report.former, now),
    ...blocks.map((block) => blockLine(block, age(block.created))),
    ...pools.map(({ name, note }) =>
      `AddressPool ${name}${note === "" ? "" : ` (${note})`}`
    ),
    ...report.use === "foreign" ? [] : others.map((object) => `${object}, too`),
  ]);
}

function formatWay({ pod, to, summary, remarks }: WayReport): string {
  return lines(`From Pod ${pod} to ${to}: ${summary}`, remarks);
}

function lines(first: string, more: readonly string[]): string {
  return `${first}\n${more.map((line) => `  ${line}\n`).join("")}`;
}
