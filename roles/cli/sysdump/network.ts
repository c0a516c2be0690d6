import {
  type AddressEntry,
  type Link,
  NetfilterSocket,
  type Route,
  RouteSocket,
  ruleText,
} from "../../../lib/netlink/mod.ts";

/** Links, addresses, rules, routes and packet filters of this network namespace, by file. */
export const NETWORK_FILES: Readonly<Record<string, () => Promise<string>>> = {
  "links.txt": () =>
    withRoutes(async (socket) => {
      const addresses = Map.groupBy(
        await socket.listAddresses(),
        ({ index }) => index,
      );
      return (await socket.listLinks()).map((link) =>
        linkText(link, addresses.get(link.index) ?? [])
      );
    }),
  "rules.txt": () =>
    withRoutes(async (socket) =>
      (await socket.listRules()).map((rule) =>
        `${rule.family} ${ruleText(rule)}`
      )
    ),
  "routes.txt": () =>
    withRoutes(async (socket) => {
      const links = await socket.listLinks();
      const names = new Map(links.map(({ index, name }) => [index, name]));
      return (await socket.listRoutes()).map((route) =>
        routeText(route, names)
      );
    }),
  "nft_tables.txt": async () => {
    using socket = NetfilterSocket.open();
    return linesText([
      ...await socket.describeRuleset(),
      ...await legacyTables(),
    ]);
  },
};

/** Tables that are not of nf_tables, whose rules only iptables-legacy-save shows. */
async function legacyTables(): Promise<string[]> {
  const lines: string[] = [];
  for (const program of ["iptables", "ip6tables"]) {
    const file = `/proc/net/${program.replace("tables", "_tables")}_names`;
    // It is there only while the kernel has such tables.
    const names = await Deno.readTextFile(file).catch(() => "");
    if (names === "") continue;
    lines.push(
      `${program}-legacy has ${
        names.trim().replaceAll("\n", ", ")
      }: see ${program}-legacy-save on the node`,
    );
  }
  return lines;
}

async function withRoutes(
  read: (socket: RouteSocket) => Promise<readonly string[]>,
): Promise<string> {
  using socket = RouteSocket.open();
  return linesText(await read(socket));
}

function linesText(lines: readonly string[]): string {
  return lines.map((line) => `${line}\n`).join("");
}

export function linkText(
  link: Link,
  addresses: readonly AddressEntry[],
): string {
  const { up, lowerUp, kind, mac, group, masterIndex, peerIndex } = link;
  const first = words([
    `${link.index}: ${link.name}:`,
    up ? "up" : "down",
    lowerUp ? "lower-up" : "no-carrier",
    ["mtu", link.mtu],
    ["kind", kind],
    ["mac", mac],
    ["group", group || undefined],
    ["master", masterIndex],
    ["peer", peerIndex],
    ["peer-netnsid", link.peerNetnsId],
    ["alias", link.alias],
  ]);
  const rest = addresses.map(({ prefix, scope, peer, tentative }) =>
    words([
      `    ${prefix.address}/${prefix.length}`,
      ["peer", peer],
      ["scope", scope],
      tentative ? "tentative" : undefined,
    ])
  );
  return [first, ...rest].join("\n");
}

export function routeText(
  route: Route,
  names: ReadonlyMap<number, string>,
): string {
  const hopText = ({ gateway, index }: Pick<Route, "gateway" | "index">) =>
    words([
      ["via", gateway],
      ["dev", index === undefined ? undefined : names.get(index) ?? index],
    ]);
  return words([
    `${route.family} table ${route.table}:`,
    route.type === "unicast" ? undefined : `${route.type}`,
    `${route.destination ?? "default"}`,
    hopText(route),
    ...(route.hops ?? []).map((hop) => `nexthop ${hopText(hop)}`),
    ["proto", route.protocol],
    ["scope", route.scope],
    ["src", route.source],
    ["metric", route.metric],
    route.onLink === true ? "onlink" : undefined,
  ]);
}

/** Words and values with their names, without those that are absent. */
function words(
  parts: readonly (string | undefined | readonly [string, unknown])[],
): string {
  return parts.flatMap((part) => {
    if (typeof part !== "object") return part || [];
    const [name, value] = part;
    return value === undefined ? [] : [`${name} ${value}`];
  }).join(" ");
}
