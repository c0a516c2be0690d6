import assert from "node:assert/strict";
import { abortable, sleep, withTimeout } from "../../lib/async/mod.ts";
import { Address, FAMILIES, type Family, Prefix } from "../../lib/inet/mod.ts";
import { Netns } from "../../lib/linux/mod.ts";
import {
  applyClient,
  type ClientGateway,
  type ClientPlan,
  type ClientReport,
  type ClientRequest,
  type EgressServer,
  planClient,
} from "../../lib/egress/mod.ts";
import { ConntrackSocket } from "../../lib/netlink/mod.ts";
import { eventually } from "../lab/wait.ts";
import { countEchoes } from "../netns/echoes.ts";
import {
  clientState,
  connectIn,
  listenIn,
} from "../netns/egress_client_lab.ts";
import type { TempNetns } from "../netns/testing.ts";
import {
  ADDRESSES,
  addressesOf,
  CLIENTS,
  type EgressLab,
  egressLab,
  PORT,
  shell,
} from "./egress_server_lab.ts";

/** Everything outside, for both families. */
export const EVERYWHERE = ["0.0.0.0/0", "::/0"] as const;

/** A second cluster address of the gateway. */
export const SECOND_SERVICE = {
  ipv4: "10.96.0.11",
  ipv6: "fd96::11",
} as const;

/** A real gateway, and a pod that becomes its client. */
export interface ClientLab extends AsyncDisposable {
  readonly lab: EgressLab;
  readonly client: TempNetns;
  /** The client's namespace, open. */
  readonly netns: Netns;
  readonly server: EgressServer;
  /** Plans and applies. */
  apply(
    gateways: readonly ClientGateway[],
    changes?: Partial<ClientRequest>,
  ): Promise<ClientReport>;
  /** See `clientState()`. */
  state(): Promise<string>;
}

/** Makes the namespaces of `egressLab()` and the gateway in them. */
export async function clientLab(
  options: { readonly servers?: boolean } = {},
): Promise<ClientLab> {
  await using stack = new AsyncDisposableStack();
  const lab = stack.use(await egressLab(options));
  await shell(lab.router, SECOND);
  const server = await lab.open();
  await server.setClients(CLIENTS);
  const netns = stack.use(Netns.open(lab.client.path));
  const resources = stack.move();
  return {
    lab,
    client: lab.client,
    netns,
    server,
    apply: (gateways, changes) =>
      applyClient(planOf(gateways, changes), { netns }),
    state: () => clientState(lab.client),
    [Symbol.asyncDispose]: () => resources.disposeAsync(),
  };
}

const SECOND = `nft -f - <<END
table inet second {
  chain prerouting {
    type nat hook prerouting priority dstnat
    ip daddr ${SECOND_SERVICE.ipv4} udp dport ${PORT} dnat ip to ${ADDRESSES.gateway.ipv4}
    ip6 daddr ${SECOND_SERVICE.ipv6} udp dport ${PORT} dnat ip6 to ${ADDRESSES.gateway.ipv6}
  }
}
END`;

/** The plan of the lab's client. */
export function planOf(
  gateways: readonly ClientGateway[],
  changes: Partial<ClientRequest> = {},
): ClientPlan {
  return planClient({
    addresses: addressesOf("client"),
    ifname: "eth0",
    mtu: 1500,
    port: PORT,
    gateways,
    originatingOnly: false,
    ...changes,
  });
}

/** The lab's Egress with these destinations. */
export function gatewayFor(
  destinations: readonly string[],
  changes: Partial<ClientGateway> = {},
): ClientGateway {
  const { ipv4, ipv6 } = addressesOf("gateway");
  return {
    name: "internet/egress",
    service: SERVICES[0],
    destinations: destinations.map(Prefix.parse),
    sourcePortAuto: true,
    senders: [ipv4, ipv6],
    available: FAMILIES,
    failurePolicy: "Closed",
    ...changes,
  };
}

/** The same, whose client chooses from its one gateway itself. */
export function directGatewayFor(
  destinations: readonly string[],
  changes: Partial<ClientGateway> = {},
): ClientGateway {
  const gateway = gatewayFor(destinations, changes);
  return { ...gateway, direct: gateway.senders };
}

/** The first and the second cluster address, parsed. */
export const SERVICES: readonly [Service, Service] = [
  parsed(ADDRESSES.service),
  parsed(SECOND_SERVICE),
];

type Service = ClientGateway["service"];

function parsed(texts: Readonly<Record<Family, string>>): Service {
  return { ipv4: Address.parse(texts.ipv4), ipv6: Address.parse(texts.ipv6) };
}

/** Answers before. */
const SOME = 5;
/** Some echo requests after, and time for the last answer. */
const SETTLE_MS = 500;

/** Echo requests to outside, one after the other, while something happens. Returns how many got no answer. */
export async function lostMeanwhile(
  { client }: ClientLab,
  family: Family,
  happens: () => Promise<void>,
): Promise<{ readonly sent: number; readonly lost: number }> {
  const host = ADDRESSES.outside[family];
  // Neighbours get to know each other first.
  await client.exec("ping", "-c1", "-w20", host);
  await using child = new Deno.Command("nsenter", {
    args: [`--net=${client.path}`, "ping", "-n", "-i0.05", "-W2", host],
    stdin: "null",
    stdout: "piped",
  }).spawn();
  let printed = "";
  const reading = (async () => {
    const texts = child.stdout.pipeThrough(new TextDecoderStream());
    for await (const text of texts) printed += text;
  })();
  try {
    // A busy machine takes its time to start it; before that it sends nothing, and a signal ends it without a summary.
    await eventually(
      "the first answers",
      () => [...printed.matchAll(/ ttl=/g)].length >= SOME,
    );
    await happens();
    await sleep(SETTLE_MS);
  } finally {
    // So it ends with a summary, and does not wait for what is under way.
    child.kill("SIGINT");
    await reading;
  }
  return countEchoes(printed);
}

/** A TCP connection of the client to the outside network. */
export interface OutsideConnection extends Disposable {
  readonly client: Deno.TcpConn;
  readonly outside: Deno.TcpConn;
}

/** Opens one. */
export async function connectOutside(
  { lab, netns }: ClientLab,
  family: Family,
): Promise<OutsideConnection> {
  using stack = new DisposableStack();
  using there = Netns.open(lab.outside.path);
  using listener = listenIn(there, family);
  const { port } = listener.addr;
  const to = { hostname: ADDRESSES.outside[family], port };
  const client = stack.use(await connectIn(netns, to));
  const outside = stack.use(await listener.accept());
  const owned = stack.move();
  return { client, outside, [Symbol.dispose]: () => owned.dispose() };
}

/** What takes longer has gone elsewhere. */
const ARRIVAL_MS = 20_000;

/** Sends a byte, which has to arrive. */
export async function send(
  from: Deno.TcpConn,
  to: Deno.TcpConn,
): Promise<void> {
  await from.write(new Uint8Array(1));
  const read = withTimeout(
    ARRIVAL_MS,
    (signal) => abortable(to.read(new Uint8Array(8)), signal),
  );
  assert.equal(await read, 1);
}

/** Has the client's kernel forget its TCP connections. Returns how many. */
export async function forgetTcp({ netns }: ClientLab): Promise<number> {
  using conntrack = ConntrackSocket.open({ netns });
  return await conntrack.deleteWhere(({ protocol }) => protocol === 6);
}
