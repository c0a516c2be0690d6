import type { LinkStep, PodPlan, RouteStep, Step } from "./plan/plan.ts";

/**
 * A plan as the `ip` commands that do the same, for people and for golden
 * files. `netns` is the pod's network namespace as `ip -n` knows it.
 */
export function renderPlan(
  plan: PodPlan,
  options: { readonly netns: string },
): string {
  const { veth } = plan;
  const mtu = veth.mtu === undefined ? "" : ` mtu ${veth.mtu}`;
  const both = `${mtu} numtxqueues ${veth.queues} numrxqueues ${veth.queues}`;
  const create =
    `ip link add ${veth.name} group ${veth.group} address ${veth.mac}${both} type veth` +
    ` peer name ${veth.peerName} address ${veth.peerMac}${both} netns ${options.netns}`;
  const inPod = (args: string) => `ip -n ${options.netns} ${args}`;
  return [
    create,
    ...plan.host.flatMap((step) => [
      `ip ${renderStep(step, veth.name)}`,
      ...(step.kind === "link" ? renderIpv4Conf(step, veth.name) : []),
    ]),
    ...plan.pod.map((step) => inPod(renderStep(step, veth.peerName))),
    ...plan.settle.map((step) => `ip ${renderStep(step, veth.name)}`),
    "",
  ].join("\n");
}

/** One step on the given device, without the leading `ip`. */
export function renderStep(step: Step, device: string): string {
  switch (step.kind) {
    case "link":
      return renderLink(step, device);
    case "address": {
      const noDad = step.address.family === "ipv6" ? " nodad" : "";
      const scope = ` scope ${step.scope}`;
      return `address add ${step.address}/${step.length} dev ${device}${scope}${noDad}`;
    }
    case "route":
      return renderRoute(step, device);
    case "neighbour":
      return `neighbour add ${step.address} lladdr ${step.mac} dev ${device} nud stale`;
    case "settle":
      return `link show dev ${device}`;
  }
}

function renderLink(step: LinkStep, device: string): string {
  const words = ["link set dev", device];
  if (step.addressGeneration !== undefined) {
    words.push("addrgenmode", step.addressGeneration);
  }
  if (step.up) words.push("up");
  if (step.alias !== undefined) words.push("alias", step.alias);
  return words.join(" ");
}

/** `ip` has no words for these settings, though they are sent with the rest of the step. */
function renderIpv4Conf({ ipv4Conf }: LinkStep, device: string): string[] {
  if (ipv4Conf === undefined) return [];
  const settings = [
    ["rp_filter", ipv4Conf.rpFilter],
    ["arp_filter", ipv4Conf.arpFilter ? 1 : 0],
  ] as const;
  return settings.map(([name, value]) =>
    `sysctl net.ipv4.conf.${device}.${name}=${value}`
  );
}

function renderRoute(step: RouteStep, device: string): string {
  const family = (step.destination ?? step.gateway)?.family;
  const words = family === "ipv6" ? ["-6"] : [];
  words.push("route add");
  if (step.type !== undefined) words.push(step.type);
  words.push(step.destination?.toString() ?? "default");
  if (step.gateway !== undefined) words.push("via", step.gateway.toString());
  words.push("dev", device, "proto", String(step.protocol));
  if (step.scope !== undefined) words.push("scope", step.scope);
  if (step.table !== undefined) words.push("table", String(step.table));
  if (step.source !== undefined) words.push("src", step.source.toString());
  return words.join(" ");
}
