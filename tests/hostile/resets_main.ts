/**
 * The attacker of reset_connections_test.ts, a program in a pod: it connects to each address and resets the connection
 * at once, BURST times as fast as it can and then RATE times a second. It writes a line after the burst, and goes on.
 *
 *   resets_main.ts BURST RATE IPV4:PORT...
 */
import { endianness } from "node:os";

/** Of `<linux/socket.h>` and its kin. */
const AF_INET = 2;
const SOCK_STREAM = 1;
const SOL_SOCKET = 1;
const SO_LINGER = 13;
const SO_SNDTIMEO = 21;

const { symbols: libc } = Deno.dlopen("libc.so.6", {
  socket: { parameters: ["i32", "i32", "i32"], result: "i32" },
  setsockopt: {
    parameters: ["i32", "i32", "i32", "buffer", "u32"],
    result: "i32",
  },
  connect: { parameters: ["i32", "buffer", "u32"], result: "i32" },
  close: { parameters: ["i32"], result: "i32" },
});

const [burst, rate, ...targets] = Deno.args;
/** struct linger: on, for no time: close() sends RST. */
const LINGER = new Int32Array([1, 0]);
/** struct timeval: a full queue does not hold the attack up. */
const A_SECOND = new BigInt64Array([1n, 0n]);

/** struct sockaddr_in */
function socketAddress(target: string): Uint8Array<ArrayBuffer> {
  const [host = "", port] = target.split(":");
  const address = new DataView(new ArrayBuffer(16));
  address.setUint16(0, AF_INET, endianness() === "LE");
  address.setUint16(2, Number(port));
  host.split(".").forEach((byte, n) => address.setUint8(4 + n, Number(byte)));
  return new Uint8Array(address.buffer);
}

/** Whether there was a connection. */
function reset(address: Uint8Array<ArrayBuffer>): boolean {
  const socket = libc.socket(AF_INET, SOCK_STREAM, 0);
  libc.setsockopt(socket, SOL_SOCKET, SO_LINGER, LINGER, 8);
  libc.setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, A_SECOND, 16);
  const isConnected = libc.connect(socket, address, address.length) === 0;
  libc.close(socket);
  return isConnected;
}

const addresses = targets.map(socketAddress);
let count = 0;
for (const address of addresses) {
  for (let n = 0; n < Number(burst); n++) count += Number(reset(address));
}
// deno-lint-ignore no-console -- the test reads it
console.log(`reset ${count}`);
setInterval(() => addresses.forEach(reset), 1_000 / Number(rate));
