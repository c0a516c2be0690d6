/** Coil v1 for tests: its state in a real etcd, written as it wrote it, and pods wired as it wired them. */
import * as path from "node:path";
import {
  binDir,
  type ControlPlane,
  eventually,
  type LabNode,
  type LabProcess,
  run,
} from "../lab/mod.ts";
import { debianEtcd } from "../lab/debian_programs.ts";
import { BRIDGE_HOST } from "../lab/network.ts";
import { issueCertificate, sharedPki } from "../lab/pki.ts";
import type { Sandbox } from "./coild_lab.ts";

/** What v1's keys begin with. */
export const PREFIX = "/coil/";

/** In the control plane's network namespace, whose own etcd has 2379 and 2380. */
const CLIENT_PORT = 2479;
const PEER_PORT = 2480;
const UNUSED_PORT = 2481;

/** How a real etcd is started. */
export interface EtcdOptions {
  /** Debian's older release instead of the lab's own, with TLS that asks clients for a certificate. */
  readonly secured?: boolean;
}

/** A real etcd on the lab's bridge: no other lab has its ports. */
export class V1Etcd implements AsyncDisposable {
  static #started = 0;
  readonly url: string;
  readonly process: LabProcess;
  readonly #client: Deno.HttpClient;

  private constructor(
    url: string,
    process: LabProcess,
    client: Deno.HttpClient,
  ) {
    this.url = url;
    this.process = process;
    this.#client = client;
  }

  static async start(
    plane: ControlPlane,
    { secured = false }: EtcdOptions = {},
  ): Promise<V1Etcd> {
    const scheme = secured ? "https" : "http";
    const url = `${scheme}://${bridgeOf(plane)}:${CLIENT_PORT}`;
    const peerUrl = `http://127.0.0.1:${PEER_PORT}`;
    const id = `v1-etcd-${++V1Etcd.#started}`;
    const dataDir = path.join(plane.runDir, id);
    const process = await plane.startProcess({
      id,
      netns: plane.netns,
      ...(secured
        ? {
          command: debianEtcd(),
          args: await securedArgs(plane, { url, peerUrl, dataDir }),
        }
        : {
          command: path.join(binDir(), "etcd"),
          args: [
            ...["--data-dir", dataDir],
            ...["--client-url", url, "--peer-url", peerUrl],
          ],
        }),
    });
    const identity = secured ? await certificate(plane, "gateway") : undefined;
    const client = Deno.createHttpClient({
      caCerts: [plane.ca],
      ...(identity && {
        cert: await Deno.readTextFile(identity.cert),
        key: await Deno.readTextFile(identity.key),
      }),
    });
    const etcd = new V1Etcd(url, process, client);
    await eventually("etcd to answer", () => etcd.get("/"));
    return etcd;
  }

  /** Writes keys below v1's prefix, by etcd's own JSON gateway. */
  async put(entries: Readonly<Record<string, unknown>>): Promise<void> {
    for (const [key, value] of Object.entries(entries)) {
      const text = typeof value === "string" ? value : JSON.stringify(value);
      await this.post("/v3/kv/put", {
        key: base64(PREFIX + key),
        value: base64(text),
      });
    }
  }

  /** Removes a key below v1's prefix. */
  async remove(key: string): Promise<void> {
    await this.post("/v3/kv/deleterange", { key: base64(PREFIX + key) });
  }

  /** Value of a key; undefined when there is none. */
  async get(key: string): Promise<{ readonly value: string | undefined }> {
    const { kvs = [] } = await this.post("/v3/kv/range", {
      key: base64(PREFIX + key),
    }) as { kvs?: readonly { readonly value: string }[] };
    const [found] = kvs;
    if (found === undefined) return { value: undefined };
    const bytes = Uint8Array.fromBase64(found.value);
    return { value: new TextDecoder().decode(bytes) };
  }

  /** Calls the JSON gateway. */
  async post(path: string, body: unknown): Promise<unknown> {
    const response = await fetch(this.url + path, {
      client: this.#client,
      method: "POST",
      body: JSON.stringify(body),
    });
    const text = await response.text();
    if (response.ok) return JSON.parse(text);
    throw new Error(`Cannot post to etcd's ${path}: ${text}`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#client.close();
    await this.process.stop();
  }
}

async function securedArgs(
  plane: ControlPlane,
  options: { url: string; peerUrl: string; dataDir: string },
): Promise<string[]> {
  const { url, peerUrl, dataDir } = options;
  const server = await certificate(plane, "v1-etcd", [
    `IP:${bridgeOf(plane)}`,
  ]);
  return [
    ...["--data-dir", dataDir, "--log-level", "error"],
    ...["--listen-client-urls", url, "--advertise-client-urls", url],
    ...["--listen-peer-urls", peerUrl],
    ...["--cert-file", server.cert, "--key-file", server.key],
    ...["--trusted-ca-file", plane.caFile, "--client-cert-auth"],
  ];
}

/** Files of a certificate of the lab's authority. */
export async function certificate(
  plane: ControlPlane,
  user: string,
  names: readonly string[] = [],
): Promise<{ cert: string; key: string }> {
  const base = path.join(plane.runDir, `etcd-${user}`);
  return await issueCertificate(await sharedPki(), base, { user, names });
}

/** Files of a certificate of an authority that etcd does not trust. */
export async function foreignCertificate(
  plane: ControlPlane,
  user: string,
): Promise<{ cert: string; key: string }> {
  const pki = await sharedPki();
  const foreign = { ...pki, caCert: pki.frontCaCert, caKey: pki.frontCaKey };
  const base = path.join(plane.runDir, `foreign-${user}`);
  return await issueCertificate(foreign, base, { user });
}

/** Where an etcd could be, and is not. */
export function deadUrl(plane: ControlPlane): string {
  return `http://${bridgeOf(plane)}:${UNUSED_PORT}`;
}

function bridgeOf(plane: ControlPlane): string {
  return plane.subnet.address("ipv4", BRIDGE_HOST);
}

/** Base64 of a text, as the JSON gateway wants it. */
export function base64(text: string): string {
  return new TextEncoder().encode(text).toBase64();
}

/** A pool of v1, and which of its blocks which node has. */
export interface V1PoolSpec {
  readonly name: string;
  readonly bits: number;
  readonly subnets: readonly string[];
  /** CIDRs by node. */
  readonly blocks: Readonly<Record<string, readonly string[]>>;
}

/** Writes pools and blocks as v1 does. */
export async function writeV1Pools(
  etcd: V1Etcd,
  pools: readonly V1PoolSpec[],
): Promise<void> {
  for (const { name, bits, subnets, blocks } of pools) {
    await etcd.put({ [`pool/${name}`]: { subnets, block_size: bits } });
    for (const subnet of subnets) {
      const [base = ""] = subnet.split("/");
      const inside = (cidr: string) => isInside(cidr, subnet);
      const nodes = Object.fromEntries(
        Object.entries(blocks).map(([node, cidrs]) =>
          [node, cidrs.filter(inside)] as const
        ).filter(([, cidrs]) => cidrs.length > 0),
      );
      await etcd.put({
        [`subnet/${base}`]: "",
        [`block/${name}/${base}`]: { free: null, nodes },
      });
    }
  }
}

/** v1's addresses and routes on the nodes of a lab. */
export class V1Network {
  readonly #etcd: V1Etcd;
  readonly #pools: readonly V1PoolSpec[];
  readonly #next = new Map<string, number>();

  constructor(etcd: V1Etcd, pools: readonly V1PoolSpec[]) {
    this.#etcd = etcd;
    this.#pools = pools;
  }

  /** Exports the nodes' blocks, as v1's coild did: table 119, protocol 30, by way of lo. */
  async export(nodes: readonly LabNode[]): Promise<void> {
    for (const node of nodes) {
      await node.run("sysctl", "-qw", "net.ipv4.ip_forward=1");
      for (
        const cidr of this.#pools.flatMap((p) => p.blocks[node.name] ?? [])
      ) {
        await node.run(
          "ip",
          ...`route add ${cidr} dev lo table 119 proto 30`.split(" "),
        );
      }
    }
  }

  /** Gives a pod an address and connects it, as v1's CNI plugin did. */
  async add(sandbox: Sandbox, node: LabNode): Promise<string> {
    const { block, offset, address } = this.#take(sandbox.namespace, node.name);
    await this.#etcd.put({
      [`ip/${block}/${offset}`]: {
        container_id: sandbox.containerId,
        namespace: sandbox.namespace,
        pod: sandbox.name,
        created_at: "2020-01-01T00:00:00Z",
      },
    });
    const { netns } = sandbox;
    const host = await hostVethName(sandbox);
    const inPod = (...args: string[]) =>
      run("ip", ["-n", netns, ...args.flatMap((arg) => arg.split(" "))]);
    await inPod("link set lo up");
    await run("ip", [
      ...["-n", node.netns, "link", "add", host, "type", "veth"],
      ...["peer", "name", "eth0", "netns", netns],
    ]);
    await node.run(
      "ip",
      ...`addr add 169.254.1.1/32 dev ${host} scope link`.split(" "),
    );
    await node.run("ip", "link", "set", host, "up");
    await node.run(
      "ip",
      ...`route add ${address}/32 dev ${host} scope link`.split(" "),
    );
    await inPod(`addr add ${address}/32 dev eth0`);
    await inPod("link set eth0 up");
    await inPod("route add 169.254.1.1 dev eth0 scope link");
    await inPod("route add default via 169.254.1.1");
    return address;
  }

  #take(namespace: string, node: string) {
    const own = this.#pools.find(({ name }) => name === namespace) ??
      this.#pools.find(({ name }) => name === "default");
    for (const cidr of own?.blocks[node] ?? []) {
      const [block = "", length] = cidr.split("/");
      const offset = this.#next.get(cidr) ?? 0;
      if (offset >= 2 ** (32 - Number(length))) continue;
      this.#next.set(cidr, offset + 1);
      return { block, offset, address: plus(block, offset) };
    }
    throw new Error(`Cannot add a pod on ${node}: v1's blocks are full`);
  }
}

/** v1 names the host's end after the pod: SHA-1 of "NAMESPACE.NAME". */
async function hostVethName(
  { namespace, name }: Sandbox,
): Promise<string> {
  const text = new TextEncoder().encode(`${namespace}.${name}`);
  const hash = new Uint8Array(await crypto.subtle.digest("SHA-1", text));
  return `veth${hash.toHex().slice(0, 11)}`;
}

function plus(base: string, offset: number): string {
  return toText(toNumber(base) + offset);
}

function isInside(cidr: string, subnet: string): boolean {
  const [address = "", length = "0"] = subnet.split("/");
  const size = 2 ** (32 - Number(length));
  const from = toNumber(address);
  const at = toNumber(cidr.split("/")[0] ?? "");
  return at >= from && at < from + size;
}

function toNumber(address: string): number {
  return address.split(".").reduce(
    (sum, octet) => sum * 256 + Number(octet),
    0,
  );
}

function toText(value: number): string {
  return [24, 16, 8, 0].map((bits) => Math.floor(value / 2 ** bits) % 256)
    .join(".");
}
