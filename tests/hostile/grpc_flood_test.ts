import assert from "node:assert/strict";
import { create, toBinary } from "@bufbuild/protobuf";
import { concatenate } from "../../lib/bytes/mod.ts";
import { CNIArgsSchema } from "../../lib/cnirpc/mod.ts";
import { codeName, GrpcError } from "../../lib/grpc/mod.ts";
import { callUnary } from "../../lib/grpc/testing.ts";
import { type Coild, CoildLab } from "../apiserver/coild_lab.ts";
import { awaitedLater, eventually, sleep } from "../lab/mod.ts";
import {
  data,
  frame,
  FrameReader,
  FrameType,
  headers,
  messageHead,
  OPENING,
  reset,
} from "./http2_client.ts";

/** RFC 9113, section 7. */
const ENHANCE_YOUR_CALM = 11;
/** proc_pid_stat(5). */
const TICKS_PER_SECOND = 100;
const FLOOD_MS = 3_000;
/** What 1,000 connections ask takes two minutes of half of a processor, on a busy machine twice as long and more. */
const TURN_MS = 600_000;

/** A call of STATUS, as fast as it can be made; reset at once if so wanted. */
function call(streamId: number, isReset: boolean): Uint8Array {
  return concatenate([
    headers(streamId, "/pkg.cnirpc.CNI/Status"),
    data(streamId, new Uint8Array()),
    ...(isReset ? [reset(streamId)] : []),
  ]);
}

/** A program on the node that calls coild and calls it. */
class Flood implements AsyncDisposable {
  readonly #socket: Deno.UnixConn;
  readonly #reading: Promise<void>;
  readonly #writing: Promise<void>;
  #isOver = false;
  /** How many calls it has made. */
  calls = 0;
  /** Code of the GOAWAY that coild sent. */
  goAwayCode: number | undefined;

  private constructor(socket: Deno.UnixConn, isReset: boolean) {
    this.#socket = socket;
    const check = (error: unknown) => this.#assertClosed(error);
    this.#reading = awaitedLater(this.#read().catch(check));
    this.#writing = awaitedLater(this.#write(isReset).catch(check));
  }

  static async start(
    coild: Coild,
    { isReset }: { readonly isReset: boolean },
  ): Promise<Flood> {
    const path = coild.socketPath;
    const socket = await Deno.connect({ transport: "unix", path });
    return new Flood(socket, isReset);
  }

  /** Resolves when coild has closed the connection. */
  get ended(): Promise<void> {
    return this.#reading;
  }

  async #write(isReset: boolean): Promise<void> {
    await this.#send(OPENING);
    for (let next = 1; !this.#isOver; next += 200) {
      const calls = Array.from({ length: 100 }, (_, n) => next + 2 * n);
      await this.#send(concatenate(calls.map((id) => call(id, isReset))));
      this.calls += calls.length;
    }
  }

  /** coild may close the connection at any time, and so does the test at its end. */
  #assertClosed(error: unknown): void {
    if (!this.#isOver && !isClosedByPeer(error)) throw error;
  }

  async #send(bytes: Uint8Array): Promise<void> {
    for (let rest = bytes; rest.length > 0;) {
      rest = rest.subarray(await this.#socket.write(rest));
    }
  }

  async #read(): Promise<void> {
    const reader = new FrameReader();
    const buffer = new Uint8Array(65_536);
    for (;;) {
      const count = await this.#socket.read(buffer);
      if (count === null) return;
      for (const frame of reader.push(buffer.slice(0, count))) {
        if (frame.type === FrameType.GOAWAY) {
          this.goAwayCode = frame.payload[7];
        }
      }
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isOver = true;
    this.#socket.close();
    await Promise.all([this.#reading, this.#writing]);
  }
}

/** Seconds of the processor that the daemon has had. */
function secondsOf({ process }: Coild): number {
  const stat = Deno.readTextFileSync(`/proc/${process.pid}/stat`);
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return (Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND;
}

Deno.test("one connection that floods coild does not take it from the others", async (t) => {
  await using lab = await CoildLab.start({ name: "grpcflood" });
  await lab.createPool("default", [{ ipv4: "10.100.0.0/26" }]);
  lab.granter.start();
  await using coild = await lab.startCoild();
  // Pages of the executable that the first calls bring into memory are not the flood's.
  const warm = await lab.createPod("warm");
  await coild.add(warm);
  await coild.del(warm);
  assert.match(await launch(coild.socketPath), /^COILCNI1\0/);

  await t.step(
    "calls that are reset at once end with GOAWAY, and ADD is served",
    async () => {
      const before = residentMiB(coild);
      await using flood = await Flood.start(coild, { isReset: true });
      const pod = await lab.createPod("reset");
      await coild.add(pod);
      await flood.ended;
      assert.equal(flood.goAwayCode, ENHANCE_YOUR_CALM);
      assert.match(await launch(coild.socketPath), /^COILCNI1\0/);
      await coild.del(pod);
      const grown = residentMiB(coild) - before;
      assert.ok(grown < 60, `${grown} MiB more`);
    },
  );

  await t.step(
    "calls that wait for their answers take half of a processor at most, and ADD is served",
    async () => {
      const heldMiB = residentMiB(coild);
      await using flood = await Flood.start(coild, { isReset: false });
      const beforeMs = performance.now();
      const before = secondsOf(coild);
      await sleep(FLOOD_MS);
      await eventually("enough calls", () => flood.calls >= 1_000);
      const tookMs = performance.now() - beforeMs;
      const part = (secondsOf(coild) - before) * 1_000 / tookMs;
      assert.ok(part < 0.5, `${part} of a processor`);
      assert.equal(flood.goAwayCode, undefined, "coild has ended the flood");
      const pod = await lab.createPod("patient");
      await coild.add(pod);
      await coild.del(pod);
      assert.match(await launch(coild.socketPath), /^COILCNI1\0/);
      const grown = residentMiB(coild) - heldMiB;
      assert.ok(grown < 60, `${grown} MiB more`);
    },
  );

  await t.step(
    "1,100 half-open connections are bounded, and ADD is served by both doors",
    async () => {
      const before = residentMiB(coild);
      using _connections = await Connections.open(
        coild.socketPath,
        1_100,
        // Nothing, or half of what opens one.
        (i) => OPENING.subarray(0, 20 * (i % 2)),
      );
      const pod = await lab.createPod("half");
      await coild.add(pod);
      await coild.del(pod);
      const answer = await launch(coild.socketPath);
      assert.match(answer, /^COILCNI1\0/);
      assert.ok(socketsOf(coild) < 1_100, `${socketsOf(coild)} sockets`);
      const grown = residentMiB(coild) - before;
      assert.ok(grown < 60, `${grown} MiB more`);
    },
  );

  await t.step(
    "1,000 connections that ask and ask, and take no answer, are bounded, and the plugins' door serves",
    async () => {
      const before = residentMiB(coild);
      using connections = await Connections.open(
        coild.socketPath,
        1_000,
        () => UNREAD,
      );
      assert.ok(connections.closed < 1_000, "none has asked anything");
      assert.match(await launch(coild.socketPath), /^COILCNI1\0/);
      // A call waits for its turn behind all of them: when it is answered, coild has read them.
      await coild.call("Status", undefined, { timeoutMs: TURN_MS });
      const grown = residentMiB(coild) - before;
      assert.ok(grown < 150, `${grown} MiB more`);
    },
  );

  await t.step(
    "messages of 20 MiB are refused, many at once take no memory that stays",
    async () => {
      const before = residentMiB(coild);
      const outcomes = await Promise.all(
        Array.from({ length: 8 }, () => large(coild.socketPath)),
      );
      assert.deepEqual([...new Set(outcomes)], ["ResourceExhausted"]);
      const grown = residentMiB(coild) - before;
      assert.ok(grown < 150, `${grown} MiB more`);
      const pod = await lab.createPod("small");
      await coild.add(pod);
      await coild.del(pod);
    },
  );
});

/** What a service is, asked 300 times by one who lets no byte of an answer out. */
const UNREAD = concatenate([
  OPENING,
  frame(FrameType.SETTINGS, { payload: Uint8Array.of(0, 4, 0, 0, 0, 0) }),
  headers(1, "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"),
  ...Array(6).fill(frame(FrameType.DATA, {
    streamId: 1,
    payload: concatenate(Array(50).fill(question("pkg.cnirpc.CNI"))),
  })),
]);

/** A message with field 4 of `ServerReflectionRequest`. */
function question(symbol: string): Uint8Array {
  const name = new TextEncoder().encode(symbol);
  return concatenate([
    messageHead(2 + name.length),
    Uint8Array.of(4 << 3 | 2, name.length),
    name,
  ]);
}

/** Whether coild has closed the connection. */
function isClosedByPeer(error: unknown): boolean {
  return error instanceof Deno.errors.BrokenPipe ||
    error instanceof Deno.errors.ConnectionReset;
}

/** Connections that stay. */
class Connections implements Disposable {
  readonly #sockets: Deno.UnixConn[] = [];
  /** How many were closed before they had sent anything. */
  closed = 0;

  static async open(
    path: string,
    size: number,
    firstBytes: (i: number) => Uint8Array,
  ): Promise<Connections> {
    const connections = new Connections();
    for (let i = 0; i < size; i++) {
      const socket = await connect(path);
      connections.#sockets.push(socket);
      try {
        await socket.write(firstBytes(i));
      } catch (error) {
        if (!isClosedByPeer(error)) throw error;
        connections.closed++;
      }
    }
    return connections;
  }

  [Symbol.dispose](): void {
    for (const socket of this.#sockets) socket.close();
  }
}

/** The kernel says no while as many wait as coild's socket lets wait. */
async function connect(path: string): Promise<Deno.UnixConn> {
  for (;;) {
    try {
      return await Deno.connect({ transport: "unix", path });
    } catch (error) {
      if (!(error instanceof Deno.errors.WouldBlock)) throw error;
      await sleep(10);
    }
  }
}

/** STATUS as the plugin asks it; the whole answer. */
async function launch(socketPath: string): Promise<string> {
  const encoder = new TextEncoder();
  const variables = encoder.encode(
    "CNI_COMMAND=STATUS\0CNI_PATH=/opt/cni/bin\0",
  );
  const stdin = encoder.encode(JSON.stringify({
    cniVersion: "1.1.0",
    name: "k8s-pod-network",
    type: "coil",
    socket: socketPath,
  }));
  const numbers = new Uint8Array(8);
  new DataView(numbers.buffer).setUint32(0, variables.length, true);
  new DataView(numbers.buffer).setUint32(4, stdin.length, true);
  const path = `${socketPath}.cni`;
  using socket = await Deno.connect({ transport: "unix", path });
  await socket.write(
    concatenate([encoder.encode("COILCNI1"), numbers, variables, stdin]),
  );
  return await new Response(socket.readable).text();
}

/** A call whose message is larger than coild takes. */
async function large(socketPath: string): Promise<string> {
  const args = create(CNIArgsSchema, { stdinData: new Uint8Array(20 << 20) });
  try {
    await callUnary({
      socketPath,
      method: "/pkg.cnirpc.CNI/Status",
      message: toBinary(CNIArgsSchema, args),
      timeoutMs: TURN_MS,
    });
    return "taken";
  } catch (error) {
    if (!(error instanceof GrpcError)) throw error;
    const name = codeName(error.code);
    return name === "ResourceExhausted" ? name : `${name}: ${error.message}`;
  }
}

function socketsOf({ process }: Coild): number {
  const directory = `/proc/${process.pid}/fd`;
  return [...Deno.readDirSync(directory)].filter(({ name }) => {
    try {
      return Deno.readLinkSync(`${directory}/${name}`).startsWith("socket:");
    } catch (error) {
      if (error instanceof Deno.errors.NotFound) return false; // closed since
      throw error;
    }
  }).length;
}

function residentMiB({ process }: Coild): number {
  const status = Deno.readTextFileSync(`/proc/${process.pid}/status`);
  return Number(/^VmRSS:\s+(\d+) kB/m.exec(status)?.[1]) / 1024;
}
