/** What nodes and pods have of pods' networks, as text in which whole networks are alike. */
import { LINK_ALIAS_PREFIX } from "../../lib/names/mod.ts";
import type { LabNode } from "../lab/mod.ts";
import { inPod, type Sandbox } from "./coild_lab.ts";
import { addressesInside } from "./pod_addresses.ts";

const COMMON = `ip -o link show type veth; ip -o address
ip neighbour show nud permanent; ip route; ip -6 route`;
/** Each of the lines is about the one link that it names. */
const OF_HOST =
  `${COMMON}; ip route show table all; ip -6 route show table all`;
/** What the kernel adds to them comes some time later. */
const BY_KERNEL = /.* proto kernel .*\n/g;

/** The lines about a node's links. */
export async function hostLines(node: LabNode): Promise<readonly string[]> {
  const text = await node.run("sh", "-c", OF_HOST);
  return text.replaceAll(BY_KERNEL, "").split("\n");
}

/** All that a node has of pods' networks and for them. */
export async function nodeText(node: LabNode): Promise<string> {
  const others = "ip rule; ip -6 rule; nft list ruleset";
  const text = await node.run("sh", "-c", `${OF_HOST}; ${others}`);
  return text.replaceAll(BY_KERNEL, "")
    .replaceAll(/packets \d+ bytes \d+/g, "");
}

/** The pod's network on both sides; names, numbers and addresses that differ from pod to pod are replaced. */
export async function networkOf(
  pod: Sandbox,
  host: readonly string[],
): Promise<string> {
  const inside = await inPod(pod, "sh", "-c", COMMON);
  const link = host.find((line) => aliasIn(line)?.includes(pod.containerId));
  const [, name = ""] = /^\d+: (\w+)@/.exec(link ?? "") ?? [];
  const outside = host.filter((line) => name !== "" && line.includes(name));
  let text = [...outside, "inside:", inside.replaceAll(BY_KERNEL, "")].join(
    "\n",
  );
  if (name !== "") text = text.replaceAll(name, "VETH");
  for (const address of await addressesInside(pod)) {
    text = text.replaceAll(
      new RegExp(`(?<![\\w.:])${address}(?![\\w.:])`, "g"),
      "ADDRESS",
    );
  }
  return text.replaceAll(pod.containerId, "CONTAINER")
    .replaceAll(/\bfe80::[0-9a-f:]+/g, "LINKLOCAL")
    .replaceAll(/(?:[0-9a-f]{2}:){5}[0-9a-f]{2}/g, "MAC")
    .replaceAll(/^\d+: /gm, "").replaceAll(/@if\d+/g, "@")
    .replaceAll(/link-netns(id)? \S+/g, "").replaceAll(/ +/g, " ");
}

function aliasIn(line: string): string | undefined {
  const [, alias] = /\balias (\S+)/.exec(line) ?? [];
  return alias?.startsWith(LINK_ALIAS_PREFIX) ? alias : undefined;
}
