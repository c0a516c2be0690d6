// `ipam_program.ts BLOCKS LENGTH`: times of a NodeIpam with so many blocks of
// that prefix length, in milliseconds, as JSON.
import { Address, Prefix } from "../../lib/inet/mod.ts";
import {
  type BlockInfo,
  type BlockSource,
  type KernelPod,
  NodeIpam,
} from "../../lib/ipam/mod.ts";

/** What is measured, by name: samples in milliseconds. */
export interface IpamTimes {
  readonly start: readonly number[];
  readonly startFull: readonly number[];
  readonly allocate: readonly number[];
  readonly release: readonly number[];
}

const POOL = "pool";
const STARTS = 3;
const [count = 0, length = 0] = Deno.args.map(Number);
const size = 2 ** (32 - length);
const base = Address.parse("10.0.0.0");

const blocks = Array.from({ length: count }, (_, index): BlockInfo => ({
  name: `${POOL}-${index}`,
  pool: POOL,
  uid: `${index}`,
  index,
  prefixes: { ipv4: Prefix.of(base.offset(BigInt(index * size)), length) },
  reserved: false,
  deleting: false,
}));

const source: BlockSource = {
  list: () => Promise.resolve(blocks),
  request: () => new Promise(() => {}),
  release: () => Promise.resolve(),
  poolState: () => "ready",
  reserved: () => [],
};

async function timed(work: () => unknown): Promise<number> {
  const startedAt = performance.now();
  await work();
  // The look at all blocks that it has caused.
  await Promise.resolve();
  return performance.now() - startedAt;
}

function make(): NodeIpam {
  const routes = { sync: () => Promise.resolve() };
  const times = { cooldownMs: 30_000, returnDelayMs: 3_600_000 };
  return new NodeIpam({ source, routes, ...times });
}

async function startTimes(pods: readonly KernelPod[]): Promise<number[]> {
  const samples: number[] = [];
  for (let i = 0; i < STARTS; i++) {
    await using ipam = make();
    const { signal } = new AbortController();
    samples.push(await timed(() => ipam.start(pods, { signal })));
  }
  return samples;
}

const start = await startTimes([]);
await using ipam = make();
await ipam.start([], { signal: new AbortController().signal });
const allocate: number[] = [];
for (let n = 0; n < count * size; n++) {
  const key = { pool: POOL, containerId: `${n}`, ifname: "eth0" };
  allocate.push(await timed(() => ipam.allocate(key)));
}
const pods = ipam.list();
const release: number[] = [];
for (const key of pods) {
  release.push(
    await timed(() => {
      const releasing = ipam.beginRelease(key);
      if (releasing !== undefined) ipam.finishRelease(releasing);
    }),
  );
}
const startFull = await startTimes(pods);
const times: IpamTimes = { start, startFull, allocate, release };
Deno.stdout.writeSync(new TextEncoder().encode(JSON.stringify(times)));
