import { MAIN_TABLE, type Rule } from "../../netlink/mod.ts";
import type { DeviceRoute, Step, StepOf } from "./steps.ts";

/** One step as the command that does the same. `netns` is the pod's network namespace as `ip -n` knows it. */
export function renderStep(
  step: Step,
  { netns }: { readonly netns: string },
): string {
  const at = "place" in step && step.place === "host" ? "ip" : `ip -n ${netns}`;
  switch (step.kind) {
    case "rule":
    case "noRule":
      return `${at} ${renderRule(step)}`;
    case "route":
    case "noRoute":
      return `${at} ${renderRoute(step)}`;
    case "neighbour":
    case "noNeighbour": {
      const { address, mac, device } = step.neighbour;
      const verb = step.kind === "neighbour" ? "replace" : "delete";
      return `${at} neighbour ${verb} ${address} lladdr ${mac} dev ${device} nud permanent`;
    }
    case "address":
      return `${at} address replace ${step.address}/32 dev ${step.device}`;
    case "link":
      return `${at} link set dev ${step.device} ${renderSetting(step)}`;
    case "sysctl": {
      const inside = step.place === "pod" ? `ip netns exec ${netns} ` : "";
      return `${inside}sysctl -w ${step.name}=${step.value}`;
    }
    case "replies":
      return `ip netns exec ${netns} nft -f replies.nft`;
  }
}

function renderRule({ kind, rule }: StepOf<"rule" | "noRule">): string {
  const words = rule.family === "ipv6" ? ["-6"] : [];
  words.push("rule", kind === "rule" ? "add" : "delete", ruleText(rule));
  return words.join(" ");
}

/** A rule as `ip` takes it. */
export function ruleText(rule: Rule): string {
  const words = ["pref", String(rule.priority)];
  if (rule.source !== undefined) words.push("from", rule.source.toString());
  if (rule.destination !== undefined) words.push("to", `${rule.destination}`);
  if (rule.iif !== undefined) words.push("iif", rule.iif);
  if (rule.fwmark !== undefined) {
    words.push("fwmark", `${hex(rule.fwmark)}/${hex(rule.fwmask ?? ~0 >>> 0)}`);
  }
  words.push("lookup", String(rule.table));
  if (rule.protocol !== undefined) words.push("proto", String(rule.protocol));
  return words.join(" ");
}

function renderRoute({ kind, route }: StepOf<"route" | "noRoute">): string {
  const words = route.family === "ipv6" ? ["-6"] : [];
  words.push("route", kind === "route" ? "replace" : "delete");
  words.push(routeText(route));
  return words.join(" ");
}

/** A route as `ip` takes it. */
export function routeText(route: DeviceRoute): string {
  const words = [route.destination?.toString() ?? "default"];
  if (route.gateway !== undefined) words.push("via", route.gateway.toString());
  words.push("dev", route.device);
  if (route.table !== MAIN_TABLE) words.push("table", String(route.table));
  words.push("proto", String(route.protocol));
  if (route.scope !== "global") words.push("scope", String(route.scope));
  if (route.source !== undefined) words.push("src", route.source.toString());
  if (route.metric !== undefined) words.push("metric", String(route.metric));
  if (route.onLink === true) words.push("onlink");
  return words.join(" ");
}

function renderSetting({ setting }: StepOf<"link">): string {
  return [
    ...setting.up ? ["up"] : [],
    ...setting.txQueueLength === undefined
      ? []
      : [`txqueuelen ${setting.txQueueLength}`],
    ...setting.mac === undefined ? [] : [`address ${setting.mac}`],
  ].join(" ");
}

function hex(mark: number): string {
  return `0x${mark.toString(16)}`;
}
