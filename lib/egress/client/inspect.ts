import type { Family } from "../../inet/mod.ts";
import { inNetns, type Netns } from "../../linux/mod.ts";
import { EGRESS_NFT_TABLE } from "../../names/mod.ts";
import {
  FouSocket,
  NetfilterSocket,
  type Route,
  RouteSocket,
  type Rule,
  ruleText,
} from "../../netlink/mod.ts";
import type { ClientOptions } from "./apply.ts";
import {
  type Findings,
  findOut,
  wantedRoutes,
  wantedTable,
} from "./findings.ts";
import type { ClientPlan } from "../plan/plan.ts";
import { diffRoutes } from "../plan/routes.ts";
import { fouPorts, portText, sameFouPort } from "../kernel/fou_ports.ts";
import { strictReversePaths } from "../kernel/reverse_path.ts";
import { TUNNEL_LINKS } from "../kernel/tunnel_names.ts";

/** Stands for the index of a link that is missing: no link has it. */
const NO_INDEX = -1;
/** The most changes named of a table that differs. */
const MAX_TABLE_CHANGES = 3;

/**
 * How the network of a pod differs from a plan, one phrase each, with the parts
 * named as `ip` and `nft` show them; nothing when it is as planned. Changes
 * nothing. Where a tunnel is missing, its routes are too: the kernel removes
 * them with it.
 *
 * @throws {NetlinkError} when the kernel refuses
 * @throws {GatewayNetnsError} when the namespace is an egress gateway's
 * @throws {TypeError} when it lacks the plan's interface
 */
export async function inspectClient(
  plan: ClientPlan,
  { netns }: ClientOptions,
): Promise<string[]> {
  using stack = new DisposableStack();
  const { route, fou, nft } = inNetns(netns, () => ({
    route: stack.use(RouteSocket.open()),
    fou: stack.use(FouSocket.open()),
    nft: stack.use(NetfilterSocket.open()),
  }));
  const findings = await findOut(plan, { route, fou, netns });
  return [
    ...linkProblems(findings),
    ...ruleProblems(findings),
    ...routeProblems(plan, findings),
    ...await tableProblems(plan, findings, nft),
    ...await portProblems(plan, fou),
    ...reversePathProblems(plan, findings, netns),
  ];
}

function linkProblems({ links }: Findings): string[] {
  const name = (link: { readonly name: string }) => `link "${link.name}"`;
  const other = [...links.conflicting, ...links.changed];
  const missing = links.created.filter((created) =>
    !other.some((link) => link.name === created)
  );
  return [
    ...missing.map((created) => `link "${created}" is missing`),
    ...other.map((link) => `${name(link)} was changed`),
    ...links.surplus.map((link) => `${name(link)} is unexpected`),
  ];
}

function ruleProblems({ rules }: Findings): string[] {
  const text = (rule: Rule) => `${IP[rule.family]} rule "${ruleText(rule)}"`;
  return [
    ...rules.missing.map((rule) => `${text(rule)} is missing`),
    ...rules.surplus.map((rule) => `${text(rule)} is unexpected`),
  ];
}

function routeProblems(plan: ClientPlan, findings: Findings): string[] {
  const { created, present } = findings.links;
  const indexes = new Map([
    ...created.map((name) => [name, NO_INDEX] as const),
    ...present.map(({ name, index }) => [name, index] as const),
  ]);
  const names = new Map(
    findings.state.links.map(({ name, index }) => [index, name]),
  );
  const wanted = wantedRoutes(plan, findings, indexes);
  const { missing, surplus } = diffRoutes(wanted, findings.own.routes);
  return [
    ...missing.map((route) => `${routeText(route, names)} is missing`),
    ...surplus.map((route) => `${routeText(route, names)} is unexpected`),
  ];
}

async function tableProblems(
  plan: ClientPlan,
  findings: Findings,
  nft: NetfilterSocket,
): Promise<string[]> {
  const table = wantedTable(plan, findings);
  const name = `nft table "inet ${EGRESS_NFT_TABLE}"`;
  const exists = await nft.tableExists(EGRESS_NFT_TABLE);
  if (table === undefined) {
    return exists ? [`${name} is unexpected`] : [];
  }
  if (!exists) return [`${name} is missing`];
  const changes = await nft.compareTable(table);
  if (changes.length === 0) return [];
  // mutate: words for people.
  const some = changes.slice(0, MAX_TABLE_CHANGES).join(", ");
  return [`${name} was changed: to restore it, ${some}`];
}

async function portProblems(
  { tunnelFamilies, port }: ClientPlan,
  fou: FouSocket,
): Promise<string[]> {
  const wanted = fouPorts(tunnelFamilies, port);
  if (wanted.length === 0) return [];
  const present = await fou.list();
  return wanted
    .filter((each) => !present.some((other) => sameFouPort(each, other)))
    .map((each) => `${portText(each)} is missing`);
}

/** The reverse path checks that are on, of all that `applyClient()` switches off. */
// mutate: tests/vm/egress_client_inspect_test.ts does this; it takes a kernel with Foo over UDP.
function reversePathProblems(
  { ifname, receiverFamilies }: ClientPlan,
  { interfaces }: Findings,
  netns: Netns,
): string[] {
  if (!receiverFamilies.includes("ipv4")) return [];
  const links = [
    ...["all", "default", TUNNEL_LINKS.ipv4.receiver, ifname],
    ...interfaces.map(({ name }) => name),
  ];
  return strictReversePaths(netns, [...new Set(links)]).map((name) =>
    `sysctl "${name}" is 1: replies from tunnels would be dropped`
  );
}

const IP: Readonly<Record<Family, string>> = { ipv4: "ip", ipv6: "ip -6" };

/** As `ip route show table all` has it. */
function routeText(route: Route, names: ReadonlyMap<number, string>): string {
  const { family, type, destination, gateway, index, table, metric } = route;
  const words = type === "unicast" ? [] : [String(type)];
  words.push(destination?.toString() ?? "default");
  if (gateway !== undefined) words.push(`via ${gateway}`);
  const link = index === undefined ? undefined : names.get(index);
  // mutate: words for people.
  if (type === "unicast" && link !== undefined) words.push(`dev ${link}`);
  words.push(`table ${table}`);
  if (metric !== undefined) words.push(`metric ${metric}`);
  return `${IP[family]} route "${words.join(" ")}"`;
}
