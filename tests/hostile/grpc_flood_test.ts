import assert from "node:assert/strict";
import { encodeHeaders } from "../../lib/grpc/hpack.ts";
import {
  concatenate,
  CONNECTION_PREFACE,
  encodeFrame,
  Flag,
  FrameReader,
  FrameType,
} from "../../lib/grpc/http2_frames.ts";
import { frameMessage } from "../../lib/grpc/message_frame.ts";
import { type Coild, CoildLab } from "../apiserver/coild_lab.ts";
import { sleep } from "../lab/mod.ts";

/** RFC 9113, section 7. */
const ENHANCE_YOUR_CALM = 11;
/** proc_pid_stat(5). */
const TICKS_PER_SECOND = 100;
const FLOOD_MS = 3_000;

const HEAD = encodeHeaders([
  [":method", "POST"],
  [":scheme", "http"],
  [":path", "/pkg.cnirpc.CNI/Status"],
  ["content-type", "application/grpc"],
]);
const OPENING = concatenate([
  new TextEncoder().encode(CONNECTION_PREFACE),
  encodeFrame(FrameType.SETTINGS, {}),
]);

/** A call of STATUS, as fast as it can be made; reset at once if so wanted. */
function call(streamId: number, isReset: boolean): Uint8Array {
  const flags = Flag.END_HEADERS;
  return concatenate([
    encodeFrame(FrameType.HEADERS, { streamId, flags, payload: HEAD }),
    encodeFrame(FrameType.DATA, {
      ...{ streamId, flags: Flag.END_STREAM },
      payload: frameMessage(new Uint8Array()),
    }),
    ...(isReset
      ? [encodeFrame(FrameType.RST_STREAM, {
        ...{ streamId, payload: Uint8Array.of(0, 0, 0, 8) },
      })]
      : []),
  ]);
}

/** A program on the node that calls coild and calls it. */
class Flood implements AsyncDisposable {
  readonly #socket: Deno.UnixConn;
  readonly #reading: Promise<void>;
  readonly #writing: Promise<void>;
  #isOver = false;
  /** Code of the GOAWAY that coild sent. */
  goAwayCode: number | undefined;

  private constructor(socket: Deno.UnixConn, isReset: boolean) {
    this.#socket = socket;
    // coild may close the connection at any time.
    this.#reading = this.#read().catch(() => {});
    this.#writing = this.#write(isReset).catch(() => {});
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
    }
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

  await t.step(
    "calls that are reset at once end with GOAWAY, and ADD is served",
    async () => {
      await using flood = await Flood.start(coild, { isReset: true });
      const pod = await lab.createPod("reset");
      await coild.add(pod);
      await flood.ended;
      assert.equal(flood.goAwayCode, ENHANCE_YOUR_CALM);
      await coild.del(pod);
    },
  );

  await t.step(
    "calls that wait for their answers take half of a processor at most, and ADD is served",
    async () => {
      await using _flood = await Flood.start(coild, { isReset: false });
      const beforeMs = performance.now();
      const before = secondsOf(coild);
      await sleep(FLOOD_MS);
      const tookMs = performance.now() - beforeMs;
      const part = (secondsOf(coild) - before) * 1_000 / tookMs;
      assert.ok(part < 0.5, `${part} of a processor`);
      const pod = await lab.createPod("patient");
      await coild.add(pod);
      await coild.del(pod);
      assert.ok(coild.process.isRunning);
    },
  );
});
