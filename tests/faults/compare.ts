/** Whether kernel, API server, coild and what the runtime was told agree. */
import { Address, Prefix } from "../../lib/inet/mod.ts";
import { HUSK_ALIAS_PREFIX, LINK_ALIAS_PREFIX } from "../../lib/names/mod.ts";
import { eventually } from "../lab/mod.ts";
import type { Pod } from "./runtime.ts";
import { Violation } from "./runtime.ts";
import type { Daemon } from "./daemon.ts";
import { moreThan } from "./descriptors.ts";
import { BLOCK_SIZES, type Site } from "./site.ts";

/** Blocks, husks and memories come right within this, however loaded the machine is. */
const SETTLE_MS = 180_000;

interface Link {
  readonly name: string;
  readonly alias: string;
}

interface Route {
  readonly dst: string;
  readonly dev: string;
}

interface Rule {
  readonly table: string;
}

interface Block {
  readonly metadata: {
    readonly name: string;
    readonly deletionTimestamp?: string;
    readonly labels?: Record<string, string>;
  };
  readonly ipv4?: string | null;
  readonly ipv6?: string | null;
}

/** @throws {Violation} that lists what does not agree, when it does not come to agree. */
export async function assertAgreement(site: Site): Promise<void> {
  await untilNone("all to agree", () => disagreements(site));
}

/** After the last DEL. @throws {Violation} that lists what is left over. */
export async function assertNothingLeft(site: Site): Promise<void> {
  await untilNone("all to be gone", async () => {
    const left = await disagreements(site);
    for (const plural of ["addressblocks", "blockrequests"]) {
      for (const { metadata } of await site.list(plural)) {
        left.push(`${plural} ${metadata.name} is left`);
      }
    }
    for (const daemon of site.daemons) left.push(...await leftovers(daemon));
    return left;
  });
}

async function leftovers(daemon: Daemon): Promise<string[]> {
  const { node } = daemon;
  const left: string[] = [];
  const exported = await routesOf(daemon, 119);
  for (const { dst } of exported) left.push(`${node.name}: exports ${dst}`);
  // Its own network namespace is opened by the first call.
  const before = [...daemon.descriptors, "net"];
  const more = moreThan(before, await daemon.readDescriptors());
  if (more.length > 0) {
    left.push(`${node.name}: coild has not closed ${more.join(", ")}`);
  }
  return left;
}

async function untilNone(
  what: string,
  look: () => Promise<readonly string[]>,
): Promise<void> {
  let last: readonly string[] = [];
  try {
    await eventually(what, async () => {
      last = await look();
      return last.length === 0;
    }, { timeoutMs: SETTLE_MS, intervalMs: 100 });
  } catch (cause) {
    throw new Violation(
      last.length === 0 ? String(cause) : `not so: ${what}\n${last.join("\n")}`,
      { cause },
    );
  }
}

async function disagreements(site: Site): Promise<string[]> {
  const blocks = await site.list("addressblocks") as readonly Block[];
  const wrong: string[] = [...checkBlocks(blocks)];
  for (const [index, daemon] of site.daemons.entries()) {
    const pods = site.pods.filter(({ node }) => node === index);
    for (const text of await checkNode(daemon, pods, blocks)) {
      wrong.push(`${daemon.node.name}: ${text}`);
    }
  }
  const clients = site.pods.filter(({ isWhole }) => isWhole);
  wrong.push(
    ...(await Promise.all(clients.map((pod) => checkEgress(site, pod)))).flat(),
  );
  return wrong;
}

function* checkBlocks(blocks: readonly Block[]): Generator<string> {
  for (const [i, block] of blocks.entries()) {
    for (const other of blocks.slice(i + 1)) {
      if (
        !prefixesOf(block).some((p) =>
          prefixesOf(other).some((q) => p.overlaps(q))
        )
      ) {
        continue;
      }
      yield `blocks ${block.metadata.name} and ${other.metadata.name} overlap`;
    }
  }
}

async function checkNode(
  daemon: Daemon,
  pods: readonly Pod[],
  blocks: readonly Block[],
): Promise<string[]> {
  const [links, routes, exported, rules, counts] = await Promise.all([
    linksOf(daemon),
    routesOf(daemon, 116),
    routesOf(daemon, 119),
    rulesOf(daemon),
    countsOf(daemon),
  ]);
  const own = blocks.filter(({ metadata }) =>
    metadata.labels?.["coil.cybozu.com/node"] === daemon.node.name
  );
  return [
    ...pods.flatMap((
      pod,
    ) => [...checkPod(pod, { links, routes, blocks: own })]),
    ...checkLinks(links, pods),
    ...checkRoutes(routes, pods),
    ...checkExport(exported, { blocks: own, pods }),
    ...checkRules(rules),
    ...checkCounts(counts, pods),
    ...checkBlockCounts(counts, own),
  ];
}

function* checkPod(
  pod: Pod,
  { links, routes, blocks }: {
    readonly links: readonly Link[];
    readonly routes: readonly Route[];
    readonly blocks: readonly Block[];
  },
): Generator<string> {
  if (!pod.isWhole) return;
  const link = links.find(({ alias }) => isOf(alias, pod));
  if (link === undefined) return yield `${pod.name} has no link`;
  for (const address of pod.addresses) {
    const devs = routes.filter(({ dst }) => dst === address)
      .map(({ dev }) => dev);
    if (devs.join() !== link.name) {
      yield `${pod.name}: ${address} is routed to "${devs}", not ${link.name}`;
    }
    if (pod.isRobbed) continue;
    const isCovered = blocks.some((block) =>
      prefixesOf(block).some((p) => p.contains(Address.parse(address)))
    );
    if (!isCovered) {
      yield `${pod.name}: ${address} is in no block of the node`;
    }
  }
}

/** No link and no husk of anybody else than the pods that are attached. */
function* checkLinks(
  links: readonly Link[],
  pods: readonly Pod[],
): Generator<string> {
  for (const { name, alias } of links) {
    if (pods.some((pod) => pod.isWhole && isOf(alias, pod))) continue;
    yield `link ${name} "${alias}" is nobody's`;
  }
}

function* checkRoutes(
  routes: readonly Route[],
  pods: readonly Pod[],
): Generator<string> {
  const known = new Set(
    pods.filter(({ isWhole }) => isWhole).flatMap(({ addresses }) => addresses),
  );
  for (const { dst, dev } of routes) {
    if (!known.has(dst)) yield `route to ${dst} by ${dev} is nobody's`;
  }
}

/** Routing daemons learn the node's blocks from it. Of a block that is being deleted it may have either. */
function* checkExport(
  exported: readonly Route[],
  { blocks, pods }: {
    readonly blocks: readonly Block[];
    readonly pods: readonly Pod[];
  },
): Generator<string> {
  const has = new Set(exported.map(({ dst }) => networkOf(dst).toString()));
  for (const block of blocks) {
    const prefixes = prefixesOf(block).map((prefix) => prefix.toString());
    const missing = prefixes.filter((prefix) => !has.has(prefix));
    for (const prefix of prefixes) has.delete(prefix);
    if (block.metadata.deletionTimestamp !== undefined) continue;
    if (missing.length > 0) yield `does not export ${missing}`;
  }
  // A pod whose block was removed by force keeps its route.
  const robbed = pods.filter(({ isRobbed }) => isRobbed)
    .flatMap(({ addresses }) => addresses)
    .map((address) => networkOf(address).toString());
  for (const prefix of robbed) has.delete(prefix);
  for (const prefix of has) yield `exports ${prefix}, which is in no block`;
}

/** `ip` writes a network of one address without its length. */
function networkOf(text: string): Prefix {
  const address = Address.tryParse(text);
  return address === undefined ? Prefix.parse(text) : Prefix.host(address);
}

/** Without it the pods' routes are not looked at. */
function* checkRules(rules: readonly (readonly Rule[])[]): Generator<string> {
  for (const [i, family] of ["IPv4", "IPv6"].entries()) {
    if (rules[i]?.some(({ table }) => table === "116")) continue;
    yield `rule 2000 of ${family} is missing`;
  }
}

/** What coild believes. Damaged pods have their addresses until DEL, or until it finds that they are lost. */
function* checkCounts(
  counts: ReadonlyMap<string, number>,
  pods: readonly Pod[],
): Generator<string> {
  for (const pool of new Set(pods.map((pod) => pod.pool))) {
    const of = pods.filter((pod) =>
      pod.pool === pool && pod.phase === "attached"
    );
    const count = (state: string) =>
      counts.get(`coil_coild_addresses{pool="${pool}",state="${state}"}`) ?? 0;
    const whole = of.filter(({ isWhole }) => isWhole).length;
    const robbed = of.filter(({ isRobbed }) => isRobbed).length;
    const used = count("used") + count("quarantined");
    if (used < whole || used > of.length) {
      yield `coild counts ${used} addresses of pool ${pool}, the runtime ${whole} to ${of.length}`;
    }
    if (count("releasing") > 0) {
      yield `${count("releasing")} of ${pool} are being released`;
    }
    if (count("quarantined") > robbed) {
      yield `${
        count("quarantined")
      } of ${pool} are in quarantine, ${robbed} were robbed`;
    }
  }
  // Of a pod that is damaged nobody can tell, until its DEL.
  const attached = pods.filter(({ phase }) => phase === "attached");
  const least = attached.filter(isClient).length;
  const most = attached.filter((pod) => !pod.isWhole || isClient(pod)).length;
  const clients = counts.get("coil_coild_egress_clients") ?? 0;
  if (clients < least || clients > most) {
    yield `coild counts ${clients} egress clients, the runtime ${least} to ${most}`;
  }
  const husks = counts.get("coil_coild_husks") ?? 0;
  if (husks > 0) yield `${husks} husks`;
}

/** A block that was removed by force is none of coild's, once it has noticed. One that is being deleted gives no address any more. */
function* checkBlockCounts(
  counts: ReadonlyMap<string, number>,
  blocks: readonly Block[],
): Generator<string> {
  for (const [pool, size] of Object.entries(BLOCK_SIZES)) {
    const of = blocks.filter(({ metadata }) =>
      metadata.labels?.["coil.cybozu.com/pool"] === pool
    );
    const kept = of.filter(({ metadata }) =>
      metadata.deletionTimestamp === undefined
    );
    const count = ["free", "used", "releasing", "cooling", "reserved"]
      .map((state) => `coil_coild_addresses{pool="${pool}",state="${state}"}`)
      .reduce((sum, name) => sum + (counts.get(name) ?? 0), 0);
    if (count >= size * kept.length && count <= size * of.length) continue;
    yield `coild counts ${count} addresses in its blocks of pool ${pool}, the API server has ${kept.length} to ${of.length} blocks of ${size}`;
  }
}

function isClient({ isWhole, egress }: Pod): boolean {
  return isWhole && egress !== undefined;
}

async function checkEgress(site: Site, pod: Pod): Promise<string[]> {
  const client = await site.egress.plane.of(pod.sandbox);
  const has = (client?.tunnels.length ?? 0) > 0;
  if (has === (pod.egress !== undefined)) return [];
  const calls = (await site.egress.plane.callsOf(pod.sandbox)).slice(-8)
    .map(({ what, edge, locals, at }) => `${at} ${what} ${edge} ${locals}`);
  return [
    `${pod.name} asks for "${pod.egress ?? ""}" and has ${
      JSON.stringify(client?.tunnels ?? [])
    }, after ${calls.join("; ")}`,
  ];
}

function isOf(alias: string, { sandbox }: Pod): boolean {
  const { containerId, ifname } = sandbox;
  return alias.startsWith(LINK_ALIAS_PREFIX) &&
    alias.endsWith(`:${containerId}:${ifname}`);
}

async function linksOf({ node }: Daemon): Promise<readonly Link[]> {
  const text = await node.run("ip", "-j", "link", "show", "type", "veth");
  return (JSON.parse(text || "[]") as { ifname: string; ifalias?: string }[])
    .flatMap(({ ifname, ifalias = "" }) =>
      [LINK_ALIAS_PREFIX, HUSK_ALIAS_PREFIX].some((p) => ifalias.startsWith(p))
        ? [{ name: ifname, alias: ifalias }]
        : []
    );
}

async function routesOf({ node }: Daemon, table: number): Promise<Route[]> {
  const script = `ip -j -4 route show table ${table}; echo; ` +
    `ip -j -6 route show table ${table}`;
  // A table that never had a route does not exist: then `ip` prints a single bracket.
  const text = await node.run("sh", "-c", `(${script}) 2>/dev/null || true`);
  return text.split("\n").filter((line) => line.startsWith("[{"))
    .flatMap((line) => JSON.parse(line) as Route[]);
}

/** The rules of coild's priority, of IPv4 and IPv6. */
async function rulesOf({ node }: Daemon): Promise<Rule[][]> {
  return await Promise.all(["-4", "-6"].map(async (family) => {
    const args = ["-j", family, "rule", "show", "priority", "2000"];
    return JSON.parse(await node.run("ip", ...args) || "[]") as Rule[];
  }));
}

async function countsOf(
  { node }: Daemon,
): Promise<ReadonlyMap<string, number>> {
  const url = "http://127.0.0.1:9384/metrics";
  const text = await node.run("curl", "-sf", url);
  return new Map(
    text.split("\n").filter((line) => line.startsWith("coil_coild_"))
      .map((line) => [
        line.slice(0, line.lastIndexOf(" ")),
        Number(line.slice(line.lastIndexOf(" "))),
      ]),
  );
}

/** The networks of a block. */
export function prefixesOf({ ipv4, ipv6 }: Block): readonly Prefix[] {
  return [ipv4, ipv6].flatMap((text) => text ? [Prefix.parse(text)] : []);
}
