import { inNetns, Netns, openLibc } from "../../lib/linux/mod.ts";

openLibc(); // stays open, so it must not be counted as some test's leak

/** AF_PACKET of `<linux/socket.h>`, SOCK_RAW of `<linux/net.h>`. */
const AF_PACKET = 17;
const SOCK_RAW = 3;

const LIBC = {
  socket: { parameters: ["i32", "i32", "i32"], result: "i32" },
  bind: { parameters: ["i32", "buffer", "u32"], result: "i32" },
  send: { parameters: ["i32", "buffer", "usize", "i32"], result: "i32" },
  close: { parameters: ["i32"], result: "i32" },
} as const;

/**
 * Sends whole Ethernet frames by a link of another network namespace, as a
 * program in a container can that has `NET_RAW`.
 */
export class RawLink implements Disposable {
  readonly #libc: Deno.DynamicLibrary<typeof LIBC>;
  readonly #fd: number;

  /** Opens a socket for the link of that index in the namespace of that path. */
  constructor(netnsPath: string, index: number) {
    this.#libc = Deno.dlopen("libc.so.6", LIBC);
    const { symbols } = this.#libc;
    using netns = Netns.open(netnsPath);
    this.#fd = inNetns(netns, () => symbols.socket(AF_PACKET, SOCK_RAW, 0));
    // struct sockaddr_ll of <linux/if_packet.h>
    const address = new DataView(new ArrayBuffer(20));
    address.setUint16(0, AF_PACKET, true);
    address.setInt32(4, index, true);
    const bytes = new Uint8Array(address.buffer);
    if (this.#fd < 0 || symbols.bind(this.#fd, bytes, 20) < 0) {
      throw new Error(`Cannot open a packet socket in "${netnsPath}"`);
    }
  }

  /** Sends a frame; undefined is one that the kernel has no room for, which is tried again. */
  send(frame: Uint8Array<ArrayBuffer>): void {
    const { symbols } = this.#libc;
    const length = BigInt(frame.byteLength);
    for (let attempt = 0; attempt < 1_000; attempt++) {
      if (symbols.send(this.#fd, frame, length, 0) > 0) return;
    }
    throw new Error("Cannot send a frame: the kernel refuses it");
  }

  [Symbol.dispose](): void {
    this.#libc.symbols.close(this.#fd);
    this.#libc.close();
  }
}
