import { abortable, writeAll } from "../../lib/async/mod.ts";
import type {
  ConnectQuestion,
  ProbeQuestion,
} from "../../lib/connectivity/mod.ts";
import { parseSeen, type Seen } from "./datagrams.ts";

/** Several packets of the largest MTU. */
const LARGE_BYTES = 32 * 1024;
const MAX_ANSWER_BYTES = 16 * 1024;

/** Asks a probe by TCP; a body makes packets as large as they can be. */
export async function askStream(
  { address, port, isLarge }: ProbeQuestion,
  signal: AbortSignal,
): Promise<Seen> {
  using socket = await Deno.connect({ hostname: address, port, signal });
  const body = new Uint8Array(isLarge ? LARGE_BYTES : 0);
  const head = [
    "POST / HTTP/1.1",
    "host: probe",
    "connection: close",
    `content-length: ${body.length}`,
  ].join("\r\n") + "\r\n\r\n";
  await abortable(
    exchange(socket, new TextEncoder().encode(head), body),
    signal,
  );
  const answer = await abortable(readAll(socket), signal);
  const seen = parseSeen(answer.split("\r\n\r\n")[1] ?? "");
  if (seen === undefined) throw new Error("what answers is not a probe");
  return seen;
}

/** Makes a connection and ends it. */
export async function connectOnly(
  { address, port }: ConnectQuestion,
  signal: AbortSignal,
): Promise<Record<string, never>> {
  using _socket = await Deno.connect({ hostname: address, port, signal });
  return {};
}

async function exchange(
  socket: Deno.Conn,
  head: Uint8Array,
  body: Uint8Array,
): Promise<void> {
  await writeAll(socket, head);
  await writeAll(socket, body);
}

async function readAll(socket: Deno.Conn): Promise<string> {
  const buffer = new Uint8Array(MAX_ANSWER_BYTES);
  let length = 0;
  while (length < buffer.length) {
    const count = await socket.read(buffer.subarray(length));
    if (count === null) break;
    length += count;
  }
  return new TextDecoder().decode(buffer.subarray(0, length));
}
